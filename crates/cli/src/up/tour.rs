//! The steps of the demonstration; each one runs for real and checks its result.

use client::hub::HubClient;
use client::{Command, Error, ProcessEventKind, Session, v1};

use super::daemon::DemoDaemon;
use super::question;
use super::screen::Screen;
use super::workspace::Workspace;
use crate::failure::Failure;

/// All steps, in the sample workspace.
pub(super) async fn sample(
    screen: &Screen,
    session: &Session,
    hub: &HubClient,
    (workspace, daemon): (&Workspace, &mut DemoDaemon),
) -> Result<(), Failure> {
    run_a_command(screen, session).await?;
    change_files(screen, session).await?;
    refuse_outside_path(screen, session).await?;
    run_sandboxed(screen, session).await?;
    kill_process_tree(screen, session).await?;
    question::approve(screen, hub).await?;
    survive_daemon_crash(screen, session, daemon).await?;
    verify_the_audit(screen, workspace, daemon)
}

/// The harmless steps, in the user's own workspace.
pub(super) async fn existing_workspace(screen: &Screen, session: &Session) -> Result<(), Failure> {
    screen.heading("Run a command and write a file")?;
    let (_, status) = exec(screen, session, "uname -sm; pwd").await?;
    check(status == 0, "the command succeeds")?;
    let path = ".rex-up";
    screen.command(&format!("echo hello | rex write {path}; rex read {path}"))?;
    session.files().write(path, b"hello\n").await?;
    let read = session.files().read_all(path).await?;
    screen.wrote(&String::from_utf8_lossy(&read))?;
    session.files().remove(path, false).await?;
    check(read == b"hello\n", "the written text is read back")
}

async fn run_a_command(screen: &Screen, session: &Session) -> Result<(), Failure> {
    screen.heading("Run a command: separate stdout and stderr, exit status, byte-exact output")?;
    let (text, status) = exec(screen, session, "uname -sm; echo to stderr >&2; exit 3").await?;
    screen.say(&format!("exit status {status}"))?;
    check(text.contains("to stderr") && status == 3, "output and status arrive")
}

async fn change_files(screen: &Screen, session: &Session) -> Result<(), Failure> {
    screen.heading("Write, edit and search files: atomic writes, ripgrep's search")?;
    let (path, files) = ("notes/todo.txt", session.files());
    screen.command(&format!("printf 'buy apples\\nsell pears\\n' | rex write {path}"))?;
    files.write(path, b"buy apples\nsell pears\n").await?;
    screen.command(&format!("rex edit {path} 'sell pears' 'eat pears'"))?;
    let (old_string, new_string) = ("sell pears".to_owned(), "eat pears".to_owned());
    let edit = v1::FsEdit { path: path.to_owned(), old_string, new_string, ..Default::default() };
    let edited = files.edit(edit).await?;
    screen.command("rex grep pears")?;
    let found = files.grep(v1::FsGrep { pattern: "pears".to_owned(), ..Default::default() }).await?;
    for one in &found.matches {
        screen.wrote(&format!("{}:{}:{}", one.path, one.line, one.text))?;
    }
    check(
        edited.replacements == 1 && found.matches.len() == 2,
        "the file is changed and both lines are found",
    )
}

async fn refuse_outside_path(screen: &Screen, session: &Session) -> Result<(), Failure> {
    screen.heading("Paths outside the workspace are refused, also through symbolic links")?;
    screen.command("rex read ../secret.txt")?;
    match session.files().read_all("../secret.txt").await {
        Err(Error::Refused(error)) => screen.wrote(&error.to_string()),
        other => check(false, &format!("it was not refused: {other:?}")),
    }
}

async fn run_sandboxed(screen: &Screen, session: &Session) -> Result<(), Failure> {
    screen.heading("The kernel can sandbox a command")?;
    let line = "echo fine > inside.txt && echo oops > /tmp/rex-up-outside; ls inside.txt";
    screen.command(&format!("rex exec --sandbox workspace-write -- sh -c '{line}'"))?;
    match session.start(Command::line(line).sandbox("workspace-write")).await {
        Ok(process) => {
            let (text, _) = watch(screen, process).await?;
            check(
                text.contains("inside.txt") && text.contains("rex-up-outside"),
                "only the file inside is written",
            )
        }
        // Without kernel support the request fails and nothing runs.
        Err(Error::Refused(error)) if error.code == v1::codes::UNSUPPORTED_CAPABILITY => {
            screen.wrote(&error.message)
        }
        Err(error) => Err(error.into()),
    }
}

