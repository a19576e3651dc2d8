//! The session of a bridge: capabilities, working directory and close.

use wire::rexd::v1::{self, Encoding, LimitsReport, RpcError, UNLIMITED};

use super::{Bridge, lock};

/// The capabilities of the bridge; all others return an error.
const CAPABILITIES: &[&str] = &[
    "exec",
    "fs",
    "events",
    "pty",
    "login",
    "exec.input",
    "exec.list",
    "fs.edit",
    "fs.mkdir",
    "fs.remove",
    "fs.rename",
    "fs.copy",
    "fs.read.hash",
    "fs.stat.hash",
    "fs.write.hash",
    "fs.write.permissions",
    "fs.write.durable",
    "names_only",
    "session.set_cwd",
    "server.ping",
    "event_id",
    "cursor",
    "output_encoding",
    "no_stdin",
    "cancel",
];
/// Processes of one session.
pub(super) const MAX_PROCESSES: u64 = 1_024;

impl Bridge {
    pub(super) fn session_open(&self, params: v1::SessionOpen) -> Result<v1::SessionOpenResult, RpcError> {
        if params.output_encoding.as_deref() == Some("base64") {
            *lock(&self.encoding) = Encoding::Base64;
        }
        let version = self.info.as_ref().and_then(|info| info.executor_version.clone());
        Ok(v1::SessionOpenResult {
            session_id: self.session_id.clone(),
            protocol: v1::PROTOCOL.to_owned(),
            server_version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: CAPABILITIES.iter().map(|name| (*name).to_owned()).collect(),
            limits: limits(),
            workspace_roots: self.roots(),
            server_name: "exec-server".to_owned(),
            implementation_version: version.unwrap_or_else(|| "unknown".to_owned()),
            resume_token: None,
            lost: None,
            output_encoding: params.output_encoding.map(|_| lock(&self.encoding).as_str().to_owned()),
            compress: None,
            frames: None,
            max_frame_bytes: None,
            sandbox: None,
        })
    }

    pub(super) fn session_info(&self, _params: v1::SessionInfo) -> Result<v1::SessionInfoResult, RpcError> {
        let running = lock(&self.processes).values().filter(|process| process.is_running()).count();
        // A statement of its own: the lock is free again when the roots are read.
        let cwd = lock(&self.cwd).clone();
        Ok(v1::SessionInfoResult {
            session_id: self.session_id.clone(),
            cwd,
            workspace_roots: self.roots(),
            running_processes: running as u64,
            limits: limits(),
            client_name: None,
            last_event_id: None,
            capabilities: Vec::new(),
            host: None,
        })
    }

    /// The working directory and the root: an exec-server is not restricted to directories.
    fn roots(&self) -> Vec<String> {
        let mut roots = vec![lock(&self.cwd).clone(), "/".to_owned()];
        roots.dedup();
        roots
    }

    pub(super) async fn session_set_cwd(
        &self,
        params: v1::SessionSetCwd,
    ) -> Result<v1::SessionSetCwdResult, RpcError> {
        let path = self.path(&params.path);
        match self.metadata(&path).await? {
            Some(found) if found.is_directory => {}
            _ => return Err(super::errors::invalid_field("path", "not a directory")),
        }
        (*lock(&self.cwd)).clone_from(&path);
        Ok(v1::SessionSetCwdResult { ok: true, cwd: path })
    }

    pub(super) async fn session_close(&self, _params: v1::SessionClose) -> Result<v1::OkResult, RpcError> {
        self.end_all().await;
        Ok(v1::OkResult::DONE)
    }

    pub(super) fn server_ping(&self, _params: v1::ServerPing) -> Result<v1::ServerPingResult, RpcError> {
        Ok(v1::ServerPingResult { time: jiff::Timestamp::now().to_string() })
    }
}

/// An exec-server has no limits.
fn limits() -> LimitsReport {
    LimitsReport {
        default_timeout_ms: UNLIMITED,
        hard_timeout_ms: Some(UNLIMITED),
        max_output_bytes: UNLIMITED,
        hard_output_bytes: Some(UNLIMITED),
        max_file_read_bytes: Some(crate::files::READ_CHUNK_BYTES),
        max_processes_per_session: Some(MAX_PROCESSES),
        max_concurrent_sessions: Some(UNLIMITED),
    }
}
