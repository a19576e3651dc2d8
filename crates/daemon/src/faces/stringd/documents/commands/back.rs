//! `/back`: the previous document, loaded again.

use std::sync::Arc;

use super::open;
use crate::faces::stringd::commands::CommandContext;
use crate::faces::stringd::documents::state::{DocumentState, OpenDocument};
use crate::faces::stringd::documents::{DocumentResult, failed, load};

/// Returns to the previous document; its copy is shown if it cannot be loaded, as long as the history has one.
pub(in super::super) async fn run(state: &mut DocumentState, context: &CommandContext) -> DocumentResult {
    let Some(previous) = state.history.pop() else {
        return Err(failed("INVALID_TARGET", "No previous page in history."));
    };
    state.current = Some(match load::document(context, &previous.uri).await {
        Ok(loaded) => Arc::new(OpenDocument { block: previous.block, ..loaded }),
        Err(failure) => previous.copy.ok_or(failure)?,
    });
    state.directory = None;
    open::present(state, context, "Back to").await
}
