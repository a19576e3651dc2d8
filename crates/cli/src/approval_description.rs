//! What an approver sees of an operation, on a terminal and through MCP: everything that will happen, and for whom.

use client::hub::ApprovalRow;
use client::v1::{Approval, ApprovalRequested, AskedBy};
use serde_json::{Map, Value};

/// An approval request as text. Every approver's view is made from it.
#[derive(Debug, Clone)]
pub struct ApprovalDescription {
    /// The id for the answer.
    pub id: String,
    /// The operation on one line; may be shortened.
    pub summary: String,
    /// The operation and its circumstances, one per line.
    pub facts: Vec<String>,
    /// Longer texts with a title: the input of a command, the change of a file.
    pub texts: Vec<(String, String)>,
}

impl From<ApprovalRequested> for ApprovalDescription {
    fn from(request: ApprovalRequested) -> ApprovalDescription {
        ApprovalDescription::from(Approval {
            approval_id: request.approval_id,
            method: request.method,
            summary: request.summary,
            operation: request.operation,
            rule: request.rule,
            reason: request.reason,
            risk: request.risk,
            asked_by: request.asked_by,
            requested_at: String::new(),
            expires_at: request.expires_at,
            state: "pending".to_owned(),
        })
    }
}

impl From<Approval> for ApprovalDescription {
    fn from(approval: Approval) -> ApprovalDescription {
        let operation = &approval.operation;
        // The summary may be shortened, and quotes the script of a shell; the command is shown as it is.
        let script = || operation["argv"][2].as_str().filter(|_| operation["argv"][1] == "-c");
        let command = operation["command"].as_str().or_else(script);
        let command = command.filter(|command| !approval.summary.contains(command));
        let command = command.map(|command| ("command".to_owned(), command.to_owned()));
        let mut facts = Vec::new();
        // A server cuts an operation that does not fit into a message.
        if let Some(cut) = operation["cut_bytes"].as_u64() {
            facts.push(format!("INCOMPLETE: {cut} bytes of the operation are not shown; deny it if you cannot see them elsewhere"));
        }
        facts.push(approval.summary.clone());
        let mut add =
            |name: &str, value: Option<&str>| facts.extend(value.map(|value| format!("{name}: {value}")));
        add("directory", operation["cwd"].as_str());
        for (name, value) in operation["env"].as_object().into_iter().flatten() {
            match value.as_str() {
                Some(value) => add("environment", Some(&format!("{name}={value}"))),
                None => add("environment", Some(&format!("{name} is removed"))),
            }
        }
        let stdin_bytes = operation["stdin_bytes"].as_u64().filter(|bytes| *bytes > 0);
        add("standard input", stdin_bytes.map(|bytes| format!("{bytes} bytes")).as_deref());
        add("login shell", (operation["login"] == true).then_some("yes"));
        add("terminal", (operation["pty"] == true).then_some("yes"));
        add("detached", (operation["detach"] == true).then_some("yes: it outlives its session"));
        add("overwrites", (operation["overwrite"] == true).then_some("yes"));
        add("requested by", approval.asked_by.as_ref().map(requester).as_deref());
        add("rule", approval.rule.as_deref());
        add("reason", approval.reason.as_deref());
        add("risk", approval.risk.as_deref());
        add("denied without an answer at", approval.expires_at.as_deref());
        add("not described", unknown_members(operation).as_deref());
        let texts = [("standard input", "stdin"), ("change", "diff")];
        let texts = texts.into_iter().filter_map(|(title, member)| {
            let text = operation[member].as_str().filter(|text| !text.is_empty())?;
            let cut = operation[format!("{member}_cut_bytes")].as_u64().unwrap_or(0);
            let title = match cut {
                0 => title.to_owned(),
                cut => format!("{title} (INCOMPLETE: {cut} bytes are not shown)"),
            };
            Some((title, text.to_owned()))
        });
        ApprovalDescription {
            id: approval.approval_id,
            summary: approval.summary,
            texts: command.into_iter().chain(texts).collect(),
            facts,
        }
    }
}

