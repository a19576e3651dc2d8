//! `/verify`: the size and the start of a block.

use sfmd::block;
use sfmd::command::{CommandLine, Verb};
use sfmd::edit::{line_count, preview};

use super::{changes, edit};
use crate::faces::stringd::commands::CommandContext;
use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{DocumentResult, failed};

/// Finds a block in a file.
pub(in super::super) async fn run(
    state: &DocumentState,
    context: &CommandContext,
    args: &str,
) -> DocumentResult {
    let usage = || failed("INVALID_TARGET", "Usage: /verify <path>#<block>");
    let line = CommandLine { verb: Verb::Verify, args, body: None };
    let target = changes::target(state, context, &line).ok_or_else(usage)?;
    let id = target.block.ok_or_else(usage)?;
    let text = changes::content(context, &target, "Verify").await?;
    let text = text.ok_or_else(|| changes::missing_file(&target))?;
    let block = block::extract(&text, id).ok_or_else(|| edit::missing_block(&target, id))?;
    let (lines, characters) = (line_count(block), block.chars().count());
    Ok(format!("Verified {}#{id} ({lines} lines, {characters} chars)\n---\n{}", target.typed, preview(block)))
}
