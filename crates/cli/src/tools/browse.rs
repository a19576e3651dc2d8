//! The tools `list`, `glob`, `grep` and `stat`.

use std::fmt::Write as _;

use client::v1;

use super::arguments::Arguments;
use super::files::{value, with_hint};
use super::outcome::ToolOutcome;
use super::toolbox::{TargetSession, Toolbox};
use super::{process, search};

/// The maximum number of entries, paths or matches requested.
const MAX_RESULTS: i64 = 1_000;
/// The maximum size of the text returned.
const SHOWN: usize = 48 * 1024;
/// The maximum number of characters of a matching line.
const MAX_LINE_CHARS: usize = 500;
/// The path prefix with which grep searches the output of a process.
const OF_PROCESS: &str = "process:";

/// Lists the entries of a directory.
pub(super) async fn list(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let listed = entries(toolbox, arguments.maybe_text("path")?.unwrap_or(".")).await?;
    let text = match listed.entries.is_empty() {
        true => format!("{} is empty", listed.path),
        false => format!("{}:\n{}", listed.path, listing(&listed)),
    };
    Ok(ToolOutcome::text(text).with(value(&listed)))
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

/// The entries, one per line.
pub(super) fn listing(listed: &v1::FsListResult) -> String {
    let line = |entry: &v1::ListEntry| match (entry.kind.as_str(), entry.size) {
        ("dir", _) => format!("{}/", entry.name),
        ("symlink", _) => format!("{}@", entry.name),
        (_, Some(size)) => format!("{}  {size}", entry.name),
        (_, None) => entry.name.clone(),
    };
    limited(listed.entries.iter().map(line), listed.truncated, "use glob with a pattern")
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
        false => limited(found.matches.iter().cloned(), found.truncated, "use a narrower pattern or path"),
    };
    Ok(ToolOutcome::text(text).with(value(&found)))
}

/// Searches files or the output of a process.
pub(super) async fn grep(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let (pattern, path) = (arguments.text("pattern")?, arguments.maybe_text("path")?);
    let include = arguments.maybe_text("include")?;
    let found = match path.and_then(|path| path.strip_prefix(OF_PROCESS)) {
        Some(id) => {
            let process = process::tracked(toolbox, id, Some(0), u64::MAX).await?;
            search::search(&process, pattern, usize::try_from(MAX_RESULTS).unwrap_or(usize::MAX)).await?
        }
        None => {
            let grep = |target: TargetSession| async move {
                let path = path.map(|path| target.path(path)).or_else(|| target.cwd.clone());
                let (pattern, include) =
                    (pattern.to_owned(), include.map(str::to_owned).into_iter().collect());
                let params = v1::FsGrep {
                    pattern,
                    path,
                    include,
                    max_matches: Some(MAX_RESULTS),
                    ..v1::FsGrep::default()
                };
                target.session.files().grep(params).await
            };
            let next = "escape special characters with \\: ( ) [ ] { } . * + ? | ^ $";
            toolbox.with_session(grep).await.map_err(|failure| with_hint(failure, next))?
        }
    };
    let line = |found: &v1::GrepMatch| {
        let text: String = found.text.chars().take(MAX_LINE_CHARS).collect();
        let dots = if text.len() < found.text.len() { " …" } else { "" };
        format!("{}:{}: {text}{dots}", found.path, found.line)
    };
    let text = match found.matches.is_empty() {
        true => format!("no match for {pattern}"),
        false => limited(
            found.matches.iter().map(line),
            found.truncated,
            "use a narrower pattern, path or include",
        ),
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
        write!(text, ", modified {mtime} ms after 1970").ok();
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

/// Joins lines up to the size limit, with a note about the rest.
fn limited(lines: impl Iterator<Item = String>, truncated: bool, next: &str) -> String {
    let (mut text, mut left) = (String::new(), 0_usize);
    for line in lines {
        match text.len() + line.len() < SHOWN {
            true => writeln!(text, "{line}").ok(),
            false => {
                left += 1;
                None
            }
        };
    }
    let text = text.trim_end_matches('\n');
    match (left, truncated) {
        (0, false) => text.to_owned(),
        (0, true) => format!("{text}\n[truncated; {next}]"),
        (left, _) => format!("{text}\n[{left} more not shown; {next}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_counted() {
        let many = (0..10_000).map(|n| format!("line number {n}"));
        let text = limited(many, false, "do this");
        assert!(text.len() < SHOWN + 100 && text.ends_with("more not shown; do this]"), "{}", text.len());
        assert_eq!(limited(["a".to_owned()].into_iter(), true, "x"), "a\n[truncated; x]");
    }
}