impl From<&ApprovalRow> for ApprovalDescription {
    /// The request as its host describes it; without the host, as it is stored, which is redacted.
    fn from(row: &ApprovalRow) -> ApprovalDescription {
        let stored = row.request.clone().unwrap_or_default();
        let text = row.shown.as_ref().filter(|shown| shown.is_object()).unwrap_or(&stored);
        let word = |name: &str| text[name].as_str().or_else(|| stored[name].as_str()).map(str::to_owned);
        let mut operation = match (&text["operation"], &text["op_args"]) {
            (Value::Object(operation), _) => operation.clone(),
            (_, Value::Object(arguments)) => arguments.clone(),
            (_, Value::Null) => Map::new(),
            (_, other) => Map::from_iter([("arguments".to_owned(), other.clone())]),
        };
        for name in ["cwd", "diff"] {
            if let (Some(value), false) = (word(name), operation.contains_key(name)) {
                operation.insert(name.to_owned(), Value::from(value));
            }
        }
        let asked_by: Option<AskedBy> = serde_json::from_value(text["asked_by"].clone()).ok();
        let requester = word("requester").filter(|_| asked_by.is_none());
        let mut described = ApprovalDescription::from(Approval {
            approval_id: row.request_id.clone(),
            method: word("method").or_else(|| word("op_tool")).unwrap_or_default(),
            summary: word("summary").or_else(|| word("prompt")).unwrap_or_default(),
            operation: Value::Object(operation),
            rule: word("rule"),
            // The stored request has a reason of another kind: why the run waits.
            reason: row.shown.as_ref().and_then(|shown| shown["reason"].as_str()).map(str::to_owned),
            risk: word("risk"),
            asked_by,
            requested_at: row.requested_at.clone().unwrap_or_default(),
            expires_at: row.expires_at.clone().or_else(|| word("expires_at")),
            state: row.status.clone(),
        });
        let typed = stored["approve_text"].as_str().filter(|text| !text.is_empty());
        described.facts.extend(typed.map(|text| format!("approval types: {text:?}")));
        described.facts.extend(requester.map(|requester| format!("requested by: {requester}")));
        described.facts.push(format!("host: {}, run: {}", row.host_id, row.run_id));
        if row.shown.is_none() {
            let why = row.shown_error.as_deref().unwrap_or("the hub did not fetch it");
            let note = format!("REDACTED: secrets are hidden, as the text of the host is missing: {why}");
            described.facts.insert(0, note);
        }
        described
    }
}

/// The proven caller first; the name of the client is its own claim.
fn requester(by: &AskedBy) -> String {
    format!(
        "{} (session {}, {}); the client calls itself {:?}",
        by.caller, by.session_id, by.face, by.client_name
    )
}

/// Members of the operation that have no line of their own, from a newer server.
fn unknown_members(operation: &Value) -> Option<String> {
    const KNOWN: &[&str] = &[
        "kind",
        "cut_bytes",
        "argv",
        "command",
        "login",
        "cwd",
        "env",
        "stdin",
        "stdin_bytes",
        "stdin_cut_bytes",
        "pty",
        "detach",
        "paths",
        "recursive",
        "overwrite",
        "diff",
        "diff_cut_bytes",
    ];
    let unknown = operation.as_object()?.iter().filter(|(name, _)| !KNOWN.contains(&name.as_str()));
    let list: Vec<String> = unknown.map(|(name, value)| format!("{name} = {}", plain(value))).collect();
    (!list.is_empty()).then(|| list.join(", "))
}

