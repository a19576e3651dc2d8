//! `/refresh`: the current document, loaded again.

use std::sync::Arc;

use super::open;
use crate::faces::stringd::commands::CommandContext;
use crate::faces::stringd::documents::state::{DocumentState, OpenDocument};
use crate::faces::stringd::documents::{DocumentResult, load, no_document};

/// Loads the current document again; its block stays.
pub(in super::super) async fn run(state: &mut DocumentState, context: &CommandContext) -> DocumentResult {
    let current = state.current.clone().ok_or_else(no_document)?;
    let loaded = load::document(context, &current.uri).await?;
    state.current = Some(Arc::new(OpenDocument { block: current.block.clone(), ..loaded }));
    open::present(state, context, "Refreshed").await
}
