//! Refusals in the log and in the audit: the first of each reason in a second, and how many more there were.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use engine::audit::{AuditOutcome, AuditRecord, AuditSink, Detail};
use tokio::time::Instant;

use super::refusal::Refusal;

/// How often one reason is told.
const EVERY: Duration = Duration::from_secs(1);
/// How many kinds of refusal are told apart; past it, all others count as one.
const MAX_KINDS: usize = 64;

/// Tells about refusals without letting those who cause them fill a disk. Cheap to share.
pub struct Refusals {
    audit: Arc<dyn AuditSink>,
    told: Mutex<BTreeMap<Kind, Told>>,
}

/// The listener, and why.
type Kind = (&'static str, &'static str);

#[derive(Debug)]
struct Told {
    last: Instant,
    /// How many since then were only counted.
    silent: u64,
}

impl fmt::Debug for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusals").field("told", &self.told).finish_non_exhaustive()
    }
}

impl Refusals {
    /// Tells the log and this sink.
    pub fn new(audit: Arc<dyn AuditSink>) -> Self {
        Self { audit, told: Mutex::default() }
    }

    /// Takes note of a refusal at a listener of this kind (`http`, `ws`, `unix`).
    pub fn note(&self, listener: &'static str, refusal: &Refusal, address: Option<&Arc<str>>) {
        if let Some(silent) = self.count((listener, refusal.reason)) {
            let from = address.map_or("this machine", |address| address);
            tracing::warn!(listener, reason = refusal.reason, from, silent, "refused: {refusal}");
            self.record(listener, Some(refusal), refusal.reason, (address.cloned(), silent));
        }
    }

    /// Tells what was only counted so far, for the end of a quiet time or of the daemon.
    pub fn summarise(&self) {
        let counted: Vec<(Kind, u64)> = {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let counted = told.iter().filter(|(_, told)| told.silent > 0);
            let counted = counted.map(|(kind, told)| (*kind, told.silent)).collect();
            told.retain(|_, told| now.duration_since(told.last) < EVERY);
            told.values_mut().for_each(|told| told.silent = 0);
            counted
        };
        for ((listener, reason), silent) in counted {
            tracing::warn!(listener, reason, silent, "refused more of the same");
            self.record(listener, None, reason, (None, silent));
        }
    }

    /// Whether to tell, and then how many of the same were not told before.
    fn count(&self, kind: Kind) -> Option<u64> {
        let now = Instant::now();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = if told.contains_key(&kind) || told.len() < MAX_KINDS { kind } else { ("other", "other") };
        match told.get_mut(&kind) {
            Some(told) if now.duration_since(told.last) < EVERY => {
                told.silent = told.silent.saturating_add(1);
                None
            }
            Some(told) => {
                told.last = now;
                Some(std::mem::take(&mut told.silent))
            }
            None => {
                told.insert(kind, Told { last: now, silent: 0 });
                Some(0)
            }
        }
    }

    fn record(
        &self,
        listener: &'static str,
        refusal: Option<&Refusal>,
        reason: &'static str,
        (address, silent): (Option<Arc<str>>, u64),
    ) {
        let message = refusal.map_or_else(|| "refused more of the same".to_owned(), ToString::to_string);
        self.audit.record(AuditRecord {
            time: SystemTime::now(),
            caller: Arc::from("unknown"),
            address,
            client: Arc::from(""),
            face: listener,
            session: None,
            operation: "refused".into(),
            details: vec![
                ("reason".into(), Detail::Text(reason.to_owned())),
                ("more".into(), Detail::Number(i64::try_from(silent).unwrap_or(i64::MAX))),
            ],
            outcome: AuditOutcome::Failed { code: refusal.map_or(0, |refusal| refusal.code), message },
            exit: None,
            duration: Duration::ZERO,
            decision: None,
        });
    }
}
