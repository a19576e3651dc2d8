//! Outcome: what came of a case, without what differs from one run to the next, so that two servers can be compared.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Longer texts are told by their length and ends.
const LONGEST_TEXT: usize = 300;

/// The most output that a released server puts into one notification.
const RELEASED_CHUNK: usize = 8 * 1024;

/// What came, by what it is about.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Outcome(BTreeMap<String, Value>);

impl Outcome {
    /// Of all that was heard; `words` are replaced in every text. `has_texts` keeps the texts of errors.
    pub(crate) fn of(heard: &[Value], words: &[(String, String)], has_texts: bool) -> Outcome {
        let mut outcome = Outcome::default();
        let words = &Words { replaced: words, has_texts };
        for message in heard.iter().filter(|message| message.get("method").is_none()) {
            let id = &message["id"];
            let key = format!("answer {}", id.as_str().map_or(id.to_string(), str::to_owned));
            let mut answer = message.clone();
            answer.as_object_mut().expect("an object").remove("id");
            let list = outcome.0.entry(key).or_insert_with(|| json!([]));
            list.as_array_mut().expect("a list").push(plain(answer, words));
        }
        let mut processes: Vec<&str> = Vec::new();
        for message in heard.iter().filter(|message| message.get("method").is_some()) {
            match message["params"]["processId"].as_str() {
                Some(process) if !processes.contains(&process) => processes.push(process),
                Some(_known) => {}
                None => {
                    let key = format!("notification {}", message["method"].as_str().unwrap_or_default());
                    let list = outcome.0.entry(key).or_insert_with(|| json!([]));
                    list.as_array_mut().expect("a list").push(plain(message["params"].clone(), words));
                }
            }
        }
        for process in processes {
            let key = format!("process {process:?}");
            outcome.put(&key, plain(of_process(heard, process), words));
        }
        outcome
    }

    pub(crate) fn put(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }

    /// Where the two differ: place, what is here, what is there.
    pub(crate) fn differences(&self, other: &Outcome) -> Vec<(String, String, String)> {
        let mut found = Vec::new();
        let keys: std::collections::BTreeSet<&String> = self.0.keys().chain(other.0.keys()).collect();
        for key in keys {
            differ(key, self.0.get(key), other.0.get(key), &mut found);
        }
        found
    }
}

fn differ(at: &str, left: Option<&Value>, right: Option<&Value>, found: &mut Vec<(String, String, String)>) {
    match (left, right) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                differ(&format!("{at} {key}"), left.get(key), right.get(key), found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                let at = if index == 0 { at.to_owned() } else { format!("{at} [{index}]") };
                differ(&at, Some(left), Some(right), found);
            }
        }
        (left, right) if left == right => {}
        (left, right) => {
            let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            found.push((at.to_owned(), text(left), text(right)));
        }
    }
}

/// What a process said, whichever stream it was on.
pub(crate) fn text_of(heard: &[Value], process: &str) -> String {
    let all = of_process(heard, process);
    ["stdout", "stderr", "pty"].iter().filter_map(|stream| all[stream].as_str()).collect()
}

/// The notifications of a process as one value. Of how its output was cut into chunks only their size
/// matters; that no number is missing does.
fn of_process(heard: &[Value], process: &str) -> Value {
    let mut told = Map::new();
    let mut numbers = Vec::new();
    let mut is_large = false;
    for message in heard.iter().filter(|message| message["params"]["processId"] == process) {
        let mut params = message["params"].clone();
        let Some(method) = message["method"].as_str() else { continue };
        let members = params.as_object_mut().expect("an object");
        members.remove("processId");
        match members.remove("seq") {
            Some(number) => numbers.extend(number.as_u64()),
            None => drop(told.insert(format!("{method} has no seq"), json!(true))),
        }
        if let Some(stream) = members.get("stream").and_then(Value::as_str).map(str::to_owned) {
            let text = told.entry(stream).or_insert_with(|| json!(""));
            let chunk = decoded(&members["chunk"]);
            is_large |= chunk.chars().count() > RELEASED_CHUNK;
            *text = json!(text.as_str().unwrap_or_default().to_owned() + &chunk);
            continue;
        }
        told.insert(method.to_owned(), params);
    }
    if is_large {
        told.insert("chunks over 8 KiB".to_owned(), json!(true));
    }
    numbers.sort_unstable();
    let gapless = numbers.iter().zip(1..).all(|(number, expected)| *number == expected);
    told.insert("seq without a gap".to_owned(), json!(gapless));
    Value::Object(told)
}

