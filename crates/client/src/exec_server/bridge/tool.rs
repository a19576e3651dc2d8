//! Small commands there, for what exec-server has no method for.

use bytes::Bytes;
use wire::exec_server::v1::{EnvInherit, ExecEnvPolicy, ExecParams, WriteStatus};
use wire::rexd::v1::RpcError;

use super::{Bridge, refusal};
use crate::exec_server::process::ExecServerEvent;

/// What is kept of a command's output.
const MOST_SAID: usize = 64 * 1024;
/// Bytes that are written to a command at once.
const PIECE: usize = 256 * 1024;

impl Bridge {
    /// Runs a command and gives what it wrote; its error output is the message if it fails.
    pub(super) async fn tool(&self, argv: &[&str], input: Option<Bytes>) -> Result<String, RpcError> {
        let params = ExecParams {
            process_id: self.client.fresh_name(),
            argv: argv.iter().map(|argument| (*argument).to_owned()).collect(),
            cwd: self.there("/"),
            env_policy: Some(ExecEnvPolicy {
                inherit: EnvInherit::All,
                ignore_default_excludes: false,
                exclude: Vec::new(),
                r#set: [("LC_ALL".to_owned(), "C.UTF-8".to_owned())].into(),
                include_only: Vec::new(),
            }),
            pipe_stdin: input.is_some(),
            ..ExecParams::default()
        };
        let program = argv.first().copied().unwrap_or_default();
        let started = self.client.start(params).await;
        let mut process = started.map_err(|error| refusal::of_start(error, program))?;
        let mut rest = input.unwrap_or_default();
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(PIECE));
            let written = process.write(piece).await.map_err(|error| self.wrong(error))?;
            if written.status != WriteStatus::Accepted {
                break;
            }
        }
        let (mut said, mut wrong, mut code) = (Vec::new(), Vec::new(), None);
        while let Some(event) = process.next().await.map_err(|error| self.wrong(error))? {
            match event {
                ExecServerEvent::Output { stream, bytes } => {
                    let kept = match stream {
                        wire::exec_server::v1::ExecOutputStream::Stderr => &mut wrong,
                        _ => &mut said,
                    };
                    let room = MOST_SAID.saturating_sub(kept.len()).min(bytes.len());
                    kept.extend(bytes.iter().take(room));
                }
                ExecServerEvent::Exited { exit_code, .. } => code = Some(exit_code),
                ExecServerEvent::Closed | ExecServerEvent::Lost { .. } => {}
            }
        }
        match code {
            Some(0) => Ok(String::from_utf8_lossy(&said).into_owned()),
            code => {
                let wrong = String::from_utf8_lossy(&wrong);
                let said = wrong.lines().next_back().unwrap_or("it said nothing");
                let code = code.map_or_else(|| "no status".to_owned(), |code| format!("status {code}"));
                Err(RpcError::invalid_params(format!("`{program}` there ended with {code}: {said}")))
            }
        }
    }
}
