//! The steps to a working target, tested in order; the first failure is reported with a hint.

use std::time::Duration;

use client::{
    Command, ConnectError, ConnectStep, Error, ProcessEventKind, Session, SessionOptions, Target, v1,
};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output;
use crate::route::Choice;

/// The timeout of a step that runs a command or writes a file.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);
/// After this time, the user is informed what `rex` is waiting for.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

/// The result of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) step: &'static str,
    /// `None` if the step was skipped because an earlier one failed.
    pub(super) ok: Option<bool>,
    pub(super) detail: String,
    pub(super) hint: Option<String>,
}

/// The results so far; each is printed when it is known.
#[derive(Debug)]
pub(super) struct Checks {
    json: bool,
    list: Vec<Check>,
}

impl Checks {
    pub(super) fn new(json: bool) -> Checks {
        Checks { json, list: Vec::new() }
    }

    pub(super) fn ok(&mut self, step: &'static str, detail: impl Into<String>) -> Result<(), Failure> {
        self.add(Check { step, ok: Some(true), detail: detail.into(), hint: None })
    }

    pub(super) fn failed(&mut self, step: &'static str, failure: &Failure) -> Result<(), Failure> {
        self.add(Check { step, ok: Some(false), detail: failure.message.clone(), hint: failure.hint.clone() })
    }

    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    pub(super) fn is_ok(&self) -> bool {
        self.list.iter().all(|check| check.ok == Some(true))
    }

    /// All results as JSON, including skipped steps.
    pub(super) fn to_json(&self) -> Vec<Value> {
        let one = |check: &Check| json!({ "step": check.step, "ok": check.ok, "detail": check.detail, "hint": check.hint });
        self.list.iter().map(one).collect()
    }

    fn add(&mut self, check: Check) -> Result<(), Failure> {
        if !self.json {
            let word = match check.ok {
                Some(true) => "ok",
                Some(false) => "failed",
                None => "-",
            };
            // Error output of a machine may have several lines; they are aligned.
            let detail = check.detail.trim_end().replace('\n', "\n                   ");
            output::line(format!("{word:<7} {:<10} {detail}", check.step).trim_end())?;
            if let Some(hint) = &check.hint {
                output::line(format_args!("{:<18} hint: {hint}", ""))?;
            }
        }
        self.list.push(check);
        Ok(())
    }

    /// Adds the remaining steps as skipped.
    fn skip_rest(&mut self, steps: &[&'static str]) -> Result<(), Failure> {
        for step in steps {
            if self.list.iter().all(|check| check.step != *step) {
                self.add(Check { step, ok: None, detail: String::new(), hint: None })?;
            }
        }
        Ok(())
    }
}

/// The steps of a kind of target, after its name is resolved.
fn steps(target: &Target) -> &'static [&'static str] {
    match target {
        Target::Local(_) => &["rexd", "session", "roots", "command", "file"],
        Target::Ssh(_) => &["reach", "log in", "rexd", "session", "roots", "command", "file"],
        Target::Unix(_) => &["reach", "session", "roots", "command", "file"],
        Target::Url(_) | Target::ExecServer(_) | Target::Hub(_) => {
            &["reach", "log in", "session", "roots", "command", "file"]
        }
    }
}

/// Tests every step to the target.
pub(super) async fn run(
    checks: &mut Checks,
    choice: &Choice,
    options: SessionOptions,
) -> Result<(), Failure> {
    let steps = steps(&choice.target);
    let opening =
        Session::open(choice.target.clone(), SessionOptions { reconnect_timeout: Duration::ZERO, ..options });
    let opened = with_notice(format_args!("connecting to {}", choice.target), opening).await;
    let session = match opened {
        Ok(session) => session,
        Err(error) => {
            record_failed_step(checks, choice, steps, error)?;
            return checks.skip_rest(steps);
        }
    };
    record_connected(checks, choice, steps, &session.open_result())?;
    if try_session(checks, choice, &session).await?.is_none() {
        checks.skip_rest(steps)?;
    }
    // The results are complete; an error while closing does not change them.
    session.close().await.ok();
    Ok(())
}

/// Waits for `work`; prints a note if it takes longer than a second.
pub(super) async fn with_notice<T>(what: impl std::fmt::Display, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    match tokio::time::timeout(NOTICE_AFTER, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            output::note(format_args!("{what} …"));
            work.await
        }
    }
}

/// Records the failed step, and the steps before it as passed.
fn record_failed_step(
    checks: &mut Checks,
    choice: &Choice,
    steps: &[&'static str],
    error: Error,
) -> Result<(), Failure> {
    let step = match &error {
        Error::Connect(error) => step_name(error, &choice.target),
        _ => "session",
    };
    for before in steps.iter().take_while(|before| **before != step) {
        checks.ok(before, "")?;
    }
    checks.failed(step, &error.into())
}

fn step_name(error: &ConnectError, target: &Target) -> &'static str {
    match (error.step, target) {
        (ConnectStep::Find | ConnectStep::Start, Target::Local(_)) => "rexd",
        (ConnectStep::Find | ConnectStep::Connect, _) => "reach",
        (ConnectStep::Authenticate, _) => "log in",
        (ConnectStep::Start, _) => "rexd",
        (ConnectStep::OpenSession, _) => "session",
    }
}

