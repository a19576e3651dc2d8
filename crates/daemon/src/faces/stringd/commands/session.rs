//! `/session`: the topics of the user, in every kind of topic.

use super::{CommandContext, CommandResult};

/// Lists the user's topics or closes one.
pub(super) fn run(context: &CommandContext, text: &str) -> CommandResult {
    let mut words = text.split_whitespace().skip(1);
    let (verb, target) = (words.next(), words.next());
    match verb {
        None | Some("list") => {
            let line = |topic: &String| match topic == context.topic().as_str() {
                true => format!("* {topic}"),
                false => format!("  {topic}"),
            };
            let lines: Vec<String> = context.topics().iter().map(line).collect();
            CommandResult::ok(format!("sessions:\n{}", lines.join("\n")))
        }
        Some("close") => {
            let topic = target.unwrap_or(context.topic().as_str());
            match context.close_topic(topic) {
                true => CommandResult::ok(format!("Closed session: {topic}")),
                false => failed("Cannot close last session."),
            }
        }
        Some(other) => failed(&format!("Unknown session command: /session {other}")),
    }
}

/// Failures of this command have no code.
fn failed(text: &str) -> CommandResult {
    CommandResult { ok: false, code: None, content: text.to_owned() }
}
