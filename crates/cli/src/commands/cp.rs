//! `rex cp`: copies files and directories to, from or between targets.

use std::pin::pin;
use std::time::Duration;

use client::Session;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::app::{App, conflicting_targets};
use crate::args::CpArgs;
use crate::copy::{self, CopyDestination, CopyOptions, CopySources};
use crate::failure::{CommandStatus, Failure};
use crate::interrupt;
use crate::route::{self, PathArg};

/// The path that stands for standard input or output.
const STREAM: &str = "-";
/// How long the removal of the partial file of an interrupted stream may take.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(1);

/// Copies; exits with 1 if some files could not be copied.
pub(super) async fn run(target: Option<&str>, json: bool, args: CpArgs) -> Result<CommandStatus, Failure> {
    let options = CopyOptions {
        verify: !args.no_verify,
        follow: args.follow,
        quiet: args.quiet,
        json,
        delete: args.delete,
        exclude: args.exclude.clone(),
        gitignore: args.gitignore,
    };
    interrupt::handle_elsewhere();
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let cancelled = CancellationToken::new();
    let mut copying = pin!(copy(target, &args, &options, &cancelled));
    let status = tokio::select! {
        done = &mut copying => return done,
        // 128 + the number of the signal, as in a shell.
        _ = interrupted.recv() => 130,
        _ = terminated.recv() => 143,
    };
    let failure = Failure::new("copy interrupted").status(status);
    if !is_stream(&args) {
        return Err(failure.hint("run the same command again to resume"));
    }
    cancelled.cancel();
    if args.destination == STREAM {
        return Err(failure);
    }
    // A stream cannot be resumed: its partial file is removed, unless the target does not respond.
    match tokio::time::timeout(CLEANUP_TIMEOUT, copying).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) | Err(_) => Err(failure),
    }
}

/// Whether standard input or output is copied.
fn is_stream(args: &CpArgs) -> bool {
    args.destination == STREAM || args.sources.iter().any(|source| source == STREAM)
}

async fn copy(
    target: Option<&str>,
    args: &CpArgs,
    options: &CopyOptions,
    cancelled: &CancellationToken,
) -> Result<CommandStatus, Failure> {
    if is_stream(args) {
        return copy_stream(target, args, options, cancelled).await;
    }
    let (from, paths) = resolve_all(target, options.json, &args.sources)?;
    let (to, path) = resolve(target, options.json, &args.destination)?;
    let (one, other) = match (from, to) {
        (None, None) => return Err(both_local()),
        (Some(one), Some(other)) if one.choice.target == other.choice.target => {
            let session = one.session().await?;
            (Some(session.clone()), Some(session))
        }
        (one, other) => (open(one).await?, open(other).await?),
    };
    let sessions = [one.clone(), other.clone()];
    let sources = CopySources { session: one, paths };
    let done = copy::copy(sources, CopyDestination { session: other, path }, options).await;
    close(&sessions).await;
    done
}

/// Copies standard input to a file on a target, or such a file to standard output.
async fn copy_stream(
    target: Option<&str>,
    args: &CpArgs,
    options: &CopyOptions,
    cancelled: &CancellationToken,
) -> Result<CommandStatus, Failure> {
    let [source] = &args.sources[..] else {
        return Err(Failure::new("cannot copy: `-` stands for one file")
            .hint("copy standard input with `rex cp - :FILE`, a file with `rex cp :FILE -`"));
    };
    let is_input = source == STREAM;
    let remote = if is_input { &args.destination } else { source };
    let (Some(app), path) = resolve(target, options.json, remote)? else { return Err(both_local()) };
    let session = app.session().await?;
    let done = match is_input {
        true => copy::copy_from_stdin(&session, &path, cancelled).await,
        false => copy::copy_to_stdout(&session, &path).await,
    };
    close(&[Some(session)]).await;
    done
}

fn both_local() -> Failure {
    Failure::new("cannot copy: both paths are local")
        .hint("write a path on a target as :PATH or ALIAS:PATH; use `cp` for local copies")
}

/// The target of all sources, and their paths on it.
fn resolve_all(
    target: Option<&str>,
    json: bool,
    sources: &[String],
) -> Result<(Option<App>, Vec<String>), Failure> {
    let mut resolved = sources.iter().map(|source| resolve(target, json, source));
    let (app, first) = resolved.next().transpose()?.unwrap_or_default();
    let mut paths = vec![first];
    for source in resolved {
        let (other, path) = source?;
        let one = app.as_ref().map(|app| &app.choice.target);
        if one != other.as_ref().map(|app| &app.choice.target) {
            return Err(Failure::new("cannot copy: the sources are on different machines")
                .hint("copy from one machine at a time"));
        }
        paths.push(path);
    }
    Ok((app, paths))
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
