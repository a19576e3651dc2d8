//! `/close`: forgets the current document and the session variables.

use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{DocumentResult, no_document};

/// Closes the document; the history stays.
pub(in super::super) fn run(state: &mut DocumentState) -> DocumentResult {
    let closed = state.current.take().ok_or_else(no_document)?;
    state.directory = None;
    state.auto = Default::default();
    state.variables.clear();
    Ok(format!("Closed: {}", closed.uri))
}
