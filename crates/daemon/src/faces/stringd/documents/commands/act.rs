//! `/act`: lists the actions of the current document, or runs one.

use sfmd::action;
use sfmd::document::Document;

use super::open;
use crate::faces::stringd::commands::{CommandContext, CommandResult};
use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{DocumentResult, failed, packages, perform};

/// Runs the action with an id, from the verb or the first argument.
pub(in super::super) async fn run(
    state: &mut DocumentState,
    context: &CommandContext,
    id: Option<&str>,
    args: &str,
) -> DocumentResult {
    open_app(state, context).await;
    let Some(open) = state.current.clone() else {
        return Err(failed("INVALID_TARGET", "No document open. Use /open <uri> first."));
    };
    let (id, args) = match id {
        Some(id) => (id, args),
        None => args.split_once(char::is_whitespace).unwrap_or((args, "")),
    };
    let actions = open.document.actions();
    if id.is_empty() || (id.starts_with('-') && matches!(id, "--help" | "-h")) {
        return Ok(match actions.is_empty() {
            true => "No actions defined on this page.".to_owned(),
            false => format!("Actions\n---\n{}", action::schemas(actions)),
        });
    }
    let action = open.document.action(id).ok_or_else(|| unknown(&open.document, id))?;
    perform::invoke(state, context, action, args, &[]).await
}

/// Opens the application of an app topic, so that its actions run without a first `/open`.
async fn open_app(state: &mut DocumentState, context: &CommandContext) {
    if state.current.is_none()
        && let Some(app) = open::app_name(context)
        && let Some(address) = packages::address(context, &app).await
        && let Ok(document) = crate::faces::stringd::documents::load::document(context, &address).await
    {
        state.show(std::sync::Arc::new(document));
    }
}

/// The failure for an id that the document does not define.
pub(super) fn unknown(document: &Document, id: &str) -> CommandResult {
    let known: Vec<&str> = document.actions().iter().map(|action| action.id.as_str()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    failed(
        "NOT_FOUND",
        format!("Action not found: \"{id}\"\nAvailable: {known}\nUse /act to list the actions."),
    )
}
