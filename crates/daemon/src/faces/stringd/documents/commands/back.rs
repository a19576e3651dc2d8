//! `/back`: the previous document, loaded again.

use std::sync::Arc;

use super::open;
use crate::faces::stringd::commands::CommandContext;
use crate::faces::stringd::documents::state::{DocumentState, OpenDocument};
use crate::faces::stringd::documents::{DocumentResult, failed, load};

/// Returns to the previous document; the cached copy is shown if it cannot be loaded.
pub(in super::super) async fn run(state: &mut DocumentState, context: &CommandContext) -> DocumentResult {
    let Some(previous) = state.history.pop() else {
        return Err(failed("INVALID_TARGET", "No previous page in history."));
    };
    state.current = Some(match load::document(context, &previous.uri).await {
        Ok(loaded) => Arc::new(OpenDocument { block: previous.block.clone(), ..loaded }),
        Err(_) => previous,
    });
    state.directory = None;
    open::present(state, context, "Back to").await
}
