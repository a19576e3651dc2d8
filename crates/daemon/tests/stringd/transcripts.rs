//! Replays the conversations of `spec/stringd-v0.1/transcripts`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::pattern::{self, Vars};
use testkit::sandbox::Sandbox;
use testkit::tries::Tries;

use crate::support::{PATIENCE, Served, StringdClient, start};
use crate::web;

#[test]
fn every_transcript_holds() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/stringd-v0.1/transcripts");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 15, "{files:?}");
    for file in files {
        println!("{}", file.display());
        replay(&std::fs::read_to_string(&file).unwrap());
    }
}

/// A line and the indented lines below it.
struct Step<'a> {
    line: &'a str,
    block: String,
}

fn steps(text: &str) -> Vec<Step<'_>> {
    let mut lines = text.lines().peekable();
    let mut steps = Vec::new();
    while let Some(line) = lines.next() {
        let mut block = Vec::new();
        while let Some(inner) = lines.next_if(|next| next.starts_with("  ")) {
            block.push(&inner[2..]);
        }
        steps.push(Step { line, block: block.join("\n") });
    }
    steps
}

fn replay(text: &str) {
    let steps = steps(text);
    let config: String =
        steps.iter().filter(|step| step.line == "config").map(|step| format!("{}\n", step.block)).collect();
    let sandbox = Sandbox::with_config(&config);
    let served = start(&sandbox);
    let web = web::serve(steps.iter().filter_map(page).collect());
    let root = sandbox.root();
    let vars = Vars::new().with("ROOT", root.to_str().unwrap()).with("WEB", format!("http://{web}"));
    let mut conversation = Conversation { served: &served, root: &root, vars, connections: BTreeMap::new() };
    for step in &steps {
        conversation.step(step);
    }
}

/// The page that a line `page PATH TYPE [STATUS]` describes.
fn page(step: &Step<'_>) -> Option<web::Page> {
    let mut words = step.line.strip_prefix("page ")?.split(' ');
    let (path, kind) = (words.next().unwrap(), words.next().unwrap());
    let response = web::response(kind, &step.block);
    let response = match words.next() {
        Some(status) => response.replacen("200 OK", status, 1),
        None => response,
    };
    Some((path.to_owned(), response))
}

struct Conversation<'a> {
    served: &'a Served,
    root: &'a Path,
    vars: Vars,
    /// Each with the content of its last reply.
    connections: BTreeMap<String, (StringdClient, Option<String>)>,
}

impl Conversation<'_> {
    fn step(&mut self, step: &Step<'_>) {
        let line = step.line;
        if let Some(name) = line.strip_prefix("file ") {
            let path = self.root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            return std::fs::write(path, self.vars.fill(&step.block) + "\n").unwrap();
        }
        if let Some((target, expected)) = line.strip_prefix("until ").and_then(|rest| rest.split_once(' ')) {
            return self.until(target, expected);
        }
        let is_read_before = line == "config" || line.starts_with("page ");
        if is_read_before || line.starts_with('#') || line.is_empty() {
            return;
        }
        let at = line.find(['<', '>']).unwrap_or_else(|| panic!("no step: {line}"));
        let (name, rest) = (&line[..at], line[at + 1..].trim_start());
        match line.as_bytes()[at] {
            b'>' => {
                let request = self.vars.fill(rest);
                send(&mut self.connection(name).0, &request);
            }
            _ => self.expect(name, rest, &step.block),
        }
    }

    fn connection(&mut self, name: &str) -> &mut (StringdClient, Option<String>) {
        let served = self.served;
        self.connections.entry(name.to_owned()).or_insert_with(|| (served.client(), None))
    }

    fn expect(&mut self, name: &str, expected: &str, block: &str) {
        let block = self.vars.fill(block);
        let (client, content) = self.connection(name);
        match expected.split_once(' ') {
            None if expected == "content" => assert_eq!(content.take().unwrap(), block),
            None if expected == "events" => assert_eq!(client.answer().1, block + "\n\n"),
            Some(("head", head)) => {
                let reply = client.reply();
                *content = Some(reply.content);
                self.check(head, &reply.head);
            }
            Some((status, body)) => {
                let (head, found) = client.answer();
                assert_eq!(head.status.to_string(), status, "{expected}: {found}");
                match body {
                    "-" => assert_eq!(found, ""),
                    body => self.check(body, &serde_json::from_str(&found).unwrap()),
                }
            }
            None => panic!("no expectation: {expected}"),
        }
    }

    fn check(&mut self, expected: &str, found: &Value) {
        let pattern = pattern::parse(&self.vars.fill(expected)).unwrap();
        pattern::matches(&pattern, found, &mut self.vars)
            .unwrap_or_else(|error| panic!("{error:#}\n{expected}\n{found}"));
    }

    /// Repeats a request until its answer matches.
    fn until(&mut self, target: &str, expected: &str) {
        let pattern = pattern::parse(&self.vars.fill(expected)).unwrap();
        let mut client = self.served.client();
        let mut tries = Tries::within(PATIENCE, expected);
        while pattern::matches(&pattern, &client.get(target), &mut self.vars).is_err() {
            tries.again();
        }
    }
}

/// Sends `[{Header: value}] [@USER] METHOD PATH [BODY]` or `@USER TOPIC: CMD`; a body `xN` is N bytes.
fn send(client: &mut StringdClient, request: &str) {
    let (header, request) = match request.strip_prefix('{').and_then(|request| request.split_once("} ")) {
        Some((header, request)) => (Some(header.to_owned()), request),
        None => (None, request),
    };
    let (user, request) = match request.strip_prefix('@').and_then(|request| request.split_once(' ')) {
        Some((user, request)) => (Some(format!("X-User-Id: {user}")), request),
        None => (None, request),
    };
    let headers: Vec<&str> = header.iter().chain(&user).map(String::as_str).collect();
    let first = request.split(' ').next().unwrap();
    if first.ends_with(':') {
        let (topic, cmd) = request.split_once(": ").unwrap();
        let body = json!({ "topic": topic, "cmd": cmd.replace("\\n", "\n") }).to_string();
        return client.send("POST", "/exec", &headers, body.as_bytes());
    }
    let mut parts = request.splitn(3, ' ');
    let (method, path, body) =
        (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap_or_default());
    let size: Option<usize> = body.strip_prefix('x').and_then(|size| size.parse().ok());
    let body = size.map_or_else(|| body.as_bytes().to_vec(), |size| vec![b'x'; size]);
    client.send(method, path, &headers, &body);
}
