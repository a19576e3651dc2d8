//! `rex up`: a demonstration with a real hub and a real daemon as its host, through the same client library that agents use.

mod certificates;
mod daemon;
mod hub;
mod programs;
mod question;
mod screen;
mod tour;
mod workspace;

use std::io::{BufRead as _, IsTerminal as _};

use client::{Session, SessionOptions, Target};
use tokio::signal::unix::SignalKind;
use tokio_util::sync::CancellationToken;

use crate::args::UpArgs;
use crate::failure::{CommandStatus, Failure};
use crate::interrupt::{INTERRUPTED, cancel_on_signals};
use daemon::DemoDaemon;
use hub::DemoHub;
use screen::Screen;
use workspace::Workspace;

/// The user's choice at the end.
enum NextStep {
    Shell,
    End,
}

/// Starts the servers, runs the demonstration and serves until the user quits on the terminal, where a shell is offered, or
/// until a signal. A signal ends the servers and removes their files.
pub async fn run(
    args: UpArgs,
    shell: impl AsyncFn(&str) -> Result<CommandStatus, Failure>,
) -> Result<CommandStatus, Failure> {
    let interrupted = CancellationToken::new();
    let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let _signals = cancel_on_signals(&signals, &interrupted)?;
    match interrupted.run_until_cancelled(demonstrate(args, shell)).await {
        Some(done) => done,
        None => Ok(CommandStatus(INTERRUPTED)),
    }
}

async fn demonstrate(
    args: UpArgs,
    shell: impl AsyncFn(&str) -> Result<CommandStatus, Failure>,
) -> Result<CommandStatus, Failure> {
    let screen = Screen::new();
    let workspace = Workspace::prepare(args.workspace.as_deref())?;
    let mut hub = DemoHub::start(&workspace, args.lan)?;
    let mut daemon = DemoDaemon::start(&workspace, &hub)?;
    let version = env!("CARGO_PKG_VERSION");
    // An address is printed only if it can be used: with `--once`, all of this ends at once.
    let address = if args.once { String::new() } else { format!(" at {}", hub.browser_url()) };
    screen.heading(&format!("rexhub {version}{address} with this machine as its host"))?;
    screen.say(&format!("rexd {version} serves {}", workspace.root().display()))?;
    let client = hub.client().await?;
    let session = Session::open(Target::Hub(hub.host()?), SessionOptions::default()).await?;
    match workspace.is_sample() {
        true => tour::sample(&screen, &session, &client, (&workspace, &mut daemon)).await?,
        false => tour::existing_workspace(&screen, &session).await?,
    }
    session.close().await.ok();
    if !args.once {
        print_browser(&screen, &hub)?;
    }
    print_next_steps(&screen, &daemon, !args.once)?;
    match (args.once, std::io::stdin().is_terminal()) {
        (true, _) => {}
        (false, true) => {
            while matches!(decide(&screen).await?, NextStep::Shell) {
                let CommandStatus(status) = shell(&daemon.target().to_string()).await?;
                if status != 0 {
                    screen.say(&format!("the shell exited with status {status}"))?;
                }
            }
        }
        (false, false) => {
            screen.heading("Serving until a signal ends it (Ctrl-C, or kill)")?;
            std::future::pending::<()>().await;
        }
    }
    daemon.terminate()?;
    hub.terminate()?;
    Ok(CommandStatus::OK)
}

fn print_browser(screen: &Screen, hub: &DemoHub) -> Result<(), Failure> {
    let (link, qr) = hub.sign_in_link()?;
    screen.heading("Open this in a browser: it signs you in, once, within 15 minutes")?;
    screen.wrote(&link)?;
    let Some(fingerprint) = hub.fingerprint() else { return Ok(()) };
    screen.wrote(&qr)?;
    let authority = format!("{}/ca.crt", hub.browser_url());
    screen.say(&format!("install and notifications need trust in the authority at {authority}"))?;
    screen.say(&format!("its SHA-256 fingerprint is {fingerprint}"))
}

fn print_next_steps(screen: &Screen, daemon: &DemoDaemon, stays: bool) -> Result<(), Failure> {
    if stays {
        let target = daemon.target();
        screen.heading("Try it from another terminal while this runs")?;
        screen.command(&format!("rex -t {target} exec -- uname -a"))?;
        screen.command(&format!("rex -t {target} shell"))?;
    }
    screen.heading("Next steps")?;
    screen.say("run commands in any directory:  rex exec -- COMMAND   (all commands: rex -h)")?;
    screen.say("install on another machine:     rex target install HOST --root DIR   then  rex -t ssh:HOST exec -- COMMAND")?;
    screen.say("run a hub:                      rexhub serve   then  rexd host --hub URL --root DIR")?;
    screen
        .say("configure an agent:             rex mcp install claude   (or codex, opencode, cursor, vscode)")
}

async fn decide(screen: &Screen) -> Result<NextStep, Failure> {
    screen.prompt("[Enter] open a shell in the workspace   [q] quit: ")?;
    // A signal does not wait for the terminal.
    let read = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer).map(|read| (read, answer))
    });
    let (read, answer) = read.await.map_err(|error| Failure::new(error.to_string()))??;
    Ok(match (read, answer.trim()) {
        (0, _) | (_, "q" | "quit" | "exit" | "n") => NextStep::End,
        _ => NextStep::Shell,
    })
}
