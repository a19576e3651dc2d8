//! The forms of the three APIs: where a request has the outputs of tools, and how a response is streamed.

use serde_json::{Value, json};

use super::LAST_WORDS;

/// A call of a tool that the model makes next.
#[derive(Debug)]
pub(super) struct NextCall {
    pub(super) name: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
}

/// The API of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Api {
    /// `/v1/responses`, which Codex uses.
    Responses,
    /// `/v1/messages`, which Claude Code uses.
    Messages,
    /// `/v1/chat/completions`, which OpenCode uses for providers of its configuration.
    Chat,
}

impl Api {
    /// The API of a path; `None` if it is of none.
    pub(super) fn of(path: &str) -> Option<Api> {
        let path = path.split('?').next().unwrap_or_default();
        let apis =
            [("/responses", Api::Responses), ("/messages", Api::Messages), ("/chat/completions", Api::Chat)];
        apis.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, api)| api)
    }

    /// The outputs of tools in a request, by the name of their call.
    pub(super) fn outputs(self, body: &Value) -> Vec<(String, String)> {
        let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let (items, kind, name, output) = match self {
            Api::Responses => (items(&body["input"]), ("type", "function_call_output"), "call_id", "output"),
            Api::Messages => {
                let contents = items(&body["messages"]).into_iter().flat_map(|item| items(&item["content"]));
                (contents.collect(), ("type", "tool_result"), "tool_use_id", "content")
            }
            Api::Chat => (items(&body["messages"]), ("role", "tool"), "tool_call_id", "content"),
        };
        let items = items.iter().filter(|item| item[kind.0] == kind.1);
        items
            .map(|item| (item[name].as_str().unwrap_or_default().to_owned(), text_of(&item[output])))
            .collect()
    }

    /// A response with these calls, or with the last words, as a stream of events.
    pub(super) fn events(self, calls: &[NextCall]) -> String {
        let events = match self {
            Api::Responses => responses(calls),
            Api::Messages => messages(calls),
            Api::Chat => return chat(calls),
        };
        let event =
            |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or(""));
        events.iter().map(event).collect()
    }
}

/// The text of a tool output, which is a string or a list of parts.
fn text_of(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn responses(calls: &[NextCall]) -> Vec<Value> {
    let call = |call: &NextCall| {
        // Codex offers the tools of an MCP server in a namespace.
        let (namespace, tool) = match call.tool.split_once('/') {
            Some((namespace, tool)) => (Some(namespace), tool),
            None => (None, call.tool.as_str()),
        };
        json!({ "type": "function_call", "id": format!("fc_{}", call.name), "call_id": call.name,
            "namespace": namespace, "name": tool, "arguments": call.arguments.to_string() })
    };
    let mut items: Vec<Value> = calls.iter().map(call).collect();
    if items.is_empty() {
        let content = json!([{ "type": "output_text", "text": LAST_WORDS }]);
        items.push(json!({ "type": "message", "role": "assistant", "id": "m", "content": content }));
    }
    let usage = json!({ "input_tokens": 1, "input_tokens_details": null, "output_tokens": 1,
        "output_tokens_details": null, "total_tokens": 2 });
    let mut events = vec![json!({ "type": "response.created", "response": { "id": "r" } })];
    events.extend(items.into_iter().map(|item| json!({ "type": "response.output_item.done", "item": item })));
    events.push(json!({ "type": "response.completed", "response": { "id": "r", "usage": usage } }));
    events
}

fn messages(calls: &[NextCall]) -> Vec<Value> {
    let call = |call: &NextCall| {
        let block = json!({ "type": "tool_use", "id": call.name, "name": call.tool, "input": {} });
        (block, json!({ "type": "input_json_delta", "partial_json": call.arguments.to_string() }))
    };
    let mut blocks: Vec<(Value, Value)> = calls.iter().map(call).collect();
    if blocks.is_empty() {
        let delta = json!({ "type": "text_delta", "text": LAST_WORDS });
        blocks.push((json!({ "type": "text", "text": "" }), delta));
    }
    let message = json!({ "id": "m", "type": "message", "role": "assistant", "model": "scripted", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": { "input_tokens": 1, "output_tokens": 1 } });
    let mut events = vec![json!({ "type": "message_start", "message": message })];
    for (index, (block, delta)) in blocks.into_iter().enumerate() {
        events.push(json!({ "type": "content_block_start", "index": index, "content_block": block }));
        events.push(json!({ "type": "content_block_delta", "index": index, "delta": delta }));
        events.push(json!({ "type": "content_block_stop", "index": index }));
    }
    let reason = if calls.is_empty() { "end_turn" } else { "tool_use" };
    let delta = json!({ "stop_reason": reason, "stop_sequence": null });
    events.push(json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 1 } }));
    events.push(json!({ "type": "message_stop" }));
    events
}

fn chat(calls: &[NextCall]) -> String {
    let call = |(index, call): (usize, &NextCall)| {
        json!({ "index": index, "id": call.name, "type": "function",
            "function": { "name": call.tool, "arguments": call.arguments.to_string() } })
    };
    let calls: Vec<Value> = calls.iter().enumerate().map(call).collect();
    let (delta, reason) = match calls.is_empty() {
        true => (json!({ "role": "assistant", "content": LAST_WORDS }), "stop"),
        false => (json!({ "role": "assistant", "tool_calls": calls }), "tool_calls"),
    };
    let chunk = |delta: &Value, reason: Option<&str>| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        json!({ "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [choice] })
    };
    let chunks = [chunk(&delta, None), chunk(&json!({}), Some(reason))];
    chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).chain(["data: [DONE]\n\n".to_owned()]).collect()
}
