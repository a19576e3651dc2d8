//! Forwards approval requests to the user of the MCP client, with the complete operation.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use client::v1::ApprovalRequested;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ServerRequest,
};
use rmcp::service::{Peer, RoleServer};
use serde_json::{Map, Value, json};

use crate::approval_description::ApprovalDescription;
use crate::escape;
use crate::tools::ToolOutcome;
use crate::tools::approval_queue::ClaimedApproval;

/// Characters shown of an operation: dialogs are small.
const MOST_SHOWN: usize = 8_000;
/// Characters shown of each other field.
const MOST_FACT: usize = 1_000;

/// Whether an approval request belongs to this call.
pub(super) fn belongs(asked: &ApprovalRequested, tool: &str, arguments: &Map<String, Value>) -> bool {
    let methods: &[&str] = match tool {
        "bash" => &["exec.start"],
        "bash_output" => &["exec.attach"],
        "bash_input" => &["exec.input", "pty.input"],
        "kill" => &["exec.kill"],
        "read" => &["fs.read", "fs.stat", "fs.list"],
        "write" => &["fs.write"],
        "edit" => &["fs.edit"],
        "patch" => &["fs.patch"],
        "list" => &["fs.list"],
        "glob" => &["fs.glob"],
        "grep" => &["fs.grep"],
        "stat" => &["fs.stat"],
        _ => &[],
    };
    let command = arguments.get("command").and_then(Value::as_str);
    // The arguments of the shell: `-c` and the command.
    let asked_command = asked.operation["argv"][2].as_str();
    // Concurrent commands each match their own request.
    let fits = match (command, asked_command) {
        (Some(command), Some(asked)) => asked == command,
        _ => true,
    };
    methods.contains(&asked.method.as_str()) && fits
}

/// An answer that comes sooner than a person can read a question is one of the client.
const READING: Duration = Duration::from_millis(150);

/// Who denied an operation, as far as the answer of the client shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeniedBy {
    /// A person who declined.
    Person,
    /// The question was dismissed without an answer.
    Dismissed,
    /// The client, without an answer of a person.
    Client(String),
}

impl DeniedBy {
    /// The outcome of the denied call. The server's message only names the connection that sent the decision.
    pub(super) fn explain(&self, outcome: ToolOutcome) -> ToolOutcome {
        let text = match self {
            DeniedBy::Person => "not approved: the user denied it\nhint: do not try to reach the same by other means; ask the \
                user how to continue"
                .to_owned(),
            DeniedBy::Dismissed => "not approved: the question was dismissed without an answer\nhint: ask the user whether to \
                continue, and call again"
                .to_owned(),
            DeniedBy::Client(why) => format!(
                "not approved: the MCP client denied it by itself, no person was asked: {why}\nhint: ask the user to run \
                 `rex approvals watch` in a terminal, or to allow questions of MCP servers (elicitation) in the client, and \
                 call again"
            ),
        };
        ToolOutcome { structured: outcome.structured, ..ToolOutcome::failed(text) }
    }
}

/// Prompts the user by a request of the server, and sends the decision. No answer counts as a denial.
pub(super) async fn ask(
    peer: Peer<RoleServer>,
    question: ClaimedApproval,
    denied_by: Arc<OnceLock<DeniedBy>>,
) {
    let decision = match request(&question) {
        Some(request) => answer(&peer, request).await,
        None => Err(DeniedBy::Client("the form of the question is invalid".to_owned())),
    };
    settle(question, decision, &denied_by).await;
}

/// The question for a client, with the complete operation.
pub(super) fn request(question: &ClaimedApproval) -> Option<ElicitRequest> {
    let (message, requested_schema) = (message(question.request()?, question.place()), form()?);
    let params = ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema };
    Some(ElicitRequest::new(params))
}

/// Sends the decision. Who denied it is stored before, because the call may end before the response to it arrives.
pub(super) async fn settle(
    question: ClaimedApproval,
    decision: Result<Option<&'static str>, DeniedBy>,
    denied_by: &OnceLock<DeniedBy>,
) {
    match decision {
        Ok(scope) => question.decide(true, scope).await,
        Err(reason) => {
            // The first denial ends the call.
            denied_by.set(reason).ok();
            question.decide(false, None).await;
        }
    }
}

