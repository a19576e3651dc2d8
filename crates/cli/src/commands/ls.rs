//! `rex ls`: lists a directory.

use client::Session;
use client::v1::{FsList, FsListResult, FsStatResult, ListEntry};
use tokio::task::JoinSet;

use crate::app::App;
use crate::args::LsArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// Requests for metadata in flight.
const MAX_STATS_IN_FLIGHT: usize = 64;

/// Lists a directory; names of directories end with a slash.
pub(super) async fn run(target: Option<&str>, json: bool, args: LsArgs) -> Result<CommandStatus, Failure> {
    let (app, path) = App::for_path(target, json, args.path.as_deref().unwrap_or_default())?;
    let session = app.session().await?;
    let params = FsList {
        path,
        recursive: args.recursive,
        max_entries: None,
        names_only: !args.long && !json,
        ..FsList::default()
    };
    let listed = session.files().list(params).await?;
    let stats = match args.long && !json {
        true => stat_all(&session, &listed.entries).await?,
        false => Vec::new(),
    };
    session.close().await.ok();
    match json {
        true => output::json_line(&listed)?,
        false => show(&listed, &stats, &args)?,
    }
    Ok(CommandStatus::OK)
}

/// The metadata of all entries, in their order; several requests are in flight.
async fn stat_all(session: &Session, entries: &[ListEntry]) -> Result<Vec<FsStatResult>, Failure> {
    let mut stats: Vec<Option<FsStatResult>> = vec![None; entries.len()];
    let mut waiting = JoinSet::new();
    let mut left = entries.iter().enumerate();
    loop {
        while waiting.len() < MAX_STATS_IN_FLIGHT
            && let Some((index, entry)) = left.next()
        {
            let (session, path) = (session.clone(), entry.path.clone());
            waiting.spawn(async move { (index, session.files().stat(&path).await) });
        }
        let Some(done) = waiting.join_next().await else { break };
        let (index, stat) =
            done.map_err(|error| Failure::new(format!("cannot list the directory: {error}")))?;
        stats[index] = Some(stat?);
    }
    Ok(stats.into_iter().flatten().collect())
}

fn show(listed: &FsListResult, stats: &[FsStatResult], args: &LsArgs) -> Result<(), Failure> {
    let mut text = String::new();
    for (index, entry) in listed.entries.iter().enumerate() {
        let stat = stats.get(index);
        if args.long {
            // The protocol has an `L` for links, `ls` an `l`.
            let mode = stat.and_then(|stat| stat.mode.as_deref()).unwrap_or("?").replacen('L', "l", 1);
            let size = entry.size.map(|size| size.to_string()).unwrap_or_default();
            let time = entry.mtime.map(time).unwrap_or_default();
            text.push_str(&format!("{mode:<10}  {size:>12}  {time}  "));
        }
        text.push_str(&name(listed, entry, args.recursive));
        if let Some(leads) = stat.and_then(|stat| stat.symlink_target.as_deref()) {
            text.push_str(&format!(" -> {}", output::name(leads)));
        }
        text.push('\n');
    }
    output::print(&text)?;
    if listed.truncated {
        output::note("the list is truncated: list a subdirectory");
    }
    Ok(())
}

fn name(listed: &FsListResult, entry: &ListEntry, recursive: bool) -> String {
    let below = entry.path.strip_prefix(&listed.path).map(|rest| rest.trim_start_matches('/'));
    let shown = match (recursive, below) {
        (true, Some(below)) => below,
        _ => &entry.name,
    };
    let end = if entry.kind == "dir" { "/" } else { "" };
    format!("{}{end}", output::name(shown))
}

/// A time in milliseconds since 1970 as a UTC date.
pub(super) fn time(milliseconds: i64) -> String {
    match jiff::Timestamp::from_millisecond(milliseconds) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => milliseconds.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        for (milliseconds, text) in [
            (0, "1970-01-01 00:00"),
            (-1, "1969-12-31 23:59"),
            (951_782_400_000, "2000-02-29 00:00"),
            (1_794_744_000_000, "2026-11-15 12:00"),
        ] {
            assert_eq!(time(milliseconds), text);
        }
    }
}
