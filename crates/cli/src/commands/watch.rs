//! `rex watch`: changes below a path, as they happen, until Ctrl-C.

use client::WatchEvent;
use client::v1::Change;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::App;
use crate::args::Watch;
use crate::failure::{Failure, Status};
use crate::interrupt;
use crate::output;
use crate::table::plain;

/// Prints one line per change.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Watch) -> Result<Status, Failure> {
    let (app, path) = App::for_path(target, json, ask.path.as_deref().unwrap_or("."))?;
    let session = app.session().await?;
    let mut watch = session.files().watch(&path, !ask.flat).await?;
    interrupt::take();
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
            Some(line) => output::write_out(&[&line[..], b"\n"].concat())?,
            None => changed.changes.iter().try_for_each(show)?,
        }
        if changed.overflow && !json {
            output::remark("more changed than could be told: look again");
        }
    }
    if json {
        output::json_line(&json!({ "changes": changes }))?;
    }
    session.close().await.ok();
    Ok(Status::OK)
}

fn show(change: &Change) -> Result<(), Failure> {
    match &change.to {
        Some(to) => output::line(format_args!("{} {} -> {}", change.kind, plain(&change.path), plain(to))),
        None => output::line(format_args!("{} {}", change.kind, plain(&change.path))),
    }
}
