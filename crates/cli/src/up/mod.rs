//! `rex up`: a daemon on a workspace, and what it can do, shown through the same library that agents use.

mod daemon;
mod screen;
mod tour;
mod workspace;

use std::io::{BufRead as _, IsTerminal as _};

use client::{Session, SessionOptions, Target};

use crate::args::Up;
use crate::failure::{Failure, Status};
use daemon::Daemon;
use screen::Screen;
use workspace::Workspace;

/// What a person decides at the end.
enum Next {
    Shell,
    End,
}

/// Starts a daemon, shows what it can do and, at a terminal, offers a shell until the person ends it.
pub async fn run(ask: Up, shell: impl AsyncFn(&str) -> Result<(), Failure>) -> Result<Status, Failure> {
    let screen = Screen::new();
    let workspace = Workspace::prepare(ask.workspace.as_deref())?;
    let mut daemon = Daemon::start(&workspace, ask.lan)?;
    screen.heading(&format!("rexd {} serves {}", env!("CARGO_PKG_VERSION"), workspace.root().display()))?;
    for url in daemon.listens() {
        screen.say(&format!("listening {url}"))?;
    }
    let session = Session::open(daemon.target(), SessionOptions::default()).await?;
    match workspace.is_sample() {
        true => tour::sample(&screen, &session, &workspace, &mut daemon).await?,
        false => tour::yours(&screen, &session).await?,
    }
    session.close().await.ok();
    let stays = !ask.once && std::io::stdin().is_terminal();
    farewell(&screen, &daemon, stays)?;
    while stays && matches!(decide(&screen)?, Next::Shell) {
        shell(&daemon.target().to_string()).await?;
    }
    daemon.end()?;
    Ok(Status::OK)
}

fn farewell(screen: &Screen, daemon: &Daemon, stays: bool) -> Result<(), Failure> {
    if stays {
        let target = daemon.target();
        screen.heading("the same from another terminal, while this runs")?;
        screen.command(&format!("rex -t {target} exec -- uname -a"))?;
        screen.command(&format!("rex -t {target} shell"))?;
        if let Some((url, token_file)) = daemon.http() {
            screen.command(&format!("REX_TOKEN=$(cat {}) rex -t {url} ls", token_file.display()))?;
        }
    }
    screen.heading("from here")?;
    screen.say("in any directory:  rex exec -- COMMAND   and every other word of  rex -h")?;
    screen.say("on a machine that ssh reaches:  rex target install HOST --root DIR   then  rex -t ssh:HOST exec -- …")?;
    screen.say("for an agent:  rex mcp install claude   (or codex, opencode, cursor, vscode)")
}

fn decide(screen: &Screen) -> Result<Next, Failure> {
    screen.prompt("[Enter] a shell in the workspace   [q] end: ")?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer)?;
    Ok(match (read, answer.trim()) {
        (0, _) | (_, "q" | "quit" | "exit" | "n") => Next::End,
        _ => Next::Shell,
    })
}

/// The target of a unix socket.
fn unix(path: &std::path::Path) -> Target {
    Target::Unix(path.to_owned())
}
