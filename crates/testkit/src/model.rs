//! Model: a scripted language model on loopback, for real clients of the Responses, Messages and Chat Completions APIs.
//!
//! The script is a list of turns, each with one or more tool calls. A request contains the whole conversation, so
//! it determines the next turn, and a repeated request gets the same response. The outputs of the tools are
//! stored by the name of the call. The last response is always plain text, and so is the response to a request that
//! offers no tools, such as one for a title.

mod api;

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use api::{Api, NextCall};
use serde_json::{Value, json};

/// The response after the last turn.
pub const LAST_WORDS: &str = "the script is over";
/// Prefix of a placeholder for the session number that an earlier call returned.
const SESSION_OF: &str = "$session:";
/// Prefix of a placeholder for the process id that an earlier call of `rex mcp` returned.
const PROCESS_OF: &str = "$process:";

/// A call of one of the client's tools.
#[derive(Debug, Clone)]
pub struct Call {
    name: String,
    tool: String,
    arguments: Value,
    until: Option<String>,
}

impl Call {
    /// Calls `tool`, or `NAMESPACE/TOOL` of Codex; its output is stored under `name`. An argument `"$session:NAME"` becomes the number of the session
    /// in the output of NAME, and `"$process:NAME"` the id of the process in it.
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
    fn next(&self, outputs: &BTreeMap<String, String>) -> Option<NextCall> {
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
            let arguments = with_sessions(self.arguments.clone(), outputs);
            return Some(NextCall { name, tool: self.tool.clone(), arguments });
        }
        let arguments = json!({ "session_id": session_in(&collected)?, "chars": "" });
        Some(NextCall { name, tool: "write_stdin".to_owned(), arguments })
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
        let api = match line.split(' ').collect::<Vec<_>>()[..] {
            ["POST", path, _] => Api::of(path),
            _ => None,
        };
        let answer = match api {
            Some(api) => {
                let parsed: Value = serde_json::from_slice(&body)?;
                let calls = answer(api, &parsed, script, &mut log.lock().expect("the lock is not poisoned"));
                ("200 OK", "text/event-stream", api.events(&calls))
            }
            None => ("404 Not Found", "text/plain", String::new()),
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

/// The next calls of this conversation; none at its end.
fn answer(api: Api, body: &Value, script: &[Turn], log: &mut ModelLog) -> Vec<NextCall> {
    log.outputs.extend(api.outputs(body));
    log.requests.push(body.clone());
    if body["tools"].as_array().is_none_or(Vec::is_empty) {
        return Vec::new();
    }
    let next = |turn: &Turn| turn.iter().filter_map(|call| call.next(&log.outputs)).collect::<Vec<_>>();
    script.iter().map(next).find(|calls| !calls.is_empty()).unwrap_or_default()
}

/// The name of the call that polls after this one.
fn follow_up(name: &str, number: usize) -> String {
    format!("{name}_more_{number}")
}

/// Arguments with session placeholders filled in.
fn with_sessions(mut arguments: Value, outputs: &BTreeMap<String, String>) -> Value {
    let Some(members) = arguments.as_object_mut() else { return arguments };
    for value in members.values_mut() {
        if let Some(name) = value.as_str().and_then(|text| text.strip_prefix(SESSION_OF)) {
            // Without one, the tool fails with an unknown session, which the test reports.
            *value = json!(outputs.get(name).and_then(|text| session_in(text)).unwrap_or(-1));
        } else if let Some(name) = value.as_str().and_then(|text| text.strip_prefix(PROCESS_OF)) {
            *value = json!(outputs.get(name).and_then(|text| process_in(text)).unwrap_or_default());
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

/// The id in "process p_X".
fn process_in(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("process p_")?;
    let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
    text.get(text.len() - rest.len() - "p_".len()..text.len() - rest.len() + end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Http;

    fn ask(model: &Model, input: Value) -> String {
        let mut http = Http::connect(model.address).unwrap();
        let body = json!({ "input": input, "tools": [{}] }).to_string();
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

    #[test]
    fn the_id_of_a_process_is_found_in_an_output() {
        assert_eq!(process_in("[no exit code yet, process p_1a2b is running]\n"), Some("p_1a2b"));
        assert_eq!((process_in("process p_9"), process_in("no process")), (Some("p_9"), None));
    }

    #[test]
    fn each_api_has_its_own_form_of_calls_and_outputs() {
        let script = vec![vec![Call::new("a", "Bash", json!({ "command": "true" }))]];
        let result = json!([{ "type": "tool_result", "tool_use_id": "a", "content": "done" }]);
        for (path, asked, answered) in [
            ("/v1/messages?beta=true", json!([]), json!([{ "role": "user", "content": result }])),
            (
                "/v1/chat/completions",
                json!([]),
                json!([{ "role": "tool", "tool_call_id": "a", "content": "done" }]),
            ),
        ] {
            let model = Model::start(script.clone());
            let mut http = Http::connect(model.address).unwrap();
            let mut ask = |messages: &Value, tools: Value| {
                let body = json!({ "messages": messages, "tools": tools }).to_string();
                http.ask(path, &[], Some(body.as_bytes())).unwrap().body
            };
            let call = ask(&asked, json!([{}]));
            assert!(call.contains("Bash") && call.contains(r#"{\"command\":\"true\"}"#), "{call}");
            assert!(ask(&asked, json!([])).contains(LAST_WORDS), "a request for a title");
            assert!(ask(&answered, json!([{}])).contains(LAST_WORDS));
            assert_eq!(model.output("a"), "done");
        }
    }
}
