//! Runs small commands on the exec-server, for operations that it has no method for.

use std::collections::BTreeMap;

use bytes::Bytes;
use wire::exec_server::code;
use wire::exec_server::v1::{EnvInherit, ExecEnvPolicy, ExecOutputStream, ExecParams, WriteStatus};
use wire::rexd::v1::RpcError;

use super::{Bridge, errors};
use crate::exec_server::error::ExecServerError;
use crate::exec_server::process::ExecServerEvent;

/// Bytes that are kept of each output stream of a command.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
/// Bytes of input in one request.
const INPUT_CHUNK_BYTES: usize = 256 * 1024;
/// Succeeds if the shell finds the program `$1`.
const FIND_PROGRAM: &str = r#"command -v -- "$1" >/dev/null 2>&1"#;

/// The result of a command.
struct CommandOutput {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Bridge {
    /// Runs a command and returns its output. If it fails, the last line of its standard error is the message.
    pub(super) async fn run_command(&self, argv: &[&str], input: Option<Bytes>) -> Result<String, RpcError> {
        let program = argv.first().copied().unwrap_or_default();
        let output = self.run(argv, BTreeMap::new(), input).await.map_err(|error| match error.code() {
            Some(_) => errors::start_error(&error, program, false),
            None => self.translate(error),
        })?;
        match output.code {
            Some(0) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            code => {
                let stderr = String::from_utf8_lossy(&output.stderr);
                let last = stderr.lines().next_back().unwrap_or("no error output");
                let code = code.map_or_else(|| "no status".to_owned(), |code| format!("status {code}"));
                Err(RpcError::invalid_params(format!("`{program}` on the target exited with {code}: {last}")))
            }
        }
    }

    /// Translates a failed start. exec-server reports a missing program only as text, so a shell with the same
    /// environment checks whether the program exists.
    pub(super) async fn start_error(
        &self,
        error: ExecServerError,
        program: &str,
        env: BTreeMap<String, String>,
    ) -> RpcError {
        match error.code() {
            None => self.translate(error),
            Some(code::INTERNAL_ERROR) => {
                let found = self.run(&["sh", "-c", FIND_PROGRAM, "sh", program], env, None).await;
                let is_missing = found.is_ok_and(|output| output.code.is_some_and(|code| code != 0));
                errors::start_error(&error, program, is_missing)
            }
            // The start was rejected before the program was looked up.
            Some(_) => errors::start_error(&error, program, false),
        }
    }

    async fn run(
        &self,
        argv: &[&str],
        env: BTreeMap<String, String>,
        input: Option<Bytes>,
    ) -> Result<CommandOutput, ExecServerError> {
        let params = ExecParams {
            process_id: self.client.unique_name(),
            argv: argv.iter().map(|argument| (*argument).to_owned()).collect(),
            cwd: self.remote_path("/"),
            env_policy: Some(ExecEnvPolicy {
                inherit: EnvInherit::All,
                ignore_default_excludes: false,
                exclude: Vec::new(),
                r#set: [("LC_ALL".to_owned(), "C.UTF-8".to_owned())].into(),
                include_only: Vec::new(),
            }),
            env,
            pipe_stdin: input.is_some(),
            ..ExecParams::default()
        };
        let mut process = self.client.start(params).await?;
        let mut rest = input.unwrap_or_default();
        while !rest.is_empty() {
            let chunk = rest.split_to(rest.len().min(INPUT_CHUNK_BYTES));
            if process.write(chunk).await?.status != WriteStatus::Accepted {
                break;
            }
        }
        let mut output = CommandOutput { code: None, stdout: Vec::new(), stderr: Vec::new() };
        while let Some(event) = process.next().await? {
            match event {
                ExecServerEvent::Output { stream, bytes } => {
                    let kept = match stream {
                        ExecOutputStream::Stderr => &mut output.stderr,
                        ExecOutputStream::Stdout | ExecOutputStream::Pty => &mut output.stdout,
                    };
                    let capacity = MAX_OUTPUT_BYTES.saturating_sub(kept.len()).min(bytes.len());
                    kept.extend(bytes.iter().take(capacity));
                }
                ExecServerEvent::Exited { exit_code, .. } => output.code = Some(exit_code),
                ExecServerEvent::Closed | ExecServerEvent::Lost { .. } => {}
            }
        }
        Ok(output)
    }
}
