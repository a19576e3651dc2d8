//! A command of a session with the defaults of the operator: environment, sandbox, no input; and the record of its end.

use std::ffi::OsString;
use std::sync::Arc;

use engine::RootedPath;
use engine::process::{Process, ProcessSpec, Program, Stdin};
use wire::jsonrpc::RpcError;

use super::{Face, Session, SessionHandle};
use crate::core::Core;
use crate::core::sandbox::SandboxRefusal;
use crate::core::table::detail;
use crate::observe::metrics::ProcessOwner;

impl<F: Face> Session<F> {
    /// A command without input in a directory: the filtered environment, then these variables, under the operator's sandbox.
    pub fn command_spec(
        &self,
        argv: Vec<String>,
        variables: Vec<(String, String)>,
        cwd: RootedPath,
    ) -> Result<ProcessSpec, RpcError> {
        let policy = self.core.policy.current();
        let confined = self.sandbox.of_process(&policy, None, false).map_err(|refusal| match refusal {
            SandboxRefusal::Unknown(unknown) => RpcError::invalid_request(unknown.to_string()),
            SandboxRefusal::Failed(error) => F::error(error),
        })?;
        let mut env: Vec<(OsString, OsString)> = policy.environment.clone();
        let mut set = |name: &str, value: OsString| {
            env.retain(|(known, _)| known != name);
            env.push((name.into(), value));
        };
        set("PWD", cwd.as_path().into());
        if let Some(temp) = confined.temp {
            set("TMPDIR", temp.into());
        }
        for (name, value) in variables {
            set(&name, value.into());
        }
        Ok(ProcessSpec {
            program: Program::Argv(argv),
            arg0: None,
            name: None,
            cwd,
            env,
            terminal: None,
            stdin: Stdin::Empty,
            merges_stderr: false,
            side_pipes: None,
            end_grace: None,
            stop_after: None,
            output_limit: None,
            is_text: true,
            origin: F::NAME.into(),
            confinement: confined.confinement,
        })
    }
}

impl<F: Face> SessionHandle<F> {
    /// Counts a running process of the session whose log is not published, and records its end in the audit.
    pub fn record_process(&self, core: &Arc<Core>, process: &Process, operation: &'static str) {
        let gauge = core.metrics.process_started(ProcessOwner::Attached);
        let (core, requester, process) = (core.clone(), self.requester.clone(), process.clone());
        let tasks = core.tasks.clone();
        tasks.spawn(async move {
            // Only a process of a keeper can be gone before it has closed.
            let Ok(closed) = process.closed().await else { return };
            gauge.ended(closed.cause);
            let details = detail("process_id", &process.id().0);
            core.audit.record(requester.end_record(operation, details, &closed));
        });
    }
}
