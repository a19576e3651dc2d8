//! `/source`: the text of the current document, or the page that it was made from.

use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{DocumentResult, no_document};

/// Shows the text as it was loaded.
pub(in super::super) fn run(state: &DocumentState) -> DocumentResult {
    let open = state.current.as_ref().ok_or_else(no_document)?;
    let text = open.html.as_deref().unwrap_or(open.document.source());
    Ok(format!("[source: {}]\n---\n{text}", open.uri))
}
