//! Audit: the record of every request and of every process that ended, and the sink that stores it.
//!
//! The request path only fills in a small struct; formatting, redaction and hashing are done by the sink, on its own
//! thread. Contents never enter a record: [`Detail::Hidden`] carries a size.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::policy::Verdict;
use crate::process::ExitStatus;

/// Stores records. Never blocks the caller, and never loses a record silently: a loss is counted and recorded.
pub trait AuditSink: Send + Sync {
    /// Accepts one record, without waiting.
    fn record(&self, record: AuditRecord);
    /// Why a request may not run now: its record could not be kept. Almost always `None`.
    fn refusal(&self, _record: RecordPriority) -> Option<String> {
        None
    }
}

/// When a request is refused while records cannot be stored and wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordPriority {
    /// It is refused first.
    Normal,
    /// It is refused last: it only ends, releases or resumes something, and refusing it would keep work running that
    /// itself will be recorded.
    Reserved,
    /// It is never refused; while records wait, it has none.
    Unrecorded,
}

/// One request that was answered, or one process that ended.
#[derive(Debug, Clone)]
pub struct AuditRecord {
    /// When the request or the process ended.
    pub time: SystemTime,
    /// The authenticated caller, such as `token:ci` or `uid:1000`.
    pub caller: Arc<str>,
    /// The address of the caller, if that is another machine.
    pub address: Option<Arc<str>>,
    /// The client name sent by the client.
    pub client: Arc<str>,
    /// The face that served the request.
    pub face: &'static str,
    /// The session it belongs to, if one was open.
    pub session: Option<Arc<str>>,
    /// The method name in the protocol of the face.
    pub operation: Cow<'static, str>,
    /// The parameters. The sink redacts values that look like secrets.
    pub details: Vec<(Cow<'static, str>, Detail)>,
    /// The result of the request.
    pub outcome: AuditOutcome,
    /// How the process ended, in the record of its end.
    pub exit: Option<ExitStatus>,
    /// How long the request or the process took.
    pub duration: Duration,
    /// The decision of the policy, if one was made.
    pub decision: Option<PolicyOutcome>,
}

/// The decision of the policy about an operation, and the result of the approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyOutcome {
    /// The verdict of the policy.
    pub verdict: Verdict,
    /// The rule that decided, or the name of the default.
    pub rule: Arc<str>,
    /// How the approval request ended, if there was one.
    pub approval: Option<ApprovalRecord>,
}

/// The approval of an operation by a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRecord {
    /// The id of the approval request; `None` if an earlier decision covers this operation.
    pub id: Option<Arc<str>>,
    /// The authenticated approver; `None` if it ended without an answer.
    pub by: Option<Arc<str>>,
    /// The scope of the approval, as named in the answer.
    pub scope: Option<&'static str>,
    /// How the approval request ended.
    pub outcome: ApprovalOutcome,
}

/// How an approval request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalOutcome {
    /// It was approved.
    Approved,
    /// It was denied.
    Denied,
    /// No approver answered in time.
    TimedOut,
    /// The requester disconnected, or the daemon stopped.
    Withdrawn,
}

impl ApprovalOutcome {
    /// The value in the audit log.
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
    /// A program and its arguments; secrets among them are redacted one by one.
    Argv(Vec<String>),
    /// A command line for a shell; secrets in it are redacted.
    Shell(String),
    /// Several plain texts, such as the names of variables (never their values).
    List(Vec<String>),
    /// A count, a size, a time.
    Number(i64),
    /// A boolean option.
    Flag(bool),
    /// Contents, input or secrets: only their size is recorded.
    Hidden {
        /// How many bytes there were.
        bytes: u64,
    },
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditOutcome {
    /// Success, with a short summary such as `12 entries`.
    Done(Cow<'static, str>),
    /// Failure, with the code and the message that the client received.
    Failed {
        /// The code the client got.
        code: i64,
        /// The message the client got.
        message: String,
    },
}

/// A sink that discards all records, used when auditing is switched off.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAudit;

impl AuditSink for NoAudit {
    fn record(&self, _record: AuditRecord) {}
}
