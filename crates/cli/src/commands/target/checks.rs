//! The steps to a target that works, tried in their order; the first that fails says what to do.

use std::time::Duration;

use client::{
    Command, ConnectError, ConnectStep, Error, ProcessEventKind, Session, SessionOptions, Target, v1,
};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output;
use crate::route::Choice;
use crate::table::plain;

/// How long a command or a file may take there before the step has failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// After this long somebody who waits is told for what.
const SILENCE: Duration = Duration::from_secs(1);

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) step: &'static str,
    /// Nothing: not tried, since one before it failed.
    pub(super) ok: Option<bool>,
    pub(super) detail: String,
    pub(super) hint: Option<String>,
}

/// The checks so far, shown as they are made.
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

    /// Everything as JSON, with the steps that were not tried.
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
            // What a machine says may have many lines; they stay together.
            let detail =
                check.detail.trim_end().lines().map(plain).collect::<Vec<_>>().join("\n                   ");
            output::line(format!("{word:<7} {:<10} {detail}", check.step).trim_end())?;
            if let Some(hint) = &check.hint {
                output::line(format_args!("{:<18} next: {hint}", ""))?;
            }
        }
        self.list.push(check);
        Ok(())
    }

    /// Lists the steps that are left as not tried.
    fn skip_rest(&mut self, steps: &[&'static str]) -> Result<(), Failure> {
        for step in steps {
            if self.list.iter().all(|check| check.step != *step) {
                self.add(Check { step, ok: None, detail: String::new(), hint: None })?;
            }
        }
        Ok(())
    }
}

/// The steps that a kind of target has, after its name is known.
fn steps(target: &Target) -> &'static [&'static str] {
    match target {
        Target::Local(_) => &["rexd", "session", "roots", "command", "file"],
        Target::Ssh(_) => &["reach", "log in", "rexd", "session", "roots", "command", "file"],
        Target::Unix(_) => &["reach", "session", "roots", "command", "file"],
        Target::Url(_) | Target::ExecServer(_) => &["reach", "log in", "session", "roots", "command", "file"],
    }
}

/// Tries every step to the target.
pub(super) async fn run(
    checks: &mut Checks,
    choice: &Choice,
    options: SessionOptions,
) -> Result<(), Failure> {
    let steps = steps(&choice.target);
    let opening =
        Session::open(choice.target.clone(), SessionOptions { reconnect_timeout: Duration::ZERO, ..options });
    let opened = patiently(format_args!("connecting to {}", choice.target), opening).await;
    let session = match opened {
        Ok(session) => session,
        Err(error) => {
            blame(checks, choice, steps, error)?;
            return checks.skip_rest(steps);
        }
    };
    reached(checks, choice, steps, &session.open_result())?;
    if used(checks, choice, &session).await?.is_none() {
        checks.skip_rest(steps)?;
    }
    // What was tried is done; how the session ends changes nothing about that.
    session.close().await.ok();
    Ok(())
}

/// Waits, and says for what if it takes long.
pub(super) async fn patiently<T>(what: impl std::fmt::Display, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    match tokio::time::timeout(SILENCE, &mut work).await {
        Ok(done) => done,
        Err(_) => {
            output::remark(format_args!("{what} …"));
            work.await
        }
    }
}

/// Finds the step that failed; those before it went well.
fn blame(checks: &mut Checks, choice: &Choice, steps: &[&'static str], error: Error) -> Result<(), Failure> {
    let step = match &error {
        Error::Connect(error) => name_of(error, &choice.target),
        _ => "session",
    };
    for before in steps.iter().take_while(|before| **before != step) {
        checks.ok(before, "")?;
    }
    checks.failed(step, &error.into())
}

fn name_of(error: &ConnectError, target: &Target) -> &'static str {
    match (error.step, target) {
        (ConnectStep::Find | ConnectStep::Start, Target::Local(_)) => "rexd",
        (ConnectStep::Find | ConnectStep::Connect, _) => "reach",
        (ConnectStep::Authenticate, _) => "log in",
        (ConnectStep::Start, _) => "rexd",
        (ConnectStep::OpenSession, _) => "session",
    }
}

