//! Cases: what `cases.txt` asks of a server, played on a connection and in a directory of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};
use testkit::tries::Tries;

use super::outcome::{Outcome, text_of};
use super::wired::{PATIENCE, Wired};
use super::{Place, Release};

/// One case.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    only: Option<String>,
    has_handshake: bool,
    steps: Vec<(String, String)>,
}

impl Case {
    /// Whether it is asked of this release.
    pub(crate) fn concerns(&self, release: Release) -> bool {
        self.only.as_ref().is_none_or(|only| only == release.number())
    }
}

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for line in include_str!("cases.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, cases.last_mut()) {
            ("==", _) => {
                let (name, only) = rest.split_once(" [").unwrap_or((rest, ""));
                let only = only.strip_suffix(']').map(str::to_owned);
                cases.push(Case { name: name.to_owned(), only, has_handshake: true, steps: Vec::new() });
            }
            ("bare", Some(case)) => case.has_handshake = false,
            (_, Some(case)) => case.steps.push((word.to_owned(), rest.to_owned())),
            _ => panic!("outside of a case: {line}"),
        }
    }
    cases
}

/// Where a case is played: how paths are written there and how a connection is made.
pub(crate) struct Stage<'a> {
    pub(crate) place: &'a Place,
    pub(crate) release: Release,
    /// Where a server for `http/request` is.
    pub(crate) http: String,
    /// Where a server is that sends a part of its response and no more.
    pub(crate) hold: String,
    pub(crate) connect: &'a (dyn Fn() -> Wired + Sync),
}

impl Stage<'_> {
    /// Plays a case.
    pub(crate) fn play(&self, case: &Case) -> Outcome {
        let directory = self.place.path(format!("case-{}", case.name));
        prepare(&directory);
        let plain = directory.to_str().expect("a UTF-8 path").to_owned();
        let theirs = if self.release == Release::V0_131 { plain.clone() } else { format!("file://{plain}") };
        let null = if self.release == Release::V0_131 { "/dev/null" } else { "file:///dev/null" };
        let names = [
            ("$NULL", null.to_owned()),
            ("$P", theirs),
            ("$N", plain),
            ("$HTTP", self.http.clone()),
            ("$HOLD", self.hold.clone()),
        ];
        let mut played = Played {
            stage: self,
            names: names.to_vec(),
            wired: (self.connect)(),
            session: Value::Null,
            late: None,
        };
        if case.has_handshake {
            played.handshake(json!({ "clientName": "t" }));
        }
        for (word, rest) in &case.steps {
            played.step(word, rest);
        }
        let outcome = played.outcome(case, &directory);
        fs::remove_dir_all(&directory).ok();
        outcome
    }
}

/// Starts a server that sends the beginning of each response, and then nothing. It ends with the test.
pub(crate) fn holding_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                request.extend_from_slice(&byte);
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart").ok();
            held.push(stream);
        }
    });
    url
}

/// What every case finds.
fn prepare(directory: &Path) {
    fs::create_dir_all(directory.join("dir")).expect("a directory");
    fs::write(directory.join("a.txt"), "hello\n").expect("a file");
    fs::write(directory.join("dir/b.txt"), "b\n").expect("a file");
    symlink("a.txt", directory.join("link")).expect("a link");
    symlink("dir", directory.join("dirlink")).expect("a link");
    symlink("nothing", directory.join("broken")).expect("a link");
}

/// A case while it is played.
struct Played<'a> {
    stage: &'a Stage<'a>,
    names: Vec<(&'static str, String)>,
    wired: Wired,
    session: Value,
    /// What was awaited in vain.
    late: Option<String>,
}

