//! `rex watch`: reports changes below a path until Ctrl-C.

use client::WatchEvent;
use client::v1::Change;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::App;
use crate::args::WatchArgs;
use crate::failure::{CommandStatus, Failure};
use crate::interrupt;
use crate::output;

/// Prints one line per change.
pub(super) async fn run(target: Option<&str>, json: bool, args: WatchArgs) -> Result<CommandStatus, Failure> {
    let (app, path) = App::for_path(target, json, args.path.as_deref().unwrap_or("."))?;
    let session = app.session().await?;
    let mut watch = session.files().watch(&path, !args.flat).await?;
    interrupt::handle_elsewhere();
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut changes = 0_u64;
    loop {
        let event = tokio::select! {
            event = watch.next() => event,
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        };
        let Some(WatchEvent { changed, line }) = event else { break };
        let changed = changed?;
        changes += changed.changes.len() as u64;
        match line.filter(|_| json) {
            Some(line) => output::write_json(&[&line[..], b"\n"].concat())?,
            None => changed.changes.iter().try_for_each(show)?,
        }
        if changed.overflow && !json {
            output::note("some changes were not reported: too many at once");
        }
    }
    if json {
        output::json_line(&json!({ "changes": changes }))?;
    }
    session.close().await.ok();
    Ok(CommandStatus::OK)
}

fn show(change: &Change) -> Result<(), Failure> {
    match &change.to {
        Some(to) => output::line(format_args!(
            "{} {} -> {}",
            change.kind,
            output::name(&change.path),
            output::name(to)
        )),
        None => output::line(format_args!("{} {}", change.kind, output::name(&change.path))),
    }
}
