//! The tools `list`, `glob` and `stat`.

use std::fmt::Write as _;

use client::v1;
use jiff::Timestamp;
use serde_json::json;

use super::arguments::Arguments;
use super::files::{value, with_hint};
use super::outcome::ToolOutcome;
use super::toolbox::{TargetSession, Toolbox};

/// The maximum number of entries, paths or matches requested.
const MAX_RESULTS: i64 = 1_000;
/// The maximum size of the lines returned: 44,000 bytes, below that of a text.
const SHOWN: usize = 44_000;
/// The maximum number of lines returned, below that of a text.
const SHOWN_LINES: usize = 1_800;

/// Lists the entries of a directory.
pub(super) async fn list(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let listed = entries(toolbox, arguments.maybe_text("path")?.unwrap_or(".")).await?;
    Ok(ToolOutcome::text(listing(&listed)).with(value(&listed)))
}

pub(super) async fn entries(toolbox: &Toolbox, path: &str) -> Result<v1::FsListResult, ToolOutcome> {
    let list = |target: TargetSession| async move {
        let params =
            v1::FsList { path: target.path(path), max_entries: Some(MAX_RESULTS), ..v1::FsList::default() };
        target.session.files().list(params).await
    };
    let next = "use stat to check the path; list without a path lists the working directory";
    toolbox.with_session(list).await.map_err(|failure| with_hint(failure, next))
}

/// The path of a directory and its entries, one per line.
pub(super) fn listing(listed: &v1::FsListResult) -> String {
    if listed.entries.is_empty() {
        return format!("{} is empty", listed.path);
    }
    let line = |entry: &v1::ListEntry| match (entry.kind.as_str(), entry.size) {
        ("dir", _) => format!("{}/", entry.name),
        ("symlink", _) => format!("{}@", entry.name),
        (_, Some(size)) => format!("{}  {size}", entry.name),
        (_, None) => entry.name.clone(),
    };
    let next = format!("glob {}", json!({ "pattern": "*.rs", "path": listed.path }));
    let what = format!("entries of {}", listed.path);
    let title = format!("{}:\n", listed.path);
    limited((&title, &what), listed.entries.iter().map(line), listed.truncated, &next)
}

/// Finds files by pattern.
pub(super) async fn glob(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let (pattern, path) = (arguments.text("pattern")?, arguments.maybe_text("path")?);
    let glob = |target: TargetSession| async move {
        let cwd = path.map(|path| target.path(path)).or_else(|| target.cwd.clone());
        let (pattern, max_matches) = (pattern.to_owned(), Some(MAX_RESULTS));
        target.session.files().glob(v1::FsGlob { pattern, cwd, max_matches, ..v1::FsGlob::default() }).await
    };
    let found = toolbox
        .with_session(glob)
        .await
        .map_err(|failure| with_hint(failure, "use a pattern such as **/*.rs"))?;
    let text = match found.matches.is_empty() {
        true => format!("no match for {pattern}"),
        false => {
            let next =
                format!("glob {}, or a narrower pattern", json!({ "pattern": pattern, "path": "DIRECTORY" }));
            limited(("", "paths"), found.matches.iter().cloned(), found.truncated, &next)
        }
    };
    Ok(ToolOutcome::text(text).with(value(&found)))
}

/// Returns the metadata of a path.
pub(super) async fn stat(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let path = arguments.text("path")?;
    let stat = |target: TargetSession| async move { target.session.files().stat(&target.path(path)).await };
    let stat = toolbox.with_session(stat).await.map_err(|failure| with_hint(failure, "use another path"))?;
    if !stat.exists {
        return Ok(ToolOutcome::text(format!("{} does not exist", stat.path)).with(value(&stat)));
    }
    let mut text = format!("{}: {}", stat.path, stat.kind.as_deref().unwrap_or("other"));
    if let Some(size) = stat.size {
        write!(text, ", {size} bytes").ok();
    }
    if let Some(mode) = &stat.mode {
        write!(text, ", {mode}").ok();
    }
    if let (Some(uid), Some(gid)) = (stat.uid, stat.gid) {
        write!(text, ", uid {uid}, gid {gid}").ok();
    }
    if let Some(mtime) = stat.mtime {
        match Timestamp::from_millisecond(mtime) {
            Ok(time) => write!(text, ", modified {time:.0}").ok(),
            Err(_) => write!(text, ", modified {mtime} ms after 1970").ok(),
        };
    }
    if let Some(target) = &stat.symlink_target {
        write!(text, ", symbolic link to {target}").ok();
    }
    let outcome = ToolOutcome::text(text).with(value(&stat));
    Ok(match stat.kind.as_deref() {
        Some("file") => outcome.and_link(stat.path.clone(), stat.size),
        _ => outcome,
    })
}

/// Joins lines up to the size limits, below a title. If some are left out, the first line has the number of lines shown
/// instead, and the last line the next call.
pub(super) fn limited(
    (title, what): (&str, &str),
    lines: impl Iterator<Item = String>,
    truncated: bool,
    next: &str,
) -> String {
    let (mut text, mut shown, mut all, mut ends) = (String::new(), 0_usize, 0_usize, 0_usize);
    for line in lines {
        all += 1;
        ends += 1 + line.matches('\n').count();
        // The first line that does not fit ends the text, so that the lines shown are the first ones.
        if shown + 1 == all && text.len() + line.len() < SHOWN && ends <= SHOWN_LINES {
            writeln!(text, "{line}").ok();
            shown += 1;
        }
    }
    let text = text.trim_end_matches('\n');
    match (shown < all, truncated) {
        (false, false) => format!("{title}{text}"),
        (true, false) => format!("[{shown} of {all} {what} shown]\n{text}\n[next: {next}]"),
        (_, true) => format!("[first {shown} {what} shown, there are more]\n{text}\n[next: {next}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let many = (0..10_000).map(|n| format!("{n:>60}"));
        let text = limited(("", "lines"), many, false, "do this");
        let shown = text.lines().count() - 2;
        assert!(text.len() < SHOWN + 100, "{}", text.len());
        assert!(text.starts_with(&format!("[{shown} of 10000 lines shown]\n{:>60}\n", 0)), "{text:.100}");
        assert!(text.ends_with(&format!("{:>60}\n[next: do this]", shown - 1)));
        let one = || ["a".to_owned()].into_iter();
        let short = limited(("", "lines"), (0..5_000).map(|n| n.to_string()), false, "x");
        assert!(short.starts_with("[1800 of 5000 lines shown]\n0\n"), "{short:.100}");
        assert_eq!(
            limited(("", "lines"), one(), true, "x"),
            "[first 1 lines shown, there are more]\na\n[next: x]"
        );
        assert_eq!(limited(("", "lines"), one(), false, "x"), "a");
    }

    #[test]
    fn a_listing_names_its_directory_in_the_first_line() {
        let mut listed = v1::FsListResult { path: "/d".to_owned(), entries: Vec::new(), truncated: false };
        assert_eq!(listing(&listed), "/d is empty");
        let (name, path, kind) = ("a".to_owned(), "/d/a".to_owned(), "file".to_owned());
        listed.entries = vec![v1::ListEntry { name, path, kind, size: Some(3), mtime: None }];
        assert_eq!(listing(&listed), "/d:\na  3");
        listed.truncated = true;
        assert!(
            listing(&listed).starts_with("[first 1 entries of /d shown, there are more]\na  3\n[next: glob")
        );
    }
}