async fn answer(peer: &Peer<RoleServer>, request: ElicitRequest) -> Result<Option<&'static str>, DeniedBy> {
    let asked = Instant::now();
    let answer = peer.send_request(ServerRequest::ElicitRequest(request)).await;
    match answer {
        Ok(ClientResult::ElicitResult(answer)) => decision(&answer, asked.elapsed()),
        Ok(_) => Err(DeniedBy::Client("its answer is of another kind".to_owned())),
        Err(error) => Err(DeniedBy::Client(error.to_string())),
    }
}

/// The form of the prompt. Accepting it without an answer approves the operation once.
fn form() -> Option<ElicitationSchema> {
    let form = json!({
        "type": "object",
        "properties": {
            "scope": {
                "type": "string",
                "title": "Scope",
                "description": "Only this operation, or all operations of the same rule until the session ends",
                "enum": ["once", "session"],
                "default": "once",
            },
        },
    });
    serde_json::from_value(form).ok()
}

/// The scope of an approval, or who denied it.
pub(super) fn decision(answer: &ElicitResult, after: Duration) -> Result<Option<&'static str>, DeniedBy> {
    let content = answer.content.as_ref().unwrap_or(&Value::Null);
    match answer.action {
        // Not a member of the form, but an answer that says "deny" must not approve.
        ElicitationAction::Accept if content["decision"] == "deny" => Err(DeniedBy::Person),
        ElicitationAction::Accept => Ok(Some("session").filter(|scope| content["scope"] == *scope)),
        ElicitationAction::Decline | ElicitationAction::Cancel if after < READING => {
            Err(DeniedBy::Client("it answered sooner than a person can".to_owned()))
        }
        ElicitationAction::Decline => Err(DeniedBy::Person),
        // `cancel`, and actions of later versions.
        _ => Err(DeniedBy::Dismissed),
    }
}

