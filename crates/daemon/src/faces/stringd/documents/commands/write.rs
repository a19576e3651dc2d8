//! `/write`: replaces a file, or a block of it.

use sfmd::command::CommandLine;
use sfmd::edit::line_count;

use super::changes::{self, FileChange};
use super::edit;
use crate::faces::stringd::commands::CommandContext;
use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{DocumentResult, failed};

/// Writes the body, or the rest of the line.
pub(in super::super) async fn run(
    state: &mut DocumentState,
    context: &CommandContext,
    line: &CommandLine<'_>,
) -> DocumentResult {
    let usage =
        || failed("INVALID_TARGET", "Usage: /write <path>[#block] with the content on the next lines");
    let target = changes::target(state, context, line).ok_or_else(usage)?;
    let new = target.content.ok_or_else(usage)?;
    if target.block.is_some() {
        return edit::run(state, context, line).await;
    }
    let old = changes::content(context, &target, "Write").await?;
    let word = if old.as_deref().is_none_or(str::is_empty) { "Created" } else { "Written" };
    let change =
        FileChange { target: &target, old: old.as_deref(), new, creates_parents: true, what: "Write" };
    let tail = changes::apply(state, context, change).await?;
    Ok(format!("{word}: {} ({} bytes, {} lines){tail}", target.typed, new.len(), line_count(new)))
}
