//! `/ls`: the entries of a directory.

use std::cmp::Ordering;
use std::path::Path;

use sfmd::uri;

use crate::faces::stringd::commands::{CommandContext, DirListing, EntryKind};
use crate::faces::stringd::convert::TopicType;
use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{DocumentResult, failed, file_failure, paths};

/// Lists a directory of a file topic.
pub(in super::super) async fn run(
    state: &DocumentState,
    context: &CommandContext,
    args: &str,
) -> DocumentResult {
    let is_web = state.directory.is_none() && state.uri().is_some_and(uri::is_http);
    if context.topic().kind() != TopicType::File || is_web {
        return Err(failed("INVALID_TARGET", "/ls is not available here; use it in a file topic."));
    }
    let typed = if args.is_empty() { "." } else { args };
    let path = paths::absolute(state, context, typed);
    match context.kind(&path).await {
        Ok(Some(EntryKind::Dir)) => listing(context, &path, typed).await,
        Ok(Some(_)) => Err(failed("INVALID_TARGET", format!("Not a directory: {typed}"))),
        Ok(None) => Err(failed("NOT_FOUND", format!("Not found: {typed}"))),
        Err(error) => Err(file_failure(&error, typed, "LOAD_ERROR", &format!("Failed to read {typed}"))),
    }
}

/// The entries of a directory: directories first, then files.
pub(super) async fn listing(context: &CommandContext, path: &Path, typed: &str) -> DocumentResult {
    let listing = context.list(path).await;
    let DirListing { mut entries, is_truncated } = listing
        .map_err(|error| file_failure(&error, typed, "LOAD_ERROR", &format!("Failed to read {typed}")))?;
    let listed = entries.len();
    entries.retain(|entry| !entry.name.starts_with('.'));
    entries.sort_by(|a, b| b.is_dir.cmp(&a.is_dir).then_with(|| by_name(&a.name, &b.name)));
    let line = |(name, is_dir): (&str, bool)| format!("  {name}{}", if is_dir { "/" } else { "" });
    let mut lines: Vec<String> = entries.iter().map(|entry| line((&entry.name, entry.is_dir))).collect();
    if is_truncated {
        lines.push(format!("  (more than {listed} entries; the rest is left out)"));
    }
    let lines = if lines.is_empty() { "  (empty)".to_owned() } else { lines.join("\n") };
    Ok(format!("Listing {}/\n---\n{lines}", paths::shown_path(context, path).trim_end_matches('/')))
}

/// Punctuation, then digits, then letters without their case; lower case first among equals.
fn by_name(a: &str, b: &str) -> Ordering {
    let key = |c: char| (c.is_alphabetic(), c.is_numeric(), c.to_lowercase().next().unwrap_or(c));
    let equal_case = a.chars().map(key).cmp(b.chars().map(key));
    equal_case.then_with(|| b.cmp(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_ordered_as_people_expect() {
        let mut names = ["B", "9", "a", "_x", "b", "10", "A"];
        names.sort_by(|a, b| by_name(a, b));
        assert_eq!(names, ["_x", "10", "9", "a", "A", "b", "B"]);
    }
}
