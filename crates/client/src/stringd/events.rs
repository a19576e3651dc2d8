//! The three events of a command as one result.

use serde::Serialize;
use serde_json::Value;
use wire::stringd::v0_1::{Head, Meta, STREAM_INCOMPLETE};

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExecResult {
    /// Whether it succeeded.
    pub ok: bool,
    /// The code of its failure.
    pub code: Option<String>,
    /// Its output, without the line that repeats the command.
    pub content: String,
    /// The current document after it; `None` without one.
    pub meta: Option<Meta>,
    /// The topic as the daemon names it; `None` if the head is missing.
    pub topic: Option<String>,
}

/// The result of an event stream. Without all three events it is incomplete: the command may have run.
pub(super) fn result(stream: &str) -> ExecResult {
    let mut events = Vec::new();
    // An event ends with its empty line; what follows the last one is cut.
    for event in stream.split_inclusive("\n\n").filter_map(|event| event.strip_suffix("\n\n")) {
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        if let (Some(name), Some(data)) = (field("event"), field("data")) {
            events.push((name, data));
        }
    }
    let data = |name: &str| events.iter().find(|(event, _)| *event == name).map(|(_, data)| *data);
    let head = data("head").and_then(|data| serde_json::from_str::<Head>(data).ok());
    let content = data("content").and_then(|data| serde_json::from_str::<Value>(data).ok());
    let topic = head.as_ref().map(|head| head.topic.clone());
    match (head, content.as_ref().and_then(Value::as_str), data("done")) {
        (Some(head), Some(content), Some(_)) => ExecResult {
            ok: head.ok,
            code: head.code,
            content: strip_content_prefix(content).to_owned(),
            meta: head.meta,
            topic,
        },
        (_, content, _) => ExecResult {
            ok: false,
            code: Some(STREAM_INCOMPLETE.to_owned()),
            content: content.map(strip_content_prefix).unwrap_or_default().to_owned(),
            meta: None,
            topic,
        },
    }
}

/// The content without its first line, if that repeats the command.
pub fn strip_content_prefix(content: &str) -> &str {
    match content.split_once('\n') {
        Some((first, rest)) if first.starts_with("re: ") => rest,
        None if content.starts_with("re: ") => "",
        _ => content,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = r#"event: head
data: {"ok":false,"code":"NOT_FOUND","cmd":"/x","request_id":null,"user_id":"u","topic":"file:main","topic_type":"file","meta":null}

"#;
    const CONTENT: &str = "event: content\ndata: \"re: [q] /x\\nERROR(NOT_FOUND): no\\nmore\"\n\n";

    #[test]
    fn three_events_are_one_result() {
        let result = result(&format!("{HEAD}{CONTENT}event: done\ndata: {{}}\n\n"));
        let expected = ExecResult {
            ok: false,
            code: Some("NOT_FOUND".to_owned()),
            content: "ERROR(NOT_FOUND): no\nmore".to_owned(),
            meta: None,
            topic: Some("file:main".to_owned()),
        };
        assert_eq!(result, expected);
    }

    #[test]
    fn a_stream_without_all_events_is_incomplete() {
        for stream in [
            String::new(),
            HEAD.to_owned(),
            format!("{HEAD}{CONTENT}"),
            format!("{HEAD}{CONTENT}event: done\ndata: {{}}\n"),
            format!("{HEAD}event: done\ndata: {{}}\n\n"),
            format!("{CONTENT}event: done\ndata: {{}}\n\n"),
        ] {
            let result = result(&stream);
            assert_eq!((result.ok, result.code.as_deref()), (false, Some("STREAM_INCOMPLETE")), "{stream}");
        }
    }

    #[test]
    fn the_prefix_is_the_first_line_that_repeats_the_command() {
        assert_eq!(strip_content_prefix("re: /x\na\nb"), "a\nb");
        assert_eq!(strip_content_prefix("re: [id] /x\n"), "");
        assert_eq!(strip_content_prefix("re: /x"), "");
        assert_eq!(strip_content_prefix("plain\ntext"), "plain\ntext");
    }
}
