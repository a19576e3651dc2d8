//! `rex up`: a demonstration with a real daemon, through the same client library that agents use.

mod daemon;
mod screen;
mod tour;
mod workspace;

use std::io::{BufRead as _, IsTerminal as _};

use client::{Session, SessionOptions, Target};

use crate::args::UpArgs;
use crate::failure::{CommandStatus, Failure};
use daemon::DemoDaemon;
use screen::Screen;
use workspace::Workspace;

/// The user's choice at the end.
enum NextStep {
    Shell,
    End,
}

/// Starts a daemon, runs the demonstration and, on a terminal, offers a shell until the user quits.
pub async fn run(
    args: UpArgs,
    shell: impl AsyncFn(&str) -> Result<(), Failure>,
) -> Result<CommandStatus, Failure> {
    let screen = Screen::new();
    let workspace = Workspace::prepare(args.workspace.as_deref())?;
    let mut daemon = DemoDaemon::start(&workspace, args.lan)?;
    screen.heading(&format!("rexd {} serves {}", env!("CARGO_PKG_VERSION"), workspace.root().display()))?;
    for url in daemon.listeners() {
        screen.say(&format!("listening {url}"))?;
    }
    let session = Session::open(daemon.target(), SessionOptions::default()).await?;
    match workspace.is_sample() {
        true => tour::sample(&screen, &session, &workspace, &mut daemon).await?,
        false => tour::existing_workspace(&screen, &session).await?,
    }
    session.close().await.ok();
    let interactive = !args.once && std::io::stdin().is_terminal();
    print_next_steps(&screen, &daemon, interactive)?;
    while interactive && matches!(decide(&screen)?, NextStep::Shell) {
        shell(&daemon.target().to_string()).await?;
    }
    daemon.terminate()?;
    Ok(CommandStatus::OK)
}

fn print_next_steps(screen: &Screen, daemon: &DemoDaemon, interactive: bool) -> Result<(), Failure> {
    if interactive {
        let target = daemon.target();
        screen.heading("Try it from another terminal while this runs")?;
        screen.command(&format!("rex -t {target} exec -- uname -a"))?;
        screen.command(&format!("rex -t {target} shell"))?;
        if let Some((url, token_file)) = daemon.http() {
            screen.command(&format!("REX_TOKEN=$(cat {}) rex -t {url} ls", token_file.display()))?;
        }
    }
    screen.heading("Next steps")?;
    screen.say("run commands in any directory:  rex exec -- COMMAND   (all commands: rex -h)")?;
    screen.say("install on another machine:     rex target install HOST --root DIR   then  rex -t ssh:HOST exec -- COMMAND")?;
    screen
        .say("configure an agent:             rex mcp install claude   (or codex, opencode, cursor, vscode)")
}

fn decide(screen: &Screen) -> Result<NextStep, Failure> {
    screen.prompt("[Enter] open a shell in the workspace   [q] quit: ")?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer)?;
    Ok(match (read, answer.trim()) {
        (0, _) | (_, "q" | "quit" | "exit" | "n") => NextStep::End,
        _ => NextStep::Shell,
    })
}

/// The target of a unix socket.
fn unix(path: &std::path::Path) -> Target {
    Target::Unix(path.to_owned())
}