/// The bytes of a chunk, one letter each, so that none is lost.
fn decoded(chunk: &Value) -> String {
    let bytes = wire::base64::decode(chunk.as_str().expect("base64")).expect("base64");
    match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => error.into_bytes().into_iter().map(char::from).collect(),
    }
}

/// What is replaced in texts, and whether the texts of errors are compared.
struct Words<'a> {
    replaced: &'a [(String, String)],
    has_texts: bool,
}

/// The text of an error. The words for an error of the system are those of the C library, which differ; the address of a
/// peer is never the same.
fn text(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    if let Some((_, number)) = text.rsplit_once(" (os error ").filter(|(words, _)| !words.contains(':')) {
        return format!("$SYSTEM (os error {number}");
    }
    let address = " 127.0.0.1:";
    match text.split_once(address).filter(|(before, _)| before.ends_with("from exec-server websocket")) {
        Some((before, after)) => format!("{before}{}", after.trim_start_matches(char::is_numeric)),
        None => text.to_owned(),
    }
}

/// A value without what no two runs share: ids, times, the texts of errors, the order of a directory, names of places.
fn plain(value: Value, words: &Words<'_>) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| {
                let value = match name.as_str() {
                    "sessionId" if value.is_string() => json!("$ID"),
                    "createdAtMs" | "modifiedAtMs" if value.as_i64().is_some_and(|time| time > 0) => {
                        json!("$TIME")
                    }
                    "message" if value.is_string() && !words.has_texts => json!("$TEXT"),
                    "message" if value.is_string() => plain(json!(text(&value)), words),
                    "executorVersion" => json!("$VERSION"),
                    // Told in full where it is asked for.
                    "environmentInfo" => json!("$INFO"),
                    "providerId" => json!("$ID"),
                    "prependPathDirs" => json!("$DIRECTORIES"),
                    "chunks" => chunks(&value),
                    "headers" => headers(value),
                    "entries" | "errors" => sorted(plain(value, words)),
                    _ => plain(value, words),
                };
                (name, value)
            });
            Value::Object(members.collect())
        }
        Value::Array(values) => values.into_iter().map(|value| plain(value, words)).collect(),
        Value::String(text) => {
            let text = words.replaced.iter().fold(text, |text, (from, to)| text.replace(from, to));
            let text = without_mark(text);
            let ends = (text.char_indices().nth(40), text.char_indices().rev().nth(40));
            match (text.len() > LONGEST_TEXT, ends) {
                (true, (Some((start, _)), Some((end, _)))) => {
                    json!(format!("{}…{} ({} bytes)", &text[..start], &text[end..], text.len()))
                }
                _ => json!(text),
            }
        }
        other => other,
    }
}

/// The mark by which a tree of processes is known is never the same twice.
fn without_mark(text: String) -> String {
    match text.split_once("REXD_TREE=") {
        Some((before, rest)) => {
            let end = rest.find('\n').unwrap_or(rest.len());
            format!("{before}REXD_TREE=$MARK{}", &rest[end..])
        }
        None => text,
    }
}

/// The chunks of `process/read`, joined by stream; how many there were does matter there.
fn chunks(value: &Value) -> Value {
    let list = value.as_array().cloned().unwrap_or_default();
    let chunks = list.into_iter().map(|mut chunk| {
        chunk["chunk"] = json!(decoded(&chunk["chunk"]));
        chunk
    });
    chunks.collect()
}

/// Headers but for those that tell the time.
fn headers(value: Value) -> Value {
    let list = value.as_array().cloned().unwrap_or_default();
    sorted(list.into_iter().filter(|header| header["name"] != "date").collect())
}

fn sorted(value: Value) -> Value {
    let Value::Array(mut list) = value else { return value };
    list.sort_by_key(Value::to_string);
    Value::Array(list)
}
