//! `rex ls`: lists a directory.

use client::v1::{FsList, FsListResult, ListEntry};

use crate::app::App;
use crate::args::LsArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;

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
    session.close().await.ok();
    match json {
        true => output::json_line(&listed)?,
        false => show(&listed, &args)?,
    }
    Ok(CommandStatus::OK)
}

fn show(listed: &FsListResult, args: &LsArgs) -> Result<(), Failure> {
    let mut text = String::new();
    for entry in &listed.entries {
        if args.long {
            let size = entry.size.map(|size| size.to_string()).unwrap_or_default();
            text.push_str(&format!("{size:>12}  {}  ", entry.mtime.map(time).unwrap_or_default()));
        }
        text.push_str(&name(listed, entry, args.recursive));
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
