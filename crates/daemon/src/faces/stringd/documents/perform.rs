//! Running of actions: a prepared command or request, then the response template.

use std::path::PathBuf;

use sfmd::action::Action;
use sfmd::flags::{self, Flags, Invocation, PayloadError};
use sfmd::invoke::{self, PreparedAction};
use sfmd::json::Json;
use sfmd::template::{self, ActionResponse, Step};
use sfmd::{render, uri};

use super::bindings::ActionBindings;
use super::state::DocumentState;
use super::{DocumentResult, failed, load, work};
use crate::faces::stringd::commands::{CommandContext, CommandResult, HttpCall, ShellCommand, WriteFile};
use crate::faces::stringd::errors::OperationError;

/// An action and the values of its caller.
pub(super) struct ActionCall<'a> {
    pub(super) action: &'a Action,
    pub(super) flags: Flags,
    /// Context variables of a tool.
    pub(super) variables: &'a [(String, String)],
}

/// Reads the arguments of an action and runs it, or shows its flags.
pub(super) async fn invoke(
    state: &mut DocumentState,
    context: &CommandContext,
    action: &Action,
    args: &str,
    variables: &[(String, String)],
) -> DocumentResult {
    match flags::parse(action, args).map_err(invalid)? {
        Invocation::Schema => Ok(format!("Action: {}\n---\n{}", action.id, action.schema())),
        Invocation::Run(flags) => run(state, context, ActionCall { action, flags, variables }).await,
    }
}

/// Runs an action and applies its response template.
pub(super) async fn run(
    state: &mut DocumentState,
    context: &CommandContext,
    call: ActionCall<'_>,
) -> DocumentResult {
    let (payload, prepared) = {
        let mut bindings = ActionBindings::new(state, context, call.variables).await;
        let payload = invoke::payload(call.action, call.flags, &bindings).map_err(invalid)?;
        bindings.load(invoke::files(call.action, &payload, &bindings)).await;
        let prepared = invoke::prepare(call.action, &payload, &bindings).map_err(invalid)?;
        (payload, prepared)
    };
    let result = match prepared {
        PreparedAction::Cli { command } => command_result(state, context, command).await?,
        PreparedAction::Http { method, url, headers, body } => {
            let call = HttpCall { method: method.name().to_owned(), url, headers, body };
            http_result(state, context, call).await?
        }
    };
    match &call.action.response {
        Some(template) => respond(state, context, template, &result, &payload).await,
        None if !result.is_command => Ok(shown(state, result.text).await),
        None if result.status == 0 => Ok(result.text),
        None => Err(failed(&format!("EXIT_{}", result.status), result.text)),
    }
}

fn invalid(error: PayloadError) -> CommandResult {
    failed("INVALID_PAYLOAD", error.0)
}

/// What an action returned.
struct ActionResult {
    status: i64,
    text: String,
    is_command: bool,
}

async fn command_result(
    state: &DocumentState,
    context: &CommandContext,
    text: String,
) -> Result<ActionResult, CommandResult> {
    let document = state.uri().and_then(super::paths::directory_of);
    let cwd = document.unwrap_or_else(|| context.home().to_owned());
    let output = context.run(ShellCommand { text, cwd, env: Vec::new() }).await.map_err(command_failure)?;
    Ok(ActionResult { status: i64::from(output.status), text: output.output, is_command: true })
}

/// The failure of a command that did not start.
pub(super) fn command_failure(error: OperationError) -> CommandResult {
    let code = error.code("INTERNAL_ERROR");
    failed(code, error.to_string())
}

async fn http_result(
    state: &DocumentState,
    context: &CommandContext,
    call: HttpCall,
) -> Result<ActionResult, CommandResult> {
    const SHOWN: usize = 500;
    let url = uri::resolve(&call.url, state.uri());
    if !uri::is_http(&url) {
        return Err(failed("LOAD_ERROR", format!("Actions can only topic HTTP endpoints (got: {url})")));
    }
    let reply = context.http(HttpCall { url: url.clone(), ..call }).await.map_err(|error| match error {
        OperationError::Denied(reason) => failed("POLICY_DENIED", reason),
        error => failed("LOAD_ERROR", format!("Network error: {error}")),
    })?;
    match reply.status {
        200..300 => {}
        404 => return Err(failed("NOT_FOUND", format!("Not found: {url}"))),
        status => {
            let body: String = reply.body.trim().chars().take(SHOWN).collect();
            let body = if body.is_empty() { body } else { format!("\n{body}") };
            return Err(failed("LOAD_ERROR", format!("HTTP {status} at {url}{body}")));
        }
    }
    let text = match reply.content_type.contains("text/html") {
        true => load::converted(reply.body).await.0,
        false => reply.body,
    };
    Ok(ActionResult { status: i64::from(reply.status), text, is_command: false })
}

async fn respond(
    state: &mut DocumentState,
    context: &CommandContext,
    template: &str,
    result: &ActionResult,
    payload: &Flags,
) -> DocumentResult {
    let body = Json::parse(&result.text).unwrap_or_else(|| Json::String(result.text.clone()));
    let response = ActionResponse { status: result.status, body };
    let steps = {
        let bindings = ActionBindings::new(state, context, &[]).await;
        template::apply(template, &response, payload, &bindings)
    };
    let mut lines = Vec::new();
    for step in steps {
        match step {
            Step::Set { name, value } => state.set_variable(name, value),
            Step::Text(line) => lines.push(line),
            Step::Write { path, bytes } => {
                // Relative to the daemon's directory, as documents for other runtimes expect.
                let base = std::env::current_dir().unwrap_or_else(|_| context.home().to_owned());
                let file: PathBuf = base.join(&path);
                let new =
                    WriteFile { path: &file, content: &bytes, creates_parents: true, is_private: false };
                if let Err(error) = context.write(new).await {
                    lines.push(format!("to: {path}: {error}"));
                }
            }
        }
    }
    Ok(shown(state, lines.join("\n")).await)
}

/// A text rendered as a document; its links become shortcuts of the topic.
async fn shown(state: &mut DocumentState, text: String) -> String {
    let view = work(text.len(), move || render::fragment(&text)).await;
    state.auto.merge(&view.auto);
    view.text
}