/// The text of the prompt: first the fields that explain the operation, then the operation. If text is omitted, a
/// warning comes first.
fn message(request: &ApprovalRequested, place: &str) -> String {
    let mut described = ApprovalDescription::from(request.clone());
    // The operation itself comes first.
    let host = format!("host: {place}");
    described.facts.insert(described.facts.len().min(1), host);
    let mut hidden = 0;
    let mut fit = |text: &str, most: usize| match text.char_indices().nth(most) {
        Some((end, _)) => {
            hidden += text.len() - end;
            format!("{}…", &text[..end])
        }
        None => text.to_owned(),
    };
    let facts = described
        .facts
        .iter()
        .enumerate()
        .map(|(at, fact)| fit(&escape::text(fact), if at == 0 { MOST_SHOWN } else { MOST_FACT }));
    let facts = facts.collect::<Vec<_>>().join("\n");
    let texts = described.texts.iter().map(|(title, text)| format!("\n{title}:\n{}\n", escape::text(text)));
    let texts = fit(&texts.collect::<String>(), MOST_SHOWN);
    let warning = match hidden {
        0 => String::new(),
        _ => format!(
            "INCOMPLETE: {hidden} bytes are not shown. `rex approvals list --json` shows the whole approval {}.\n\n",
            request.approval_id
        ),
    };
    format!("{warning}{facts}\n{texts}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, operation: Value) -> ApprovalRequested {
        serde_json::from_value(json!({
            "session_id": "s", "approval_id": "a", "method": method, "summary": "run git push",
            "operation": operation, "rule": "pushes", "expires_at": null, "event_id": 1,
        }))
        .unwrap()
    }

    #[test]
    fn a_request_belongs_to_the_call_that_it_blocks() {
        let run = asked("exec.start", json!({ "kind": "run", "argv": ["bash", "-c", "git push"] }));
        let arguments = |command: &str| Map::from_iter([("command".to_owned(), json!(command))]);
        assert!(belongs(&run, "bash", &arguments("git push")));
        assert!(!belongs(&run, "bash", &arguments("git pull")));
        assert!(!belongs(&run, "write", &Map::new()));
        assert!(belongs(&asked("fs.write", json!({ "kind": "write" })), "write", &Map::new()));
    }

    #[test]
    fn the_prompt_contains_the_whole_command_and_the_diff() {
        let run = asked("exec.start", json!({ "command": "git push\ngit fetch", "cwd": "/srv" }));
        let text = message(&run, "web-1 (target web)");
        assert!(
            text.contains("command:\ngit push\ngit fetch\n")
                && text.contains("directory: /srv")
                && text.contains("host: web-1 (target web)\n")
                && text.contains("rule: pushes"),
            "{text}"
        );
        let write = asked("fs.write", json!({ "kind": "write", "paths": ["/x"], "diff": "-a\n+b" }));
        let text = message(&write, "web-1");
        assert!(text.contains("change:\n-a\n+b\n"), "{text}");
        assert!(!text.contains("INCOMPLETE"), "{text}");
    }

    #[test]
    fn a_truncated_prompt_starts_with_a_warning_and_the_explaining_fields() {
        for operation in [
            json!({ "cwd": "/srv", "command": format!("echo {}; rm -rf /", "✓".repeat(20_000)) }),
            json!({ "cwd": "/srv", "diff": "✓".repeat(20_000) }),
        ] {
            let mut request = asked("exec.start", operation);
            (request.reason, request.risk) = (Some("it is shared".to_owned()), Some("high".to_owned()));
            let text = message(&request, "web-1");
            assert!(text.starts_with("INCOMPLETE") && text.contains("approval a."), "{text}");
            let operation = text.find('✓').unwrap();
            for fact in
                ["rex approvals", "run git push", "directory: /srv", "rule: pushes", "shared", "risk: high"]
            {
                assert!(text.find(fact).is_some_and(|place| place < operation), "{fact}");
            }
        }
        let mut long = asked("exec.start", json!({ "command": "true", "cwd": "/x".repeat(3_000) }));
        long.summary = "s".repeat(5_000);
        let text = message(&long, "web-1");
        assert!(text.starts_with("INCOMPLETE") && text.contains("command:\ntrue"), "{text}");
    }

    #[test]
    fn accepting_approves_once_and_a_denial_names_its_author() {
        let answer = |action, content: Value, ms| {
            decision(&ElicitResult::new(action).with_content(content), Duration::from_millis(ms))
        };
        assert_eq!(decision(&ElicitResult::new(ElicitationAction::Accept), Duration::ZERO), Ok(None));
        assert_eq!(answer(ElicitationAction::Accept, json!({}), 0), Ok(None));
        assert_eq!(answer(ElicitationAction::Accept, json!({ "scope": "once" }), 0), Ok(None));
        assert_eq!(answer(ElicitationAction::Accept, json!({ "scope": "session" }), 0), Ok(Some("session")));
        let denied = answer(ElicitationAction::Accept, json!({ "decision": "deny" }), 0);
        assert_eq!(denied, Err(DeniedBy::Person));
        assert_eq!(answer(ElicitationAction::Decline, json!({}), 2_000), Err(DeniedBy::Person));
        assert_eq!(answer(ElicitationAction::Cancel, json!({}), 2_000), Err(DeniedBy::Dismissed));
        for (action, ms) in [(ElicitationAction::Decline, 3), (ElicitationAction::Cancel, 0)] {
            let Err(DeniedBy::Client(why)) = answer(action, json!({ "decision": "approve" }), ms) else {
                panic!("not denied")
            };
            let said = DeniedBy::Client(why.clone()).explain(ToolOutcome::default()).text_content();
            assert!(said.contains("no person was asked") && said.contains(&why), "{said}");
        }
        let dismissed = DeniedBy::Dismissed.explain(ToolOutcome::default()).text_content();
        assert!(dismissed.starts_with("not approved: the question was dismissed without an answer\nhint: "));
        let said = DeniedBy::Person.explain(ToolOutcome::default());
        assert!(said.is_error && said.text_content().starts_with("not approved: the user denied it\nhint: "));
    }

    #[test]
    fn the_form_is_a_valid_elicitation_schema() {
        assert!(form().is_some());
    }
}
