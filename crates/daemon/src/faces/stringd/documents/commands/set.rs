//! `/set`: variables of the topic, and variables that are kept on disk.

use sfmd::assign::{self, VariableAssignment, VariableKind};
use sfmd::command::CommandLine;

use crate::faces::stringd::commands::CommandContext;
use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::store::{self, VariableScope};
use crate::faces::stringd::documents::{DocumentResult, failed};

const USAGE: &str = "Usage: /set {name} = \"value\" or /set $NAME = \"value\"";

/// Sets variables, or lists them without arguments.
pub(in super::super) async fn run(
    state: &mut DocumentState,
    context: &CommandContext,
    line: &CommandLine<'_>,
) -> DocumentResult {
    if line.args.is_empty() && line.body.is_none_or(|body| body.trim().is_empty()) {
        return Ok(list(state, context).await);
    }
    let assignments = assign::parse(line.args, line.body);
    let scope = VariableScope::of(context).label();
    let mut lines = Vec::new();
    for assignment in assignments.valid {
        if assignment.kind == VariableKind::Persistent {
            store::set_variable(context, &assignment.name, &assignment.value).await?;
        }
        lines.push(confirmation(&assignment, &scope));
        if assignment.kind == VariableKind::Session {
            state.set_variable(assignment.name, assignment.value);
        }
    }
    match assignments.invalid {
        Some(line) => Err(failed("INVALID_PAYLOAD", format!("Invalid assignment: {line}\n{USAGE}"))),
        None => Ok(lines.join("\n")),
    }
}

fn confirmation(assignment: &VariableAssignment, scope: &str) -> String {
    let name = match assignment.kind {
        VariableKind::Session => format!("{{{}}}", assignment.name),
        VariableKind::Persistent => format!("${}", assignment.name),
    };
    let count = assignment.value.split('\n').count();
    match (assignment.is_block, assignment.kind) {
        (true, _) if count > 1 => format!("{name} = ({count} lines)"),
        (false, VariableKind::Persistent) => format!("{name} = \"{}\" ({scope})", assignment.value),
        _ => format!("{name} = \"{}\"", assignment.value),
    }
}

async fn list(state: &DocumentState, context: &CommandContext) -> String {
    let session = state.variables.iter().map(|(name, value)| format!("{{{name}}} = \"{value}\""));
    let persistent = store::variables(context).await;
    let persistent = persistent.iter().map(|(name, value)| format!("${name} = \"{value}\""));
    let lines: Vec<String> = session.chain(persistent).collect();
    match lines.is_empty() {
        true => "No variables set.".to_owned(),
        false => format!("Variables\n---\n{}", lines.join("\n")),
    }
}
