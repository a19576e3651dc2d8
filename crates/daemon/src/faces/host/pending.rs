//! Operations that need an approval, on disk: a question survives the host, and its operation never runs twice.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::approval::ApprovalIdentity;
use engine::files::Durability;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use wire::hub::v1::PermissionDecided;
use wire::jsonrpc::RpcError;

use super::calls::Answer;
use crate::core::state::{create_private_dir, replace_private_file, to_ms};

/// How long the answer of an operation is kept for a repeated request.
const ANSWER_RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// An operation, as it is stored until its answer is not needed any more. It has the true parameters: the operation runs
/// with them after a restart.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PendingCall {
    pub(super) run_id: String,
    pub(super) kind: String,
    pub(super) request_id: String,
    pub(super) data: Box<RawValue>,
    /// The caller that made the request.
    pub(super) caller: String,
    pub(super) state: CallState,
    #[serde(default)]
    pub(super) approval: Option<StoredIdentity>,
    #[serde(default)]
    pub(super) answer: Option<StoredAnswer>,
    /// What a person decided.
    #[serde(default)]
    pub(super) decided: Option<PermissionDecided>,
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CallState {
    /// It waits for its approval.
    Waiting,
    /// It has begun: after a crash its outcome is in doubt.
    Running,
    /// It has an answer, whose event may not be in the journal.
    Done,
    /// The journal has the event of its answer.
    Reported,
}

/// An approval, so that a later daemon continues it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StoredIdentity {
    id: String,
    requested_at_ms: u64,
    expires_at_ms: u64,
}

/// The answer of an operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StoredAnswer {
    result: Option<Box<RawValue>>,
    error: Option<RpcError>,
}

impl From<&ApprovalIdentity> for StoredIdentity {
    fn from(identity: &ApprovalIdentity) -> StoredIdentity {
        StoredIdentity {
            id: identity.id.to_string(),
            requested_at_ms: to_ms(identity.requested_at),
            expires_at_ms: to_ms(identity.expires_at),
        }
    }
}

impl StoredIdentity {
    pub(super) fn identity(&self) -> ApprovalIdentity {
        let time = |ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(UNIX_EPOCH);
        ApprovalIdentity {
            id: self.id.as_str().into(),
            requested_at: time(self.requested_at_ms),
            expires_at: time(self.expires_at_ms),
        }
    }
}

impl StoredAnswer {
    pub(super) fn new(answer: &Answer) -> StoredAnswer {
        StoredAnswer { result: answer.as_ref().ok().cloned(), error: answer.as_ref().err().cloned() }
    }

    pub(super) fn answer(self) -> Answer {
        match (self.result, self.error) {
            (Some(result), _) => Ok(result),
            (None, Some(error)) => Err(error),
            (None, None) => Err(RpcError::internal("the stored answer is empty")),
        }
    }
}

/// The directory of these operations, one private file each. All functions block.
#[derive(Debug, Clone)]
pub(super) struct PendingDir(PathBuf);

impl PendingDir {
    pub(super) fn new(dir: PathBuf) -> PendingDir {
        PendingDir(dir)
    }

    fn file(&self, run_id: &str, kind: &str, request_id: &str) -> PathBuf {
        let mut digest = Sha256::new();
        for part in [run_id, kind, request_id] {
            digest.update(part.len().to_le_bytes());
            digest.update(part);
        }
        self.0.join(format!("{}.json", hex::encode(digest.finalize())))
    }

    /// The operation of a request.
    pub(super) fn find(&self, run_id: &str, kind: &str, request_id: &str) -> Option<PendingCall> {
        read(&self.file(run_id, kind, request_id))
    }

    /// Stores an operation; a reader sees the old state or the new one.
    pub(super) fn save(&self, call: &PendingCall) -> io::Result<()> {
        create_private_dir(&self.0)?;
        let path = self.file(&call.run_id, &call.kind, &call.request_id);
        replace_private_file(&path, &serde_json::to_vec(call)?, Durability::Synced)
    }

    /// All operations without a reported answer; answers past their retention are removed.
    pub(super) fn unfinished(&self) -> Vec<PendingCall> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let calls = entries.filter_map(|entry| {
            let path = entry.path();
            let call = read(&path).filter(|call| call.state != CallState::Reported);
            let modified =
                entry.metadata().and_then(|found| found.modified()).unwrap_or_else(|_| SystemTime::now());
            if call.is_none() && modified.elapsed().is_ok_and(|age| age > ANSWER_RETENTION) {
                // Tried again at the next start.
                std::fs::remove_file(&path).ok();
            }
            call
        });
        calls.collect()
    }
}

fn read(path: &Path) -> Option<PendingCall> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_found_by_its_request_and_is_unfinished_until_it_has_an_answer() {
        let dir = tempfile::tempdir().unwrap();
        let pending = PendingDir::new(dir.path().join("pending"));
        assert!(pending.unfinished().is_empty());
        let identity = ApprovalIdentity {
            id: "a_1".into(),
            requested_at: UNIX_EPOCH + Duration::from_millis(1_000),
            expires_at: UNIX_EPOCH + Duration::from_millis(9_000),
        };
        let mut call = PendingCall {
            run_id: "run-1".to_owned(),
            kind: "rpc.bash".to_owned(),
            request_id: "../any text".to_owned(),
            data: RawValue::from_string("{\"cmd\":\"true\"}".to_owned()).unwrap(),
            caller: "user:ann".to_owned(),
            state: CallState::Waiting,
            approval: Some(StoredIdentity::from(&identity)),
            answer: None,
            decided: None,
        };
        pending.save(&call).unwrap();
        let found = pending.unfinished();
        assert_eq!(found[0].approval.as_ref().unwrap().identity(), identity);
        assert_eq!(found[0].data.get(), call.data.get());
        call.state = CallState::Done;
        call.answer = Some(StoredAnswer::new(&Err(RpcError::invalid_request("denied"))));
        pending.save(&call).unwrap();
        assert_eq!(pending.unfinished()[0].state, CallState::Done);
        call.state = CallState::Reported;
        pending.save(&call).unwrap();
        assert!(pending.unfinished().is_empty());
        let done = pending.find("run-1", "rpc.bash", "../any text").unwrap();
        assert_eq!(done.answer.unwrap().answer().unwrap_err().message, "denied");
        assert!(pending.find("run-1", "rpc.fs.write", "../any text").is_none());
    }
}
