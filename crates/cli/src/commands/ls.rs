//! `rex ls`: lists a directory.

use client::v1::{FsList, FsListResult, ListEntry};

use crate::app::App;
use crate::args::LsArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::table::sanitize;

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
    output::write_out(text.as_bytes())?;
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
    format!("{}{end}", sanitize(shown))
}

/// A time in milliseconds since 1970 as a UTC date. Howard Hinnant's days-to-civil algorithm.
pub(super) fn time(milliseconds: i64) -> String {
    let seconds = milliseconds.div_euclid(1_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", second / 3_600, second % 3_600 / 60)
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
