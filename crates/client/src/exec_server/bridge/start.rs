//! Starts processes: translates the params of `exec.start` and `pty.open`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use wire::exec_server::v1::{EnvInherit, ExecEnvPolicy, ExecParams};
use wire::rexd::v1::{self, RpcError, UNLIMITED};

use super::forward::{EventForwarder, ProcessLimits};
use super::processes::BridgeProcess;
use super::session::MAX_PROCESSES;
use super::{Bridge, errors, lock};

/// The size of every terminal that an exec-server opens.
const DEFAULT_SIZE: (i64, i64) = (80, 24);
/// Sets the size of the terminal, then runs the command.
const RESIZE_AND_RUN: &str = r#"stty cols "$1" rows "$2" 2>/dev/null; shift 2; exec "$@""#;

/// The params that both kinds of start share.
struct StartParams {
    argv: Vec<String>,
    cwd: Option<String>,
    env: BTreeMap<String, Option<String>>,
    is_terminal: bool,
    has_input: bool,
    timeout_ms: Option<i64>,
    output_bytes: Option<i64>,
}

impl Bridge {
    pub(super) async fn exec_start(
        self: &Bridge,
        params: v1::ExecStart,
    ) -> Result<v1::ExecStartResult, RpcError> {
        reject_unsupported(params.detach, params.sandbox.as_deref())?;
        if params.stdin.as_deref().is_some_and(|stdin| !stdin.is_empty()) {
            return Err(errors::unsupported("stdin", "an exec-server cannot close the input of a command"));
        }
        if params.merge_stderr {
            return Err(errors::unsupported("merge_stderr", "an exec-server has a pipe for each stream"));
        }
        let argv = self.argv(params.argv, params.command, params.shell, params.login)?;
        let start = StartParams {
            argv,
            cwd: params.cwd,
            env: params.env,
            is_terminal: false,
            // Only empty input can be closed: the process is started without a pipe.
            has_input: params.stdin.is_none() && !params.no_stdin,
            timeout_ms: params.timeout_ms,
            output_bytes: params.max_output_bytes,
        };
        let process = self.start(start).await?;
        Ok(v1::ExecStartResult { process_id: process.id.clone(), started_at: process.started_at.clone() })
    }

    pub(super) async fn pty_open(&self, params: v1::PtyOpen) -> Result<v1::PtyOpenResult, RpcError> {
        reject_unsupported(params.detach, params.sandbox.as_deref())?;
        let mut argv = self.argv(params.argv, params.command, params.shell, params.login.unwrap_or(true))?;
        let size = (params.cols.unwrap_or(DEFAULT_SIZE.0), params.rows.unwrap_or(DEFAULT_SIZE.1));
        if size != DEFAULT_SIZE {
            let (cols, rows) = (size.0.to_string(), size.1.to_string());
            let sized = ["sh", "-c", RESIZE_AND_RUN, "sh", &cols, &rows].map(str::to_owned);
            argv = sized.into_iter().chain(argv).collect();
        }
        let start = StartParams {
            argv,
            cwd: params.cwd,
            env: params.env,
            is_terminal: true,
            has_input: true,
            timeout_ms: params.timeout_ms,
            output_bytes: None,
        };
        let process = self.start(start).await?;
        let (process_id, started_at) = (process.id.clone(), Some(process.started_at.clone()));
        Ok(v1::PtyOpenResult { pty_id: process_id.clone(), process_id, started_at })
    }

    fn argv(
        &self,
        argv: Vec<String>,
        command: Option<String>,
        shell: bool,
        login: bool,
    ) -> Result<Vec<String>, RpcError> {
        match (shell, command) {
            (true, Some(line)) => {
                let flag = if login { "-lc" } else { "-c" };
                Ok(vec!["sh".to_owned(), flag.to_owned(), line])
            }
            (true, None) => Err(errors::invalid_field("command", "required with shell")),
            (false, _) if argv.is_empty() => Err(errors::invalid_field("argv", "empty")),
            (false, _) => Ok(argv),
        }
    }

    async fn start(&self, start: StartParams) -> Result<Arc<BridgeProcess>, RpcError> {
        let is_full = {
            let mut processes = lock(&self.processes);
            if processes.len() as u64 >= MAX_PROCESSES {
                // The exit of ended processes was sent; they must not fill a long session.
                processes.retain(|_, process| process.is_running());
            }
            processes.len() as u64 >= MAX_PROCESSES
        };
        if is_full {
            return Err(RpcError::resource_limit("too many processes in this session", MAX_PROCESSES));
        }
        let cwd = self.path(start.cwd.as_deref().unwrap_or_default());
        let env_policy = Some(env_policy(&start.env));
        let env: BTreeMap<String, String> =
            start.env.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        let params = ExecParams {
            process_id: self.client.unique_name(),
            argv: start.argv.clone(),
            cwd: self.remote_path(&cwd),
            env_policy,
            env: env.clone(),
            tty: start.is_terminal,
            pipe_stdin: start.has_input && !start.is_terminal,
            ..ExecParams::default()
        };
        let program = start.argv.first().cloned().unwrap_or_default();
        let process = match self.client.start(params).await {
            Ok(process) => process,
            Err(error) => return Err(self.start_error(error, &program, env).await),
        };
        let id = process.process_id();
        let record = BridgeProcess::new(id, start.argv, cwd, (start.is_terminal, start.has_input));
        let record = Arc::new(record);
        lock(&self.processes).insert(record.id.clone(), record.clone());
        let limits = ProcessLimits {
            time: limit(start.timeout_ms).map(Duration::from_millis),
            bytes: limit(start.output_bytes),
        };
        let forwarder = EventForwarder::new(self, record.clone(), process, limits);
        self.forwarders.spawn(forwarder.run());
        Ok(record)
    }
}

/// A limit of a request; `None` if it is absent or unlimited.
fn limit(param: Option<i64>) -> Option<u64> {
    param.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| (1..UNLIMITED).contains(limit))
}

fn reject_unsupported(detach: bool, sandbox: Option<&str>) -> Result<(), RpcError> {
    if detach {
        let reason = "the processes of an exec-server end with its session";
        return Err(errors::unsupported("detach", reason));
    }
    match sandbox {
        Some(profile) => {
            let reason =
                format!("an exec-server has no profile `{profile}`; its operator configures the sandbox");
            Err(errors::unsupported("sandbox", &reason))
        }
        None => Ok(()),
    }
}

/// The server's environment without the variables that are to be unset.
fn env_policy(env: &BTreeMap<String, Option<String>>) -> ExecEnvPolicy {
    let unset = env.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.clone());
    ExecEnvPolicy {
        inherit: EnvInherit::All,
        ignore_default_excludes: true,
        exclude: unset.collect(),
        r#set: BTreeMap::new(),
        include_only: Vec::new(),
    }
}
