//! The trace of a request: the W3C `traceparent` header, and new trace and span ids.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// The length of a `traceparent` of version 00.
const LENGTH: usize = 55;
const SAMPLED: u8 = 1;

/// The parent span of a request, in another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent {
    /// 32 lower-case hexadecimal digits, not all zero.
    pub(super) trace_id: String,
    /// 16 lower-case hexadecimal digits, not all zero.
    pub(super) span_id: String,
    flags: u8,
}

impl TraceParent {
    /// Parses a `traceparent`. A malformed value is ignored, as the standard requires.
    pub fn parse(value: &str) -> Option<TraceParent> {
        let value = value.trim_matches([' ', '\t']);
        let (known, rest) = value.split_at_checked(LENGTH)?;
        let mut fields = known.split('-');
        let (version, trace_id, span_id, flags) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        // Later versions may append fields after a dash; version 00 may not, and ff is invalid.
        let fits = version != "ff" && (rest.is_empty() || (version != "00" && rest.starts_with('-')));
        let is_whole = is_hex(version, 2) && is_id(trace_id, 32) && is_id(span_id, 16) && is_hex(flags, 2);
        if !fits || !is_whole || fields.next().is_some() {
            return None;
        }
        let flags = u8::from_str_radix(flags, 16).ok()?;
        Some(TraceParent { trace_id: trace_id.to_owned(), span_id: span_id.to_owned(), flags })
    }

    /// Whether the trace is sampled.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn is_id(text: &str, digits: usize) -> bool {
    is_hex(text, digits) && text.bytes().any(|byte| byte != b'0')
}

/// A generator of unique ids, which need not be secret: the keyed hashes of a counter.
#[derive(Debug, Default)]
pub(super) struct IdGenerator {
    hashes: RandomState,
    next: AtomicU64,
}

impl IdGenerator {
    /// A new trace id and a new span id.
    pub(super) fn next(&self) -> (String, String) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let [high, low, span] = [0, 1, 2].map(|part| self.hashes.hash_one((number, part)));
        // An id of zeros is invalid.
        (format!("{high:016x}{:016x}", low.max(1)), format!("{:016x}", span.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_malformed_parent_is_ignored() {
        let parent = TraceParent::parse(GOOD).unwrap();
        assert_eq!(parent.trace_id, "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(parent.span_id, "b7ad6b7169203331");
        assert!(parent.is_sampled());
        assert!(!TraceParent::parse(&GOOD.replace("-01", "-00")).unwrap().is_sampled());
        assert!(TraceParent::parse(&GOOD.replace("00-", "cc-")).is_some());
        assert!(TraceParent::parse(&format!("{}-what", GOOD.replace("00-", "cc-"))).is_some());
        let bad = [
            String::new(),
            GOOD.to_uppercase(),
            GOOD.replace("00-", "ff-"),
            format!("{GOOD}-what"),
            format!("{}what", GOOD.replace("00-", "cc-")),
            GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            GOOD.replace("b7ad6b7169203331", "b7ad6b716920333g"),
            GOOD[..54].to_owned(),
            "é".repeat(40),
        ];
        for value in bad {
            assert_eq!(TraceParent::parse(&value), None, "{value}");
        }
    }

    #[test]
    fn ids_are_well_formed_and_unique() {
        let ids = IdGenerator::default();
        let many: std::collections::HashSet<_> = (0..10_000).map(|_| ids.next()).collect();
        assert_eq!(many.len(), 10_000);
        assert!(many.iter().all(|(trace, span)| is_id(trace, 32) && is_id(span, 16)));
    }
}