impl Played<'_> {
    fn handshake(&mut self, params: Value) -> Option<Value> {
        let id = json!(format!("hello {}", self.wired.heard.len()));
        self.wired.say(&json!({ "id": id, "method": "initialize", "params": params }).to_string());
        let answer = self.wired.answer(&id)?;
        let session = answer.pointer("/result/sessionId")?.clone();
        self.wired.say(r#"{"method":"initialized"}"#);
        self.session = session.clone();
        Some(session)
    }

    fn step(&mut self, word: &str, rest: &str) {
        let filled = self.names.iter().fold(rest.to_owned(), |text, (name, value)| text.replace(name, value));
        let is_there = match word {
            ">" => {
                self.wired.say(&filled);
                let message: Value =
                    serde_json::from_str(&filled).unwrap_or_else(|error| panic!("{error}: {filled}"));
                let is_request = message.get("id").is_some() && message.get("method").is_some();
                !is_request || self.wired.answer(&message["id"]).is_some()
            }
            ">>" | ">raw" => {
                self.wired.say(&filled);
                true
            }
            ">binary" => {
                self.wired.say_binary(&filled);
                true
            }
            "closed" => self.wired.hear_until(|heard| has(heard, "process/closed", "processId", rest)),
            "streamed" => self.wired.hear_until(|heard| {
                heard.iter().any(|message| {
                    message["params"]["requestId"] == rest && message["params"]["done"] == true
                })
            }),
            "said" => {
                let (process, text) = rest.split_once(' ').expect("a process and a text");
                self.wired.hear_until(|heard| text_of(heard, process).contains(text))
            }
            "delta" => self
                .wired
                .hear_until(|heard| heard.iter().any(|message| message["params"]["requestId"] == rest)),
            "resume" => self.resume(),
            "anew" => {
                self.reconnect();
                self.handshake(json!({ "clientName": "t" })).is_some()
            }
            other => panic!("unknown step {other}"),
        };
        if !is_there && !self.wired.is_over && self.late.is_none() {
            self.late = Some(format!("{word} {rest}"));
        }
    }

    fn reconnect(&mut self) {
        self.wired.finish();
        let heard = std::mem::take(&mut self.wired.heard);
        self.wired = (self.stage.connect)();
        self.wired.heard = heard;
    }

    /// Comes back; the server may take a moment to see that the connection before is gone.
    fn resume(&mut self) -> bool {
        self.reconnect();
        let params = json!({ "clientName": "t", "resumeSessionId": self.session });
        let mut tries = Tries::within(3 * PATIENCE, "to resume");
        while self.handshake(params.clone()).is_none() {
            tries.again();
        }
        true
    }

    /// Asks whether the connection lives, and tells what came of the case.
    fn outcome(mut self, case: &Case, directory: &Path) -> Outcome {
        let lives = self.wired.is_answered();
        if case.name != "handshake" {
            self.wired.heard.retain(|message| !is_hello(message));
        }
        let end = if lives { "open" } else { "over" };
        let mut words: Vec<(String, String)> = vec![(format!("file://{}", self.names[2].1), "$P".to_owned())];
        words.push((self.names[2].1.clone(), "$N".to_owned()));
        words.push((self.stage.place.root(), "$PLACE".to_owned()));
        // A server cannot have the words of two releases; it has those of the current one.
        let has_texts = self.stage.release == Release::V0_166;
        let mut outcome = Outcome::of(&self.wired.heard, &words, has_texts);
        outcome.put("connection", json!(end));
        if let Some(late) = self.late {
            outcome.put("awaited in vain", json!(late));
        }
        outcome.put("files", json!(files(directory)));
        self.wired.finish();
        outcome
    }
}

fn is_hello(message: &Value) -> bool {
    message["id"].as_str().is_some_and(|id| id.starts_with("hello"))
}

fn has(heard: &[Value], method: &str, member: &str, value: &str) -> bool {
    heard.iter().any(|message| message["method"] == method && message["params"][member] == value)
}

/// Everything below a directory, with what it holds.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
            let name = path.strip_prefix(directory).expect("below it").display().to_string();
            let what = if kind.is_symlink() {
                format!("-> {}", fs::read_link(&path).expect("a link").display())
            } else if kind.is_dir() {
                open.push(path);
                "a directory".to_owned()
            } else if !kind.is_file() {
                // A FIFO would be waited for.
                "special".to_owned()
            } else {
                fs::read_to_string(&path).unwrap_or_default()
            };
            found.insert(name, what);
        }
    }
    found
}