fn record_connected(
    checks: &mut Checks,
    choice: &Choice,
    steps: &[&'static str],
    opened: &v1::SessionOpenResult,
) -> Result<(), Failure> {
    // Both fields are rexd's own: other servers report only the protocol version.
    let version = match (opened.server_name.as_str(), opened.implementation_version.as_str()) {
        ("", _) | (_, "") => format!("server version {}", opened.server_version),
        (name, version) => format!("{name} {version}"),
    };
    for step in steps.iter().take_while(|step| **step != "roots") {
        match *step {
            "reach" => checks.ok(step, choice.target.to_string())?,
            "rexd" => checks.ok(step, version.clone())?,
            "session" if !steps.contains(&"rexd") => checks.ok(step, version.clone())?,
            "session" => checks.ok(step, opened.protocol.clone())?,
            step => checks.ok(step, "")?,
        }
    }
    let is_rexd =
        !matches!(choice.target, Target::ExecServer(_)) && !opened.implementation_version.is_empty();
    if is_rexd && opened.implementation_version != env!("CARGO_PKG_VERSION") {
        output::note(format_args!(
            "version mismatch: rex is {}, rexd on the target is {}; `rex target install` updates it",
            env!("CARGO_PKG_VERSION"),
            opened.implementation_version
        ));
    }
    Ok(())
}

/// Tests the session; `None` if a step failed.
async fn try_session(checks: &mut Checks, choice: &Choice, session: &Session) -> Result<Option<()>, Failure> {
    let opened = session.open_result();
    let Some(start) = choice.cwd.clone().or_else(|| opened.workspace_roots.first().cloned()) else {
        let none = Failure::new("no root is configured, so rexd allows no access")
            .hint("add [[security.allowed_roots]] to the config of rexd, or run `rex target install HOST --root DIR`");
        checks.failed("roots", &none)?;
        return Ok(None);
    };
    if !record(checks, "roots", with_timeout(roots(session, &start, choice)).await)? {
        return Ok(None);
    }
    if !record(checks, "command", with_timeout(command(session, &start)).await)? {
        return Ok(None);
    }
    Ok(record(checks, "file", with_timeout(file(session, &start)).await)?.then_some(()))
}

fn record(checks: &mut Checks, step: &'static str, done: Result<String, Failure>) -> Result<bool, Failure> {
    match done {
        Ok(detail) => checks.ok(step, detail).map(|()| true),
        Err(failure) => checks.failed(step, &failure).map(|()| false),
    }
}

async fn with_timeout(work: impl Future<Output = Result<String, Failure>>) -> Result<String, Failure> {
    tokio::time::timeout(STEP_TIMEOUT, work).await.unwrap_or_else(|_| {
        Err(Failure::new(format!("no response within {} s", STEP_TIMEOUT.as_secs()))
            .hint("a policy rule may require approval: `rex approvals list`"))
    })
}

async fn roots(session: &Session, start: &str, choice: &Choice) -> Result<String, Failure> {
    let stat =
        session.files().stat(start).await.map_err(Failure::from).map_err(|failure| match choice.cwd {
            Some(_) => Failure {
                message: format!("invalid working directory {start}: {}", failure.message),
                ..failure
            },
            None => failure,
        })?;
    if !matches!(stat.kind.as_deref(), Some("dir" | "symlink")) {
        return Err(Failure::new(format!("{start} is not a directory"))
            .hint("create it, or change defaultCwd of the target or the roots in the config of rexd"));
    }
    Ok(session.open_result().workspace_roots.join(", "))
}

async fn command(session: &Session, start: &str) -> Result<String, Failure> {
    let mut process = session.start(Command::argv(["uname", "-sm"]).cwd(start)).await?;
    let mut output_bytes = Vec::new();
    while let Some(event) = process.next().await? {
        match event.kind {
            ProcessEventKind::Stdout(bytes) => output_bytes.extend_from_slice(&bytes),
            ProcessEventKind::Exit(exit) if exit.status() == 0 => break,
            ProcessEventKind::Exit(exit) => {
                return Err(Failure::new(format!("`uname` failed with status {}", exit.status())));
            }
            _ => {}
        }
    }
    Ok(format!("uname: {}", String::from_utf8_lossy(&output_bytes).trim()))
}

async fn file(session: &Session, start: &str) -> Result<String, Failure> {
    let path = format!("{}/.rex-test-{}", start.trim_end_matches('/'), std::process::id());
    let read_only = |failure: Failure| match failure.hint {
        Some(_) => failure,
        None => failure
            .hint("check the permissions of the user on the target; a read-only target fails this step only"),
    };
    let files = session.files();
    files.write(&path, b"written by rex target test\n").await.map_err(Failure::from).map_err(read_only)?;
    files.remove(&path, false).await?;
    Ok(format!("written and removed in {start}"))
}
