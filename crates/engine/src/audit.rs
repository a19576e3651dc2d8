//! Audit: what is recorded about every request and every end of a process, and the seam to whoever keeps it.
//!
//! The request path only fills in a small struct and hands it over; formatting, hiding secrets and hashing are
//! the sink's business, on its own thread. Contents never enter a record: [`Detail::Hidden`] carries a size.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::policy::Verdict;
use crate::process::ExitStatus;

/// Keeps records. Never makes the caller wait, and never loses a record silently: a loss is counted and recorded.
pub trait AuditSink: Send + Sync {
    /// Takes one record over.
    fn record(&self, record: AuditRecord);
}

/// One request that was answered, or one process that ended.
#[derive(Debug, Clone)]
pub struct AuditRecord {
    /// When it ended.
    pub time: SystemTime,
    /// Who asked, by what they proved, such as `token:ci` or `uid:1000`.
    pub caller: Arc<str>,
    /// Where they called from, if that is another machine.
    pub address: Option<Arc<str>>,
    /// The name the client gave itself.
    pub client: Arc<str>,
    /// The front end it came through.
    pub face: &'static str,
    /// The session it belongs to, if one was open.
    pub session: Option<Arc<str>>,
    /// What was asked for, in the word of the front end.
    pub operation: Cow<'static, str>,
    /// What it was asked with. The sink hides what looks like a secret.
    pub details: Vec<(Cow<'static, str>, Detail)>,
    /// What came of it.
    pub outcome: AuditOutcome,
    /// How the process ended, in the record of its end.
    pub exit: Option<ExitStatus>,
    /// How long it took.
    pub duration: Duration,
    /// What the policy said, when it was asked.
    pub decision: Option<PolicyOutcome>,
}

/// What a policy said about an operation, and what came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyOutcome {
    /// What it said.
    pub verdict: Verdict,
    /// The rule that decided, or the name of what decides when none does.
    pub rule: Arc<str>,
    /// How the question ended, when one was asked.
    pub approval: Option<ApprovalRecord>,
}

/// How a question to a person ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRecord {
    /// The question; nothing when an earlier answer held for this operation too.
    pub id: Option<Arc<str>>,
    /// Who answered, by what they proved; nobody when it ended without an answer.
    pub by: Option<Arc<str>>,
    /// How far an approval reaches, in the word of the answer.
    pub scope: Option<&'static str>,
    /// How it ended.
    pub outcome: ApprovalOutcome,
}

/// How a question to a person ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalOutcome {
    /// It was approved.
    Approved,
    /// It was denied.
    Denied,
    /// Nobody answered in time.
    TimedOut,
    /// Whoever asked went away, or the daemon stopped.
    Withdrawn,
}

impl ApprovalOutcome {
    /// The word in the audit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::TimedOut => "timed_out",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// One parameter of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detail {
    /// A path, a name, a pattern.
    Text(String),
    /// A program and its arguments; secrets among them are hidden word by word.
    Argv(Vec<String>),
    /// Text for a shell; secrets within are hidden.
    Shell(String),
    /// Several plain texts, such as the names of variables (never their values).
    List(Vec<String>),
    /// A count, a size, a time.
    Number(i64),
    /// A switch.
    Flag(bool),
    /// Contents, input, secrets: only their size is kept.
    Hidden {
        /// How many bytes there were.
        bytes: u64,
    },
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditOutcome {
    /// It was done; a few words on the result, such as `12 entries`.
    Done(Cow<'static, str>),
    /// It failed, with the front end's code and the message the client saw.
    Failed {
        /// The code the client got.
        code: i64,
        /// The message the client got.
        message: String,
    },
}

/// A sink that keeps nothing, for engines whose operator switched auditing off.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAudit;

impl AuditSink for NoAudit {
    fn record(&self, _record: AuditRecord) {}
}
