//! Model: a scripted language model on loopback, for real clients of the Responses API.
//!
//! The script is a list of turns, each with one or more tool calls. A request contains the whole conversation, so
//! it determines the next turn, and a repeated request gets the same response. The outputs of the tools are
//! stored by the name of the call. The last response is always plain text.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use serde_json::{Value, json};

/// The response after the last turn.
pub const LAST_WORDS: &str = "the script is over";
/// Prefix of a placeholder for the session number that an earlier call returned.
const SESSION_OF: &str = "$session:";

/// A call of one of the client's tools.
#[derive(Debug, Clone)]
pub struct Call {
    name: String,
    tool: String,
    arguments: Value,
    until: Option<String>,
}

impl Call {
    /// Calls `tool`; its output is stored under `name`. An argument `"$session:NAME"` becomes the number of the session
    /// in the output of NAME.
    pub fn new(name: &str, tool: &str, arguments: Value) -> Call {
        Call { name: name.to_owned(), tool: tool.to_owned(), arguments, until: None }
    }

    /// Polls the session's output until it contains this text or the session ends.
    #[must_use]
    pub fn until(mut self, text: &str) -> Call {
        self.until = Some(text.to_owned());
        self
    }

    /// This call if it has no output yet, or the call that polls; `None` when it is complete.
    fn next(&self, outputs: &BTreeMap<String, String>) -> Option<Value> {
        let (mut collected, mut name) = (String::new(), self.name.clone());
        for number in 1.. {
            let Some(output) = outputs.get(&name) else { break };
            collected += output;
            let wanted = self.until.as_ref()?;
            if collected.contains(wanted) || session_in(output).is_none() {
                return None;
            }
            name = follow_up(&self.name, number);
        }
        if name == self.name {
            return Some(function_call(&name, &self.tool, with_sessions(self.arguments.clone(), outputs)));
        }
        let arguments = json!({ "session_id": session_in(&collected)?, "chars": "" });
        Some(function_call(&name, "write_stdin", arguments))
    }
}

/// Tool calls of one response.
pub type Turn = Vec<Call>;

/// The requests and outputs that the model received.
#[derive(Debug, Default)]
struct ModelLog {
    outputs: BTreeMap<String, String>,
    requests: Vec<Value>,
}

/// A running model. Dropping it stops the model.
#[derive(Debug)]
pub struct Model {
    address: SocketAddr,
    log: Arc<Mutex<ModelLog>>,
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Model {
    /// Starts a model with this script.
    pub fn start(script: Vec<Turn>) -> Model {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let log = Arc::new(Mutex::new(ModelLog::default()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (script, shared, over) = (Arc::new(script), Arc::clone(&log), Arc::clone(&is_over));
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if over.load(Ordering::Acquire) {
                    return;
                }
                let (script, shared) = (Arc::clone(&script), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream, &script, &shared).ok());
            }
        });
        Model { address, log, is_over, accepting: Some(accepting) }
    }

    /// The base URL of the API.
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The output of a tool as text, including polls; panics without an output.
    pub fn output(&self, name: &str) -> String {
        self.parts(name).concat()
    }

    /// The same, one entry per poll.
    pub fn parts(&self, name: &str) -> Vec<String> {
        let outputs = self.outputs();
        let Some(first) = outputs.get(name) else { panic!("no answer to {name}; there are {outputs:?}") };
        let more = (1..).map_while(|number| outputs.get(&follow_up(name, number)));
        std::iter::once(first).chain(more).cloned().collect()
    }

    /// The outputs of all tools so far.
    pub fn outputs(&self) -> BTreeMap<String, String> {
        self.log().outputs.clone()
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.log().requests.clone()
    }

    fn log(&self) -> std::sync::MutexGuard<'_, ModelLog> {
        self.log.lock().expect("the lock is not poisoned")
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        // One more connection wakes the accepting thread.
        if let (Ok(_last), Some(accepting)) = (TcpStream::connect(self.address), self.accepting.take()) {
            accepting.join().ok();
        }
    }
}

/// Serves the requests of one connection.
fn serve(stream: TcpStream, script: &[Turn], log: &Mutex<ModelLog>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some((line, body)) = request(&mut reader)? {
        let answer = match line.split(' ').collect::<Vec<_>>()[..] {
            ["POST", path, _] if path.ends_with("/responses") => {
                let parsed: Value = serde_json::from_slice(&body)?;
                let items = answer(&parsed, script, &mut log.lock().expect("the lock is not poisoned"));
                ("200 OK", "text/event-stream", events(items))
            }
            _ => ("404 Not Found", "text/plain", String::new()),
        };
        let (status, kind, text) = answer;
        let length = text.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
        reader.get_mut().write_all((head + &text).as_bytes())?;
    }
    Ok(())
}

