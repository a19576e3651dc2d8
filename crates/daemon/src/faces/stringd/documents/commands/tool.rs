//! `/tool:NAME`: an action of a tool, with the caller's document as its context.

use sfmd::uri;

use crate::faces::stringd::commands::CommandContext;
use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{DocumentResult, failed, packages, perform, store};

/// The tool, its action and the arguments as typed.
pub(in super::super) struct ToolCall<'a> {
    pub(in super::super) name: &'a str,
    pub(in super::super) action: Option<&'a str>,
    pub(in super::super) args: &'a str,
}

/// Runs an action of a tool; the current document stays.
pub(in super::super) async fn run(
    state: &mut DocumentState,
    context: &CommandContext,
    call: ToolCall<'_>,
) -> DocumentResult {
    let name = call.name;
    let tool = packages::tool(context, name).await?;
    let tool = tool.ok_or_else(|| failed("NOT_FOUND", format!("Tool not found: {name}")))?;
    let mut variables = caller(state, context, call.args);
    let known = store::variables(context).await;
    for needed in tool.frontmatter().variables() {
        let is_set =
            known.iter().any(|(set, _)| *set == needed.name) || context.variable(&needed.name).is_some();
        match needed.default {
            _ if is_set => {}
            Some(default) => variables.push((needed.name, default)),
            None => {
                let text = format!(
                    "ERROR(ENV_REQUIRED): tool requires ${} — \"{}\"",
                    needed.name, needed.description
                );
                return Err(failed("INVALID_PAYLOAD", text));
            }
        }
    }
    let available = tool.actions().iter().map(|action| action.id.as_str()).collect::<Vec<_>>().join(", ");
    let default = tool.frontmatter().text("default");
    let Some(id) = call.action.or(default.as_deref()) else {
        let text = format!("No default action for tool:{name}. Available: {available}");
        return Err(failed("INVALID_PAYLOAD", text));
    };
    let missing =
        || failed("NOT_FOUND", format!("Action \"{id}\" not found in tool:{name}. Available: {available}"));
    let action =
        tool.actions().iter().find(|action| action.id.eq_ignore_ascii_case(id)).ok_or_else(missing)?;
    perform::invoke(state, context, action, call.args, &variables).await
}

/// The variables that describe the caller.
fn caller(state: &DocumentState, context: &CommandContext, args: &str) -> Vec<(String, String)> {
    let address = state.uri().unwrap_or_default();
    let block = state.current.as_ref().and_then(|open| open.block.clone()).unwrap_or_default();
    [
        ("CURRENT_FILE", uri::to_path(address).unwrap_or_default()),
        ("CWD", state.cwd(context.home()).to_string_lossy().into_owned()),
        ("CURRENT_URI", address.to_owned()),
        ("CURRENT_TARGET", context.topic().as_str().to_owned()),
        ("CURRENT_BLOCK", block),
        ("ARGS", args.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
