//! `rex cp`: copies files and directories to, from or between targets.

use client::Session;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::{App, conflicting_targets};
use crate::args::CpArgs;
use crate::copy::{self, CopyOptions, CopySide};
use crate::failure::{CommandStatus, Failure};
use crate::interrupt;
use crate::route::{self, PathArg};

/// Copies; exits with 1 if some files could not be copied.
pub(super) async fn run(target: Option<&str>, json: bool, args: CpArgs) -> Result<CommandStatus, Failure> {
    let options = CopyOptions { verify: !args.no_verify, follow: args.follow, quiet: args.quiet, json };
    interrupt::handle_elsewhere();
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let interrupted_with = |status| {
        Err(Failure::new("copy interrupted").hint("run the same command again to resume").status(status))
    };
    tokio::select! {
        done = copy(target, &args, options) => done,
        // 128 + the number of the signal, as in a shell.
        _ = interrupted.recv() => interrupted_with(130),
        _ = terminated.recv() => interrupted_with(143),
    }
}

async fn copy(target: Option<&str>, args: &CpArgs, options: CopyOptions) -> Result<CommandStatus, Failure> {
    let from = resolve(target, options.json, &args.source)?;
    let to = resolve(target, options.json, &args.destination)?;
    match (from, to) {
        ((None, _), (None, _)) => Err(Failure::new("cannot copy: both paths are local")
            .hint("write a path on a target as :PATH or ALIAS:PATH; use `cp` for local copies")),
        ((Some(one), from), (Some(other), to)) if one.choice.target == other.choice.target => {
            let session = one.session().await?;
            let done = copy::copy_within_target(&session, &from, &to, options).await;
            close(&[Some(session)]).await;
            done
        }
        ((one, from), (other, to)) => {
            let (one, other) = (open(one).await?, open(other).await?);
            let sessions = [one.clone(), other.clone()];
            let done = copy::copy(
                CopySide { session: one, path: from },
                CopySide { session: other, path: to },
                options,
            )
            .await;
            close(&sessions).await;
            done
        }
    }
}

/// The target of a path and the path on it; no target means a local path.
fn resolve(target: Option<&str>, json: bool, text: &str) -> Result<(Option<App>, String), Failure> {
    match route::parse_path(text)? {
        PathArg::Local(path) => Ok((None, path)),
        PathArg::Remote { alias, path } => {
            if let (Some(flag), Some(alias)) = (target, &alias)
                && flag != alias
            {
                return Err(conflicting_targets(flag, alias));
            }
            let app = match alias {
                Some(alias) => App { choice: route::choose_once(&alias)?, json },
                None => App::new(target, json)?,
            };
            let whole = app.path(&path);
            // `:` and `:.` mean the contents of the working directory, not the directory itself.
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
        // The copy is complete; an error while closing does not change that.
        session.close().await.ok();
    }
}