fn reached(
    checks: &mut Checks,
    choice: &Choice,
    steps: &[&'static str],
    opened: &v1::SessionOpenResult,
) -> Result<(), Failure> {
    // Both are additions of rexd's: another server tells only which version a client may count on.
    let version = match (opened.server_name.as_str(), opened.implementation_version.as_str()) {
        ("", _) | (_, "") => format!("a server of version {}", opened.server_version),
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
        output::remark(format_args!(
            "rex is {} and rexd there {}: rex target install updates it",
            env!("CARGO_PKG_VERSION"),
            opened.implementation_version
        ));
    }
    Ok(())
}

/// Uses the session; nothing if a step failed.
async fn used(checks: &mut Checks, choice: &Choice, session: &Session) -> Result<Option<()>, Failure> {
    let opened = session.open_result();
    let Some(start) = choice.cwd.clone().or_else(|| opened.workspace_roots.first().cloned()) else {
        let none = Failure::new("no root is configured there, so nothing is served")
            .hint("add [[security.allowed_roots]] to the config of rexd there, or rex target install HOST --root DIR");
        checks.failed("roots", &none)?;
        return Ok(None);
    };
    if !settle(checks, "roots", within(roots(session, &start, choice)).await)? {
        return Ok(None);
    }
    if !settle(checks, "command", within(command(session, &start)).await)? {
        return Ok(None);
    }
    Ok(settle(checks, "file", within(file(session, &start)).await)?.then_some(()))
}

fn settle(checks: &mut Checks, step: &'static str, done: Result<String, Failure>) -> Result<bool, Failure> {
    match done {
        Ok(detail) => checks.ok(step, detail).map(|()| true),
        Err(failure) => checks.failed(step, &failure).map(|()| false),
    }
}

async fn within(work: impl Future<Output = Result<String, Failure>>) -> Result<String, Failure> {
    tokio::time::timeout(PATIENCE, work).await.unwrap_or_else(|_| {
        Err(Failure::new(format!("no answer within {} s", PATIENCE.as_secs()))
            .hint("a rule of the operator may wait for somebody: rex approvals list"))
    })
}

async fn roots(session: &Session, start: &str, choice: &Choice) -> Result<String, Failure> {
    let stat =
        session.files().stat(start).await.map_err(Failure::from).map_err(|failure| match choice.cwd {
            Some(_) => Failure {
                message: format!("commands are to start in {start}: {}", failure.message),
                ..failure
            },
            None => failure,
        })?;
    if !matches!(stat.kind.as_deref(), Some("dir" | "symlink")) {
        return Err(Failure::new(format!("{start} is no directory there"))
            .hint("make it, or name another one: defaultCwd of the target, or the config of rexd there"));
    }
    Ok(session.open_result().workspace_roots.join(", "))
}

async fn command(session: &Session, start: &str) -> Result<String, Failure> {
    let mut process = session.start(Command::argv(["uname", "-sm"]).cwd(start)).await?;
    let mut said = Vec::new();
    while let Some(event) = process.next().await? {
        match event.kind {
            ProcessEventKind::Stdout(bytes) => said.extend_from_slice(&bytes),
            ProcessEventKind::Exit(exit) if exit.status() == 0 => break,
            ProcessEventKind::Exit(exit) => {
                return Err(Failure::new(format!("`uname` ended with status {}", exit.status())));
            }
            _ => {}
        }
    }
    Ok(format!("uname says {}", String::from_utf8_lossy(&said).trim()))
}

async fn file(session: &Session, start: &str) -> Result<String, Failure> {
    let path = format!("{}/.rex-test-{}", start.trim_end_matches('/'), std::process::id());
    let read_only = |failure: Failure| match failure.hint {
        Some(_) => failure,
        None => {
            failure.hint("may that user write there? A read-only target is fine if that is what you want")
        }
    };
    let files = session.files();
    files.write(&path, b"rex was here\n").await.map_err(Failure::from).map_err(read_only)?;
    files.remove(&path, false).await?;
    Ok(format!("written and removed in {start}"))
}
