//! Resume keys: a client whose connection was lost before the response to `session.open` arrived sends the request again with
//! the same key, and continues the session that the first request has opened.
//!
//! The id of such a session is derived from its key, so that a key opens at most one session, even if the first request arrives
//! after the second. A daemon with listeners remembers the ids; daemons on standard streams find each other by a socket that is
//! named after the session.

use std::io;
use std::time::Duration;

use serde_json::json;
use wire::jsonrpc::RpcError;
use wire::rexd::v1::{self, codes};

use super::Rexd;
use super::errors::invalid;
use crate::core::resume::{self, ListeningSocket, MAX_RESEND_DELAY, SocketName};
use crate::core::session::Face as _;

/// The length of a key: long enough that it cannot be guessed.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 32..=128;

/// The key of a session.
pub(super) struct ResumeKey {
    key: String,
    session_id: String,
    /// The time since the first request with this key, if this is another one.
    resent_after: Option<Duration>,
    /// The name of the session's socket, where it has one.
    socket_name: Option<SocketName>,
}

impl ResumeKey {
    /// The key of a request to open a session; `None` without one, and where sessions cannot be resumed.
    pub(super) fn of(params: &v1::SessionOpen, face: &Rexd) -> Result<Option<ResumeKey>, RpcError> {
        let Some(key) = params.resume_key.clone().filter(|_| params.resume && face.may_resume) else {
            return Ok(None);
        };
        if !KEY_BYTES.contains(&key.len()) {
            return Err(invalid("resume_key", "must have 32 to 128 bytes"));
        }
        let resent_after = match params.resent_after_ms.map(u64::try_from).transpose() {
            Ok(age) => age.map(Duration::from_millis),
            Err(_) => return Err(invalid("resent_after_ms", "must not be negative")),
        };
        let session_id = resume::session_of_key(&face.key_salt, &key);
        Ok(Some(ResumeKey { key, session_id, resent_after, socket_name: None }))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.key
    }

    pub(super) fn session_id(&self) -> &str {
        &self.session_id
    }

    /// Whether the client has sent the request before.
    pub(super) fn is_resent(&self) -> bool {
        self.resent_after.is_some()
    }

    /// Reserves the key for a new session. Fails if the key has opened one, or may have.
    pub(super) fn reserve(&mut self, face: &Rexd) -> Result<Option<ListeningSocket>, RpcError> {
        let id = &self.session_id;
        let Some(resume) = &face.resume else {
            return match face.sessions().reserve(id, self.resent_after) {
                true => Ok(None),
                false => Err(used(id)),
            };
        };
        // Other daemons of this user may have received it.
        let is_late = self.resent_after.is_some_and(|age| age > MAX_RESEND_DELAY);
        if is_late || !face.sessions().reserve(id, None) {
            return Err(used(id));
        }
        match resume.reserve(id) {
            Ok((socket, name)) => {
                self.socket_name = Some(name);
                Ok(Some(socket))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists || self.is_resent() => {
                tracing::debug!(%error, session = id, "a resume key was refused");
                Err(used(id))
            }
            Err(error) => {
                tracing::warn!(%error, session = id, "no resume socket: the session ends with its streams");
                Ok(None)
            }
        }
    }

    /// No session was opened with it.
    pub(super) fn release(mut self, face: &Rexd) {
        face.sessions().release(&self.session_id);
        drop(self.socket_name.take());
    }

    /// The session ends. Unless its client has closed it, or has used it for nothing, a request that is sent again must not open
    /// another one.
    pub(super) fn end(mut self, is_done: bool) {
        drop(self.socket_name.take_if(|_| is_done && self.resent_after.is_none()));
    }
}

impl Drop for ResumeKey {
    fn drop(&mut self) {
        if let Some(name) = self.socket_name.take() {
            name.leave();
        }
    }
}

/// The key has opened a session that has ended, or may have: what the client started there may have run.
pub(super) fn used(session_id: &str) -> RpcError {
    let message = "the session of this resume_key has ended, or may have been opened before: use another key";
    RpcError::new(codes::UNAUTHORIZED, message)
        .with_data(json!({ "field": "resume_key", "session_id": session_id }))
}
