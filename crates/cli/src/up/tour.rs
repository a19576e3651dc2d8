//! What is shown: each step is really done, and checked.

use client::{Command, Error, ProcessEventKind, Session, v1};

use super::daemon::Daemon;
use super::screen::Screen;
use super::workspace::Workspace;
use crate::failure::Failure;

/// Everything, in the sample workspace.
pub(super) async fn sample(
    screen: &Screen,
    session: &Session,
    workspace: &Workspace,
    daemon: &mut Daemon,
) -> Result<(), Failure> {
    run_a_command(screen, session).await?;
    change_files(screen, session).await?;
    stay_inside(screen, session).await?;
    confine(screen, session).await?;
    kill_with_proof(screen, session).await?;
    survive(screen, session, daemon).await?;
    verify_the_audit(screen, workspace, daemon)
}

/// What harms nothing, in a workspace that is somebody's.
pub(super) async fn yours(screen: &Screen, session: &Session) -> Result<(), Failure> {
    screen.heading("run a command, write a file")?;
    let (_, status) = exec(screen, session, "uname -sm; pwd").await?;
    check(status == 0, "the command succeeds")?;
    let path = ".rex-up";
    screen.command(&format!("echo hello | rex write {path}; rex read {path}"))?;
    session.files().write(path, b"hello\n").await?;
    let read = session.files().read_all(path).await?;
    screen.wrote(&String::from_utf8_lossy(&read))?;
    session.files().remove(path, false).await?;
    check(read == b"hello\n", "what was written is read")
}

async fn run_a_command(screen: &Screen, session: &Session) -> Result<(), Failure> {
    screen.heading("run a command: two streams, its own exit status, every byte as it was written")?;
    let (text, status) = exec(screen, session, "uname -sm; echo to the other >&2; exit 3").await?;
    screen.say(&format!("exit status {status}"))?;
    check(text.contains("to the other") && status == 3, "output and status arrive")
}

async fn change_files(screen: &Screen, session: &Session) -> Result<(), Failure> {
    screen.heading("write, edit and search files: atomically, durably, with ripgrep's engine")?;
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
        "the file is changed and both places are found",
    )
}

async fn stay_inside(screen: &Screen, session: &Session) -> Result<(), Failure> {
    screen.heading("a path that leaves the workspace is refused, through links too")?;
    screen.command("rex read ../secret.txt")?;
    match session.files().read_all("../secret.txt").await {
        Err(Error::Refused(error)) => screen.wrote(&error.to_string()),
        other => check(false, &format!("it was not refused: {other:?}")),
    }
}

async fn confine(screen: &Screen, session: &Session) -> Result<(), Failure> {
    screen.heading("a command can be confined by the kernel, below any shell")?;
    let line = "echo fine > inside.txt && echo oops > /tmp/rex-up-outside; ls inside.txt";
    screen.command(&format!("rex exec --sandbox workspace-write -- sh -c '{line}'"))?;
    match session.start(Command::line(line).sandbox("workspace-write")).await {
        Ok(process) => {
            let (text, _) = watch(screen, process).await?;
            check(
                text.contains("inside.txt") && text.contains("rex-up-outside"),
                "only the inside is written",
            )
        }
        // Not every kernel can: then it says so and starts nothing.
        Err(Error::Refused(error)) if error.code == v1::codes::UNSUPPORTED_CAPABILITY => {
            screen.wrote(&error.message)
        }
        Err(error) => Err(error.into()),
    }
}

async fn kill_with_proof(screen: &Screen, session: &Session) -> Result<(), Failure> {
    screen.heading("a kill ends the whole tree and says who died, runaways too")?;
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
        screen.wrote(&format!("ended {} {}", one.pid, one.name))?;
    }
    check(killed.killed.len() >= 3 && killed.left.is_empty(), "everybody is gone")
}

async fn survive(screen: &Screen, session: &Session, daemon: &mut Daemon) -> Result<(), Failure> {
    screen.heading(
        "a detached command outlives a daemon that is killed with -9; no line is lost or seen twice",
    )?;
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
            screen.say("the daemon was killed with -9 and another started")?;
        }
    }
    check(seen == "line 1\nline 2\nline 3\nline 4\nline 5\n", "every line came once")
}

fn verify_the_audit(screen: &Screen, workspace: &Workspace, daemon: &Daemon) -> Result<(), Failure> {
    screen.heading("everything stands in an audit file that nobody can change unseen")?;
    screen.command("rexd audit verify audit.log")?;
    let audit = workspace.own("audit.log");
    let verified =
        std::process::Command::new(daemon.program()).args(["audit", "verify"]).arg(audit).output()?;
    screen.wrote(&String::from_utf8_lossy(&verified.stdout))?;
    check(verified.status.success(), "the audit holds")
}

/// Runs a line, shown as it comes; what it wrote and its status.
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
                // Whole lines only: a program may write one in pieces.
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
    Err(Failure::new("the command's events ended without its exit"))
}

fn check(holds: bool, what: &str) -> Result<(), Failure> {
    match holds {
        true => Ok(()),
        false => Err(Failure::new(format!("the demonstration failed: {what} was expected"))),
    }
}
