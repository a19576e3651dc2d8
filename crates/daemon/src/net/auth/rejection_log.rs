//! Rejected requests in the log and in the audit: the first of each reason per second, and the number of others.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use engine::audit::{AuditOutcome, AuditRecord, AuditSink, Detail};
use tokio::time::Instant;

use super::rejection::AuthRejection;

/// Each reason is logged once in this time.
const INTERVAL: Duration = Duration::from_secs(1);
/// The limit on kinds of rejection; further ones are counted together.
const MAX_KINDS: usize = 64;

/// Writes rejections to the log and to the audit at a bounded rate, so that a client cannot fill the disk.
pub struct RejectionLog {
    audit: Arc<dyn AuditSink>,
    kinds: Mutex<BTreeMap<Kind, KindState>>,
}

/// The listener and the reason.
type Kind = (&'static str, &'static str);

#[derive(Debug)]
struct KindState {
    last: Instant,
    /// Rejections since then, which were only counted.
    suppressed: u64,
}

impl fmt::Debug for RejectionLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RejectionLog").field("kinds", &self.kinds).finish_non_exhaustive()
    }
}

impl RejectionLog {
    /// Writes to the log and to this sink.
    pub fn new(audit: Arc<dyn AuditSink>) -> Self {
        Self { audit, kinds: Mutex::default() }
    }

    /// Records a rejection at a listener of this kind (`http`, `ws`, `unix`).
    pub fn record(&self, listener: &'static str, rejection: &AuthRejection, address: Option<&Arc<str>>) {
        if let Some(suppressed) = self.count((listener, rejection.reason)) {
            let from = address.map_or("this machine", |address| address);
            tracing::warn!(listener, reason = rejection.reason, from, suppressed, "rejected: {rejection}");
            let outcome = AuditOutcome::Failed { code: rejection.code, message: rejection.message.clone() };
            self.write((listener, rejection.reason), outcome, address.cloned(), suppressed);
        }
    }

    /// Writes the number of suppressed rejections, when the daemon stops.
    pub fn summarise(&self) {
        let counted: Vec<(Kind, u64)> = {
            let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let counted = kinds.iter().filter(|(_, state)| state.suppressed > 0);
            let counted = counted.map(|(kind, state)| (*kind, state.suppressed)).collect();
            kinds.retain(|_, state| now.duration_since(state.last) < INTERVAL);
            kinds.values_mut().for_each(|state| state.suppressed = 0);
            counted
        };
        for ((listener, reason), suppressed) in counted {
            let message = "further rejections for the same reason";
            tracing::warn!(listener, reason, suppressed, "{message}");
            let outcome = AuditOutcome::Failed { code: 0, message: message.to_owned() };
            self.write((listener, reason), outcome, None, suppressed);
        }
    }

    /// `Some` if this rejection is written: the number of the same kind that were not.
    fn count(&self, kind: Kind) -> Option<u64> {
        let now = Instant::now();
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let kind =
            if kinds.contains_key(&kind) || kinds.len() < MAX_KINDS { kind } else { ("other", "other") };
        match kinds.get_mut(&kind) {
            Some(state) if now.duration_since(state.last) < INTERVAL => {
                state.suppressed = state.suppressed.saturating_add(1);
                None
            }
            Some(state) => {
                state.last = now;
                Some(std::mem::take(&mut state.suppressed))
            }
            None => {
                kinds.insert(kind, KindState { last: now, suppressed: 0 });
                Some(0)
            }
        }
    }

    fn write(
        &self,
        (listener, reason): Kind,
        outcome: AuditOutcome,
        address: Option<Arc<str>>,
        suppressed: u64,
    ) {
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
                ("more".into(), Detail::Number(i64::try_from(suppressed).unwrap_or(i64::MAX))),
            ],
            outcome,
            exit: None,
            duration: Duration::ZERO,
            decision: None,
        });
    }
}