async fn kill_process_tree(screen: &Screen, session: &Session) -> Result<(), Failure> {
    screen.heading("A kill ends the whole process tree, including processes with their own session")?;
    let line = "sleep 1000 & setsid sleep 1000 & echo started; wait";
    screen.command(&format!("rex exec --detach -- sh -c '{line}'; rex kill ID"))?;
    let mut process = session.start(Command::line(line)).await?;
    while let Some(event) = process.next().await? {
        if matches!(event.kind, ProcessEventKind::Stdout(_)) {
            break;
        }
    }
    let killed = process.control().kill(None).await?;
    for one in &killed.killed {
        screen.wrote(&format!("killed {} {}", one.pid, one.name))?;
    }
    check(killed.killed.len() >= 3 && killed.left.is_empty(), "no process is left")
}

async fn survive_daemon_crash(
    screen: &Screen,
    session: &Session,
    daemon: &mut DemoDaemon,
) -> Result<(), Failure> {
    screen.heading("A detached command survives kill -9 of the daemon; no line is lost or duplicated")?;
    screen.command("rex exec --detach -- sh count.sh")?;
    let mut process = session.start(Command::argv(["sh", "count.sh"]).detach()).await?;
    screen.wrote(process.id())?;
    screen.command(&format!("rex logs -f {}", process.id()))?;
    let mut seen = String::new();
    let mut has_crashed = false;
    while let Some(event) = process.next().await? {
        match event.kind {
            ProcessEventKind::Stdout(bytes) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                screen.wrote(&text)?;
                seen.push_str(&text);
            }
            ProcessEventKind::Exit(_) => break,
            _ => {}
        }
        if !has_crashed {
            has_crashed = true;
            daemon.crash_and_restart()?;
            screen.say("the daemon was killed with -9 and restarted")?;
        }
    }
    check(seen == "line 1\nline 2\nline 3\nline 4\nline 5\n", "every line arrives once")
}

fn verify_the_audit(screen: &Screen, workspace: &Workspace, daemon: &DemoDaemon) -> Result<(), Failure> {
    screen.heading("Every operation is in the audit file, and changes to that file are detected")?;
    screen.command("rexd audit verify audit.log")?;
    let audit = workspace.own("audit.log");
    let verified =
        std::process::Command::new(daemon.program()).args(["audit", "verify"]).arg(audit).output()?;
    screen.wrote(&String::from_utf8_lossy(&verified.stdout))?;
    check(verified.status.success(), "the audit file is verified")
}

/// Runs a command line and prints its output; returns output and status.
async fn exec(screen: &Screen, session: &Session, line: &str) -> Result<(String, i32), Failure> {
    screen.command(&format!("rex exec -- sh -c '{line}'"))?;
    watch(screen, session.start(Command::line(line)).await?).await
}

async fn watch(screen: &Screen, mut process: client::Process) -> Result<(String, i32), Failure> {
    let (mut text, mut shown) = (String::new(), 0);
    while let Some(event) = process.next().await? {
        match event.kind {
            ProcessEventKind::Stdout(bytes)
            | ProcessEventKind::Stderr(bytes)
            | ProcessEventKind::Terminal(bytes) => {
                text.push_str(&String::from_utf8_lossy(&bytes));
                // Only whole lines: a program may write a line in pieces.
                let whole = text.rfind('\n').map_or(shown, |end| end + 1);
                screen.wrote(&text[shown..whole])?;
                shown = whole;
            }
            ProcessEventKind::Exit(exit) => {
                screen.wrote(&text[shown..])?;
                return Ok((text, exit.status()));
            }
            ProcessEventKind::Lost(_) | ProcessEventKind::Error(_) => {}
        }
    }
    Err(Failure::new("protocol error: the events of the process ended without its exit"))
}

pub(super) fn check(holds: bool, what: &str) -> Result<(), Failure> {
    match holds {
        true => Ok(()),
        false => Err(Failure::new(format!("demonstration failed: expected that {what}"))),
    }
}
