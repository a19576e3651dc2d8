//! `rex cp`: files and trees from here to there, back, or between targets.

use client::Session;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::{App, two_targets};
use crate::args::Cp;
use crate::copy::{self, Manner, Side};
use crate::failure::{Failure, Status};
use crate::interrupt;
use crate::route::{self, Place};

/// Copies; ends with 1 if some files could not be copied.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Cp) -> Result<Status, Failure> {
    let manner = Manner { verify: !ask.no_verify, follow: ask.follow, quiet: ask.quiet, json };
    interrupt::take();
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut ended = signal(SignalKind::terminate())?;
    let stopped = |status| {
        Err(Failure::new("stopped").hint("the same command goes on where this one stopped").status(status))
    };
    tokio::select! {
        done = copy(target, &ask, manner) => done,
        // 128 and the signal, as a shell says it.
        _ = interrupted.recv() => stopped(130),
        _ = ended.recv() => stopped(143),
    }
}

async fn copy(target: Option<&str>, ask: &Cp, manner: Manner) -> Result<Status, Failure> {
    let from = place(target, manner.json, &ask.source)?;
    let to = place(target, manner.json, &ask.destination)?;
    match (from, to) {
        ((None, _), (None, _)) => Err(Failure::new("both paths are on this machine")
            .hint("cp copies here; a path there is written :PATH or ALIAS:PATH")),
        ((Some(one), from), (Some(other), to)) if one.choice.target == other.choice.target => {
            let session = one.session().await?;
            let done = copy::copy_there(&session, &from, &to, manner).await;
            close(&[Some(session)]).await;
            done
        }
        ((one, from), (other, to)) => {
            let (one, other) = (open(one).await?, open(other).await?);
            let sessions = [one.clone(), other.clone()];
            let done =
                copy::copy(Side { session: one, path: from }, Side { session: other, path: to }, manner)
                    .await;
            close(&sessions).await;
            done
        }
    }
}

/// Where a path is, and the path there; nothing is this machine.
fn place(target: Option<&str>, json: bool, text: &str) -> Result<(Option<App>, String), Failure> {
    match route::place(text)? {
        Place::Here(path) => Ok((None, path)),
        Place::There { alias, path } => {
            let app = match alias {
                Some(alias) if target.is_some_and(|target| target != alias) => {
                    return Err(two_targets(&alias));
                }
                Some(alias) => App { choice: route::choose_once(&alias)?, json },
                None => App::new(target, json)?,
            };
            let whole = app.path(&path);
            // What is in the directory where commands start, not the directory by its name.
            let whole = match (path.as_str(), whole.as_str()) {
                ("" | ".", "" | ".") => ".".to_owned(),
                ("" | ".", _) => format!("{whole}/."),
                _ => whole,
            };
            Ok((Some(app), whole))
        }
    }
}

async fn open(app: Option<App>) -> Result<Option<Session>, Failure> {
    match app {
        Some(app) => app.session().await.map(Some),
        None => Ok(None),
    }
}

async fn close(sessions: &[Option<Session>]) {
    for session in sessions.iter().flatten() {
        // What was copied is there, however the session ends.
        session.close().await.ok();
    }
}