/// A value without the punctuation of JSON.
fn plain(value: &Value) -> String {
    let join = |parts: Vec<String>| parts.join(" ");
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => join(items.iter().map(plain).collect()),
        Value::Object(members) => {
            join(members.iter().map(|(name, value)| format!("{name}: {}", plain(value))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn described(operation: Value) -> ApprovalDescription {
        let request = json!({
            "session_id": "s", "approval_id": "a_1", "method": "exec.start", "summary": "run: make", "operation": operation,
            "rule": "builds", "reason": "it is shared", "risk": "high", "expires_at": "2026-11-16T12:00:00Z", "event_id": 1,
            "asked_by": { "caller": "token:ci", "client_name": "root", "face": "rexd", "session_id": "s_9" },
        });
        serde_json::from_value::<ApprovalRequested>(request).unwrap().into()
    }

    #[test]
    fn everything_that_will_happen_is_described() {
        let shown = described(json!({
            "kind": "run", "argv": ["make"], "cwd": "/srv/app", "env": { "PATH": "/tmp", "HOME": null },
            "stdin": "yes\n", "stdin_bytes": 9, "stdin_cut_bytes": 5, "pty": true, "detach": true, "novel": 1,
        }));
        assert_eq!(
            shown.facts,
            [
                "run: make",
                "directory: /srv/app",
                "environment: HOME is removed",
                "environment: PATH=/tmp",
                "standard input: 9 bytes",
                "terminal: yes",
                "detached: yes: it outlives its session",
                "requested by: token:ci (session s_9, rexd); the client calls itself \"root\"",
                "rule: builds",
                "reason: it is shared",
                "risk: high",
                "denied without an answer at: 2026-11-16T12:00:00Z",
                "not described: novel = 1",
            ]
        );
        assert_eq!(
            shown.texts,
            [("standard input (INCOMPLETE: 5 bytes are not shown)".to_owned(), "yes\n".to_owned())]
        );
        let shown =
            described(json!({ "kind": "write", "paths": ["/x"], "diff": "-a\n+b\n", "diff_cut_bytes": 0 }));
        assert_eq!(shown.texts, [("change".to_owned(), "-a\n+b\n".to_owned())]);
        let script = "echo 'a'\necho b";
        let shown = described(json!({ "kind": "run", "argv": ["bash", "-c", script] }));
        assert_eq!(shown.texts, [("command".to_owned(), script.to_owned())], "not only quoted");
        let shown = described(json!({ "kind": "run", "cut_bytes": 90_000 }));
        assert!(shown.facts[0].starts_with("INCOMPLETE: 90000 bytes"), "{:?}", shown.facts);
    }

    #[test]
    fn a_request_of_a_hub_is_described_by_its_host_or_marked_as_redacted() {
        let row = |shown: Value| ApprovalRow {
            run_id: "run-1".to_owned(),
            request_id: "q-1".to_owned(),
            host_id: "host-a".to_owned(),
            request: Some(json!({
                "request_id": "q-1", "reason": "permission", "prompt": "run: curl …", "op_tool": "bash",
                "op_args": { "cmd": "curl -H …" }, "approve_text": "", "deny_text": "", "risk": "high", "cwd": "/srv",
            })),
            shown: Some(shown).filter(|shown| !shown.is_null()),
            shown_error: Some("host offline".to_owned()),
            ..ApprovalRow::default()
        };
        let operation =
            json!({ "command": "curl -H 'Authorization: secret'", "diff": "-a\n+b\n", "cwd": "/srv" });
        let described =
            ApprovalDescription::from(&row(json!({ "summary": "run: curl", "operation": operation })));
        assert_eq!(described.id, "q-1");
        assert_eq!(
            described.facts,
            ["run: curl", "directory: /srv", "risk: high", "host: host-a, run: run-1"]
        );
        assert_eq!(
            described.texts,
            [
                ("command".to_owned(), "curl -H 'Authorization: secret'".to_owned()),
                ("change".to_owned(), "-a\n+b\n".to_owned()),
            ]
        );
        let stored = ApprovalDescription::from(&row(Value::Null));
        assert!(
            stored.facts[0].starts_with("REDACTED") && stored.facts[0].contains("host offline"),
            "{stored:?}"
        );
        assert!(stored.facts.iter().any(|fact| fact.contains("curl -H …")), "{stored:?}");
    }
}
