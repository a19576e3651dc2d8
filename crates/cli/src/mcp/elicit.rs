//! Forwards approval requests to the user of the MCP client, with the complete operation.

use client::v1::ApprovalRequested;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ServerRequest,
};
use rmcp::service::{Peer, RoleServer};
use serde_json::{Map, Value, json};

use crate::approval_description::ApprovalDescription;
use crate::escape;
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

/// Prompts the user and sends the decision. No answer counts as a denial.
pub(super) async fn ask(peer: Peer<RoleServer>, question: ClaimedApproval) {
    let Some(request) = question.request() else { return };
    let answer = match form() {
        Some(requested_schema) => {
            let params = ElicitRequestParams::FormElicitationParams {
                meta: None,
                message: message(request),
                requested_schema,
            };
            peer.send_request(ServerRequest::ElicitRequest(ElicitRequest::new(params))).await.ok()
        }
        None => None,
    };
    let (approve, scope) = match answer {
        Some(ClientResult::ElicitResult(answer)) => decision(&answer),
        _ => (false, None),
    };
    question.decide(approve, scope).await;
}

fn form() -> Option<ElicitationSchema> {
    let form = json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "Approve or deny the operation",
                "enum": ["approve", "deny"],
            },
            "scope": {
                "type": "string",
                "title": "Scope",
                "description": "Only this operation, or all operations of the same rule until the session ends",
                "enum": ["once", "session"],
                "default": "once",
            },
        },
        "required": ["decision"],
    });
    serde_json::from_value(form).ok()
}

fn decision(answer: &ElicitResult) -> (bool, Option<&'static str>) {
    let content = answer.content.as_ref().unwrap_or(&Value::Null);
    let approve = answer.action == ElicitationAction::Accept && content["decision"] == "approve";
    let scope = match content["scope"].as_str() {
        Some("session") => Some("session"),
        _ => None,
    };
    (approve, scope)
}

/// The text of the prompt: first the fields that explain the operation, then the operation. If text is omitted, a
/// warning comes first.
fn message(request: &ApprovalRequested) -> String {
    let described = ApprovalDescription::from(request.clone());
    let mut hidden = 0;
    let mut fit = |text: &str, most: usize| match text.char_indices().nth(most) {
        Some((end, _)) => {
            hidden += text.len() - end;
            format!("{}…", &text[..end])
        }
        None => text.to_owned(),
    };
    let facts = described.facts.iter().enumerate().map(|(at, fact)| {
        // The operation itself comes first.
        fit(&escape::text(fact), if at == 0 { MOST_SHOWN } else { MOST_FACT })
    });
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
        let text = message(&asked("exec.start", json!({ "command": "git push\ngit fetch", "cwd": "/srv" })));
        assert!(
            text.contains("command:\ngit push\ngit fetch\n")
                && text.contains("directory: /srv")
                && text.contains("rule: pushes"),
            "{text}"
        );
        let text = message(&asked("fs.write", json!({ "kind": "write", "paths": ["/x"], "diff": "-a\n+b" })));
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
            let text = message(&request);
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
        let text = message(&long);
        assert!(text.starts_with("INCOMPLETE") && text.contains("command:\ntrue"), "{text}");
    }

    #[test]
    fn only_an_explicit_approval_approves() {
        let answer = |action, content: Value| decision(&ElicitResult::new(action).with_content(content)).0;
        assert!(answer(ElicitationAction::Accept, json!({ "decision": "approve" })));
        assert!(!answer(ElicitationAction::Accept, json!({ "decision": "deny" })));
        assert!(!answer(ElicitationAction::Accept, json!({})));
        assert!(!answer(ElicitationAction::Decline, json!({ "decision": "approve" })));
        let session = ElicitResult::new(ElicitationAction::Accept)
            .with_content(json!({ "decision": "approve", "scope": "session" }));
        assert_eq!(decision(&session), (true, Some("session")));
    }

    #[test]
    fn the_form_is_a_valid_elicitation_schema() {
        assert!(form().is_some());
    }
}
