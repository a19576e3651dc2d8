//! A daemon with the stringd face, and a client that speaks its protocol.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http::{Head, Http};
use testkit::log::Log;
use testkit::proc::watch;
use testkit::sandbox::Sandbox;

/// The deadline of every wait; not reached unless a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The program under test.
pub(crate) const REXD: &str = env!("CARGO_BIN_EXE_rexd");

/// A running daemon.
pub(crate) struct Served {
    child: Child,
    /// What it printed before it listened.
    pub(crate) printed: Vec<String>,
    pub(crate) address: SocketAddr,
    pub(crate) log: Log,
    /// What it prints after that.
    pub(crate) stdout: BufReader<ChildStdout>,
}

/// Starts `rexd stringd 0` with the configuration of the sandbox.
pub(crate) fn start(sandbox: &Sandbox) -> Served {
    let mut command = sandbox.command(REXD);
    command.args(["stringd", "0", "--config"]).arg(sandbox.config());
    spawn(command, "stringd listening on http://")
}

/// Starts a prepared command and waits for the line with this prefix.
pub(crate) fn spawn(mut command: Command, prefix: &str) -> Served {
    let log = Log::new();
    command.stdout(Stdio::piped()).stderr(log.stdio());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut printed = Vec::new();
    let address = loop {
        let mut line = String::new();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "it does not listen: {}", log.text());
        if let Some(address) = line.strip_prefix(prefix) {
            break address.trim().parse().unwrap();
        }
        printed.push(line.trim_end().to_owned());
    };
    Served { child, printed, address, log, stdout }
}

impl Served {
    pub(crate) fn client(&self) -> StringdClient {
        StringdClient { http: Http::connect(self.address).unwrap(), user: "u".to_owned() }
    }

    /// A client of a registered user.
    pub(crate) fn client_of(&self, user: &str) -> StringdClient {
        StringdClient { user: user.to_owned(), ..self.client() }
    }

    /// A client whose user `u` has this home.
    pub(crate) fn user(&self, home: &std::path::Path) -> StringdClient {
        let mut client = self.client();
        let (status, body) = client.json("POST", "/users", &json!({ "user_id": "u", "home": home }));
        assert_eq!((status, &body["user_id"]), (200, &json!("u")), "{body}");
        client
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        assert!(watch(self.pid()).ends_before(Instant::now() + PATIENCE), "{}", self.log.text());
        self.child.wait().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The daemon must not outlive a failed test.
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}

/// One kept-alive connection.
pub(crate) struct StringdClient {
    pub(crate) http: Http,
    pub(crate) user: String,
}

/// The three events of a command.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: Value,
    pub(crate) content: String,
}

impl Reply {
    /// The output without its first line.
    pub(crate) fn body(&self) -> &str {
        self.content.split_once('\n').unwrap().1
    }

    pub(crate) fn code(&self) -> &str {
        self.head["code"].as_str().unwrap_or_default()
    }
}

impl StringdClient {
    /// Sends a request as it is, without reading the answer.
    pub(crate) fn send(&mut self, method: &str, target: &str, headers: &[&str], body: &[u8]) {
        let mut request = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n").into_bytes();
        for header in headers {
            request.extend_from_slice(format!("{header}\r\n").as_bytes());
        }
        if !body.is_empty() {
            request.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(body);
        self.http.stream().write_all(&request).unwrap();
    }

    /// Reads an answer; both CORS headers are on every one.
    pub(crate) fn answer(&mut self) -> (Head, String) {
        let head = self.http.head().unwrap();
        assert_eq!(head.header("access-control-allow-origin"), Some("*"));
        assert_eq!(head.header("access-control-allow-headers"), Some("Content-Type, X-User-Id"));
        let body = self.http.body(&head).unwrap();
        (head, String::from_utf8(body).unwrap())
    }

    pub(crate) fn request(&mut self, method: &str, target: &str, body: &[u8]) -> (u16, Value) {
        self.send(method, target, &[], body);
        let (head, body) = self.answer();
        (head.status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    pub(crate) fn json(&mut self, method: &str, target: &str, body: &Value) -> (u16, Value) {
        self.request(method, target, body.to_string().as_bytes())
    }

    pub(crate) fn get(&mut self, target: &str) -> Value {
        let (status, body) = self.request("GET", target, b"");
        assert_eq!(status, 200, "{body}");
        body
    }

    /// Sends a command without reading its events.
    pub(crate) fn begin(&mut self, topic: &str, cmd: &str) {
        let user = format!("X-User-Id: {}", self.user);
        let body = json!({ "cmd": cmd, "topic": topic }).to_string();
        self.send("POST", "/exec", &[&user], body.as_bytes());
    }

    /// Reads the events of a command.
    pub(crate) fn reply(&mut self) -> Reply {
        let (head, body) = self.answer();
        assert_eq!(head.status, 200, "{body}");
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-cache"),
            ("connection", "keep-alive"),
            ("x-accel-buffering", "no"),
            ("transfer-encoding", "chunked"),
        ] {
            assert_eq!(head.header(name), Some(value));
        }
        let lines: Vec<&str> = body.split('\n').collect();
        let [event1, data1, "", event2, data2, "", event3, data3, "", ""] = lines.as_slice() else {
            panic!("{body:?}")
        };
        assert_eq!([*event1, *event2, *event3], ["event: head", "event: content", "event: done"]);
        assert_eq!(*data3, "data: {}");
        let data = |line: &str| serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap();
        let content: Value = data(data2);
        Reply { head: data(data1), content: content.as_str().unwrap().to_owned() }
    }

    pub(crate) fn exec(&mut self, topic: &str, cmd: &str) -> Reply {
        self.begin(topic, cmd);
        self.reply()
    }
}
