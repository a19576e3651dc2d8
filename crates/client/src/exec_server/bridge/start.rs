//! Starting: a command as an exec-server wants it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use wire::exec_server::v1::{EnvInherit, ExecEnvPolicy, ExecParams};
use wire::rexd::v1::{self, RpcError, UNLIMITED};

use super::processes::Known;
use super::session::MOST_PROCESSES;
use super::{Bridge, events, hold, refusal};

/// The only size an exec-server opens a terminal with.
const USUAL_SIZE: (i64, i64) = (80, 24);
/// Gives the terminal its size before the command has it.
const SIZED: &str = r#"stty cols "$1" rows "$2" 2>/dev/null; shift 2; exec "$@""#;

/// What both kinds of start have.
struct Start {
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
        ask: v1::ExecStart,
    ) -> Result<v1::ExecStartResult, RpcError> {
        refuse(ask.detach, ask.sandbox.as_deref())?;
        if ask.stdin.as_deref().is_some_and(|stdin| !stdin.is_empty()) {
            return Err(refusal::unsupported("stdin", "an exec-server cannot end a command's input"));
        }
        let argv = self.argv(ask.argv, ask.command, ask.shell, ask.login)?;
        let start = Start {
            argv,
            cwd: ask.cwd,
            env: ask.env,
            is_terminal: false,
            // Input that is empty is the one whose end can be given.
            has_input: ask.stdin.is_none(),
            timeout_ms: ask.timeout_ms,
            output_bytes: ask.max_output_bytes,
        };
        let known = self.start(start).await?;
        Ok(v1::ExecStartResult { process_id: known.id.clone(), started_at: known.started_at.clone() })
    }

    pub(super) async fn pty_open(&self, ask: v1::PtyOpen) -> Result<v1::PtyOpenResult, RpcError> {
        refuse(ask.detach, ask.sandbox.as_deref())?;
        let mut argv = self.argv(ask.argv, ask.command, ask.shell, ask.login.unwrap_or(true))?;
        let size = (ask.cols.unwrap_or(USUAL_SIZE.0), ask.rows.unwrap_or(USUAL_SIZE.1));
        if size != USUAL_SIZE {
            let (cols, rows) = (size.0.to_string(), size.1.to_string());
            let sized = ["sh", "-c", SIZED, "sh", &cols, &rows].map(str::to_owned);
            argv = sized.into_iter().chain(argv).collect();
        }
        let start = Start {
            argv,
            cwd: ask.cwd,
            env: ask.env,
            is_terminal: true,
            has_input: true,
            timeout_ms: ask.timeout_ms,
            output_bytes: None,
        };
        let known = self.start(start).await?;
        let (process_id, started_at) = (known.id.clone(), Some(known.started_at.clone()));
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
            (true, None) => Err(refusal::invalid("command", "a shell needs one")),
            (false, _) if argv.is_empty() => Err(refusal::invalid("argv", "it is empty")),
            (false, _) => Ok(argv),
        }
    }

    async fn start(&self, start: Start) -> Result<Arc<Known>, RpcError> {
        let is_full = {
            let mut processes = hold(&self.processes);
            if processes.len() as u64 >= MOST_PROCESSES {
                // What has ended was told; a session that lasts must not be full of it.
                processes.retain(|_, known| known.is_running());
            }
            processes.len() as u64 >= MOST_PROCESSES
        };
        if is_full {
            return Err(RpcError::resource_limit("too many processes in this session", MOST_PROCESSES));
        }
        let cwd = self.path(start.cwd.as_deref().unwrap_or_default());
        let params = ExecParams {
            process_id: self.client.fresh_name(),
            argv: start.argv.clone(),
            cwd: self.there(&cwd),
            env_policy: Some(policy(&start.env)),
            env: start.env.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
            tty: start.is_terminal,
            pipe_stdin: start.has_input && !start.is_terminal,
            ..ExecParams::default()
        };
        let program = start.argv.first().cloned().unwrap_or_default();
        let process = self.client.start(params).await.map_err(|error| match error.code() {
            Some(_) => refusal::of_start(error, &program),
            None => self.wrong(error),
        })?;
        let known =
            Arc::new(Known::new(process.process_id(), start.argv, cwd, (start.is_terminal, start.has_input)));
        hold(&self.processes).insert(known.id.clone(), known.clone());
        let bounds = events::Bounds {
            time: bounded(start.timeout_ms).map(Duration::from_millis),
            bytes: bounded(start.output_bytes),
        };
        let pump = events::Pump::new(self, known.clone(), process, bounds);
        tokio::spawn(pump.run());
        Ok(known)
    }
}

/// A bound that is one.
fn bounded(asked: Option<i64>) -> Option<u64> {
    asked.and_then(|asked| u64::try_from(asked).ok()).filter(|asked| (1..UNLIMITED).contains(asked))
}

fn refuse(detach: bool, sandbox: Option<&str>) -> Result<(), RpcError> {
    if detach {
        let reason = "what an exec-server runs ends with its session";
        return Err(refusal::unsupported("detach", reason));
    }
    match sandbox {
        Some(profile) => {
            let reason = format!("`{profile}` is not one of an exec-server's; its own operator confines it");
            Err(refusal::unsupported("sandbox", &reason))
        }
        None => Ok(()),
    }
}

/// The server's own environment, without what is to go.
fn policy(env: &BTreeMap<String, Option<String>>) -> ExecEnvPolicy {
    let gone = env.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.clone());
    ExecEnvPolicy {
        inherit: EnvInherit::All,
        ignore_default_excludes: true,
        exclude: gone.collect(),
        r#set: BTreeMap::new(),
        include_only: Vec::new(),
    }
}
