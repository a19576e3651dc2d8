//! A daemon whose user has a home in a sandbox, and a client for its commands.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Stdio};

use serde_json::{Value, json};
use testkit::http::Http;
use testkit::log::Log;
use testkit::sandbox::Sandbox;

use crate::web;

/// A running daemon and its user `kim`.
pub(crate) struct Stringd {
    child: Child,
    http: Http,
    pub(crate) sandbox: Sandbox,
    _stdout: BufReader<ChildStdout>,
}

impl Drop for Stringd {
    fn drop(&mut self) {
        // The daemon must not outlive a failed test.
        let _killed = self.child.kill();
        let _status = self.child.wait();
    }
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: Value,
    /// The content without its first line.
    pub(crate) body: String,
}

impl Reply {
    /// The content of a success.
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.head["ok"], true, "{}", self.body);
        self.body
    }

    /// The code of a failure, and its text.
    pub(crate) fn failure(self) -> (String, String) {
        assert_eq!(self.head["ok"], false, "{}", self.body);
        let code = self.head["code"].as_str().unwrap().to_owned();
        let text = self.body.strip_prefix(&format!("ERROR({code}): ")).unwrap().to_owned();
        (code, text)
    }

    pub(crate) fn code(self) -> String {
        self.failure().0
    }
}

/// A daemon on these files of the user's home.
pub(crate) fn home(files: &[(&str, &str)]) -> Stringd {
    configured("", files)
}

pub(crate) fn configured(config: &str, files: &[(&str, &str)]) -> Stringd {
    with_variable(config, files, ("FROM_DAEMON", "inherited".as_ref()))
}

/// A daemon with one more variable in its environment.
pub(crate) fn with_variable(config: &str, files: &[(&str, &str)], (name, value): (&str, &OsStr)) -> Stringd {
    let sandbox = Sandbox::with_config(config);
    for (name, text) in files {
        let path = sandbox.path(format!("root/{name}"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let (log, mut command) = (Log::new(), sandbox.command(env!("CARGO_BIN_EXE_rexd")));
    command.args(["stringd", "0", "--config"]).arg(sandbox.config()).env(name, value);
    let mut child = command.stdout(Stdio::piped()).stderr(log.stdio()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    assert!(stdout.read_line(&mut line).unwrap() > 0, "{}", log.text());
    let address: SocketAddr = line.trim().rsplit('/').next().unwrap().parse().unwrap();
    let http = Http::connect(address).unwrap();
    let mut served = Stringd { child, http, sandbox, _stdout: stdout };
    let home = served.path("");
    let answer = served.post("/users", &json!({ "id": "kim", "home": home.trim_end_matches('/') }));
    assert!(answer.contains("\"created\":true"), "{answer}");
    served
}

impl Stringd {
    /// The absolute path of a file of the home.
    pub(crate) fn path(&self, name: &str) -> String {
        self.sandbox.root().canonicalize().unwrap().join(name).display().to_string()
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    fn post(&mut self, target: &str, body: &Value) -> String {
        let headers = ["X-User-Id: kim".to_owned(), "Content-Type: application/json".to_owned()];
        self.http.send(target, &headers, Some(body.to_string().as_bytes())).unwrap();
        let head = self.http.head().unwrap();
        String::from_utf8(self.http.body(&head).unwrap()).unwrap()
    }

    /// Runs a command in a topic.
    pub(crate) fn exec(&mut self, topic: &str, cmd: &str) -> Reply {
        let events = self.post("/exec", &json!({ "topic": topic, "cmd": cmd }));
        let data: Vec<Value> = events
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let [head, content, _done] = data.as_slice() else { panic!("{events}") };
        let body = content.as_str().unwrap().split_once('\n').unwrap().1.to_owned();
        Reply { head: head.clone(), body }
    }

    /// Runs a command in the topic `file:main`.
    pub(crate) fn main(&mut self, cmd: &str) -> Reply {
        self.exec("file:main", cmd)
    }
}

/// A web server with these responses.
pub(crate) fn pages(responses: &[(&str, &str)]) -> SocketAddr {
    web::serve(
        responses.iter().map(|(path, response)| ((*path).to_owned(), (*response).to_owned())).collect(),
    )
}