/// The next request's first line and body; `None` at the end.
fn request(reader: &mut BufReader<TcpStream>) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut first = String::new();
    if reader.read_line(&mut first)? == 0 {
        return Ok(None);
    }
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some((first.trim_end().to_owned(), body)))
}

/// The next items of this conversation.
fn answer(body: &Value, script: &[Turn], log: &mut ModelLog) -> Vec<Value> {
    let items = body["input"].as_array().cloned().unwrap_or_default();
    for item in items.iter().filter(|item| item["type"] == "function_call_output") {
        let name = item["call_id"].as_str().unwrap_or_default().to_owned();
        log.outputs.insert(name, text_of(&item["output"]));
    }
    log.requests.push(body.clone());
    let next = |turn: &Turn| turn.iter().filter_map(|call| call.next(&log.outputs)).collect::<Vec<_>>();
    let calls = script.iter().map(next).find(|calls| !calls.is_empty());
    calls.unwrap_or_else(|| {
        let content = json!([{ "type": "output_text", "text": LAST_WORDS }]);
        vec![json!({ "type": "message", "role": "assistant", "id": "m", "content": content })]
    })
}

fn function_call(name: &str, tool: &str, arguments: Value) -> Value {
    json!({ "type": "function_call", "id": format!("fc_{name}"), "call_id": name, "name": tool,
        "arguments": arguments.to_string() })
}

/// The name of the call that polls after this one.
fn follow_up(name: &str, number: usize) -> String {
    format!("{name}_more_{number}")
}

/// The text of a tool output, which is a string or a list of parts.
fn text_of(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Arguments with session placeholders filled in.
fn with_sessions(mut arguments: Value, outputs: &BTreeMap<String, String>) -> Value {
    let Some(members) = arguments.as_object_mut() else { return arguments };
    for value in members.values_mut() {
        if let Some(name) = value.as_str().and_then(|text| text.strip_prefix(SESSION_OF)) {
            // Without one, the tool fails with an unknown session, which the test reports.
            *value = json!(outputs.get(name).and_then(|text| session_in(text)).unwrap_or(-1));
        }
    }
    arguments
}

/// The number in "session ID N".
fn session_in(text: &str) -> Option<i64> {
    let (_, rest) = text.split_once("session ID ")?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// A response as events of a stream.
fn events(items: Vec<Value>) -> String {
    let usage = json!({ "input_tokens": 1, "input_tokens_details": null, "output_tokens": 1,
        "output_tokens_details": null, "total_tokens": 2 });
    let mut events = vec![json!({ "type": "response.created", "response": { "id": "r" } })];
    events.extend(items.into_iter().map(|item| json!({ "type": "response.output_item.done", "item": item })));
    events.push(json!({ "type": "response.completed", "response": { "id": "r", "usage": usage } }));
    let event = |event: Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or(""));
    events.into_iter().map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Http;

    fn ask(model: &Model, input: Value) -> String {
        let mut http = Http::connect(model.address).unwrap();
        let body = json!({ "input": input }).to_string();
        http.ask("/v1/responses", &[], Some(body.as_bytes())).unwrap().body
    }

    #[test]
    fn the_outputs_of_tools_determine_the_next_turn() {
        let first = Call::new("a", "exec_command", json!({ "cmd": "cat" })).until("ready");
        let second = Call::new("b", "write_stdin", json!({ "session_id": "$session:a", "chars": "x" }));
        let model = Model::start(vec![vec![first], vec![second]]);
        let started = ask(&model, json!([]));
        assert!(started.contains(r#""call_id":"a""#) && started.contains("response.completed"), "{started}");
        let output =
            |id: &str, text: &str| json!({ "type": "function_call_output", "call_id": id, "output": text });
        let a = output("a", "Process running with session ID 4711\nOutput:\n");
        let more = ask(&model, json!([a]));
        assert!(more.contains("4711") && more.contains("a_more_1"), "{more}");
        let (a, more) = (a, output("a_more_1", "ready; session ID 4711"));
        let next = ask(&model, json!([a, more]));
        assert!(next.contains(r#""call_id":"b""#) && next == ask(&model, json!([a, more])), "{next}");
        assert!(ask(&model, json!([a, more, output("b", "done")])).contains(LAST_WORDS));
        assert_eq!((model.output("b").as_str(), model.output("a").contains("ready")), ("done", true));
    }
}
