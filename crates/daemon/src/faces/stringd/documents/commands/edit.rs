//! `/edit`: shows a file or block with line numbers, or replaces it.

use sfmd::block;
use sfmd::command::CommandLine;
use sfmd::edit::{line_count, numbered, replace_block};

use super::changes::{self, EditTarget, FileChange};
use crate::faces::stringd::commands::{CommandContext, CommandResult};
use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{DocumentResult, failed};

/// Shows without a content, replaces with one.
pub(in super::super) async fn run(
    state: &mut DocumentState,
    context: &CommandContext,
    line: &CommandLine<'_>,
) -> DocumentResult {
    let usage =
        || failed("INVALID_TARGET", "Usage: /edit <path>[#block], with the new content on the next lines");
    let target = changes::target(state, context, line).ok_or_else(usage)?;
    let old = changes::content(context, &target, "Edit").await?;
    match (target.content, target.block) {
        (None, block) => {
            let old = old.ok_or_else(|| changes::missing_file(&target))?;
            show(&target, &old, block)
        }
        (Some(new), None) => {
            let change = FileChange {
                target: &target,
                old: old.as_deref(),
                new,
                creates_parents: false,
                what: "Edit",
            };
            let tail = changes::apply(state, context, change).await?;
            Ok(format!("Edited {} ({} lines, whole file){tail}", target.typed, line_count(new)))
        }
        (Some(content), Some(id)) => {
            let old = old.ok_or_else(|| changes::missing_file(&target))?;
            let new = replace_block(&old, id, content).ok_or_else(|| unsupported(&target, id))?;
            if block::find(&new, id).is_none() {
                return Err(failed("INTERNAL_ERROR", format!("Edit failed: block #{id} would be lost")));
            }
            let change = FileChange {
                target: &target,
                old: Some(&old),
                new: &new,
                creates_parents: false,
                what: "Edit",
            };
            let tail = changes::apply(state, context, change).await?;
            Ok(format!("Edited {}#{id} ({} lines){tail}", target.typed, line_count(&new)))
        }
    }
}

fn show(target: &EditTarget<'_>, text: &str, id: Option<&str>) -> DocumentResult {
    let (label, text) = match id {
        Some(id) => {
            let missing = || missing_block(target, id);
            (format!("{}#{id}", target.typed), block::extract(text, id).ok_or_else(missing)?)
        }
        None => (target.typed.to_owned(), text),
    };
    Ok(format!("[editing: {label}]\n---\n{}\n\n({} lines)", numbered(text, 1), line_count(text)))
}

/// The failure for a block that is not in its file.
pub(super) fn missing_block(target: &EditTarget<'_>, id: &str) -> CommandResult {
    failed("NOT_FOUND", format!("Block not found: #{id} in {}", target.typed))
}

fn unsupported(target: &EditTarget<'_>, id: &str) -> CommandResult {
    let notations = format!(
        "  <!-- #{id} --> … <!-- /{id} -->\n  ## Heading {{#{id}}}\n  ## Heading []{{#{id}}}\n  ## a heading whose slug is {id}"
    );
    failed("NOT_FOUND", format!("Block #{id} not found in {}.\n{notations}", target.typed))
}
