//! The operator's configuration in exec-server: roots, rules, approvals, environment, audit and limits.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step ends the test")]

mod exec_server;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Instant;

use exec_server::{PATIENCE, ServedDaemon, base64, beside, serve, start};
use serde_json::{Value, json};
use testkit::http::{Http, bearer};
use testkit::prometheus;
use testkit::sandbox::Sandbox;
use testkit::serve::TOKEN;

/// ARCHITECTURE.md, invariant 58.
#[test]
fn roots_and_rules_of_the_operator_hold_here_too() {
    let sandbox = Sandbox::with_config(
        "[policy]\n[[policy.rules]]\nname = \"no-rm\"\naction = \"deny\"\nargv = [\"rm\", \"*\"]\nreason = \"nothing is removed\"\n",
    );
    let (served, _rexd) = beside(&sandbox);
    let mut codex = served.client();
    let secret = sandbox.outside().join("secret.txt");
    assert_eq!(codex.refused("fs/readFile", json!({"path": secret})), -32600);
    sandbox.link("root/way-out", &secret);
    assert_eq!(codex.refused("fs/readFile", json!({"path": sandbox.path("root/way-out")})), -32600);
    let write = json!({"path": sandbox.path("root/new.txt"), "dataBase64": base64("new")});
    codex.call("fs/writeFile", write);
    assert_eq!(sandbox.read("root/new.txt"), "new");
    assert_eq!(codex.refused("process/start", start("p", &["true"])), -32600, "its directory is outside");
    let mut params = start("p", &["sh", "-c", "rm -f new.txt"]);
    params["cwd"] = json!(sandbox.root());
    let refusal = codex.ask("process/start", params).unwrap_err();
    assert_eq!(refusal["code"], -32600);
    assert!(refusal["message"].as_str().unwrap().contains("nothing is removed"), "{refusal}");
    assert_eq!(sandbox.read("root/new.txt"), "new");
}

#[test]
fn a_start_that_needs_approval_waits_for_an_answer_on_another_face() {
    let sandbox = Sandbox::with_config(
        "[policy]\n[[policy.rules]]\nname = \"ask-first\"\naction = \"ask\"\nargv = [\"echo\", \"*\"]\n",
    );
    let (served, mut rexd) = beside(&sandbox);
    let mut codex = served.client();
    let session = rexd.open_with(json!({"client_name": "approver", "approvals": true}));
    let session = session["session_id"].as_str().unwrap().to_owned();
    for (decision, process) in [("approve", "yes"), ("deny", "no")] {
        let mut params = start(process, &["echo", "approved"]);
        params["cwd"] = json!(sandbox.root());
        let start = codex.request("process/start", params);
        let asked = rexd.take("a question", |message: &Value| message["method"] == "approval.requested");
        let id = asked["params"]["approval_id"].clone();
        rexd.call("approval.answer", json!({"session_id": session, "approval_id": id, "decision": decision}));
        match (decision, codex.answer(start)) {
            ("approve", Ok(_started)) => assert_eq!(codex.finish(process).0, b"approved\n"),
            ("deny", Err(refusal)) => assert_eq!(refusal["code"], -32600),
            (_, other) => panic!("{decision}: {other:?}"),
        }
    }
}

#[test]
fn a_start_without_approval_does_not_use_its_id() {
    let sandbox = Sandbox::with_config(
        "[policy]\n[[policy.rules]]\nname = \"ask-first\"\naction = \"ask\"\nargv = [\"echo\", \"*\"]\n",
    );
    let (served, _rexd) = beside(&sandbox);
    let mut codex = served.client();
    let params = |argv: &[&str]| {
        let mut params = start("p", argv);
        params["cwd"] = json!(sandbox.root());
        params
    };
    for _ in 0..2 {
        let refusal = codex.ask("process/start", params(&["echo", "refused"])).unwrap_err();
        assert!(!refusal["message"].as_str().unwrap().contains("already exists"), "{refusal}");
    }
    let write = json!({"processId": "p", "chunk": base64("x")});
    assert_eq!(codex.call("process/write", write)["status"], "unknownProcess");
    codex.call("process/start", params(&["printf", "allowed"]));
    assert_eq!(codex.finish("p").0, b"allowed");
}

/// ARCHITECTURE.md, invariant 58.
#[test]
fn the_operators_variables_have_the_last_word_in_both_vocabularies() {
    let sandbox = Sandbox::with_config("[environment]\nset = { HTTPS_PROXY = \"http://proxy.example\" }\n");
    let (served, _rexd) = beside(&sandbox);
    let mut codex = served.client();
    let line = "printf %s \"$HTTPS_PROXY\"";
    let base = json!({
        "processId": "v1", "argv": ["sh", "-c", line], "cwd": sandbox.root(), "tty": false, "arg0": null,
        "env": {"PATH": "/usr/bin:/bin", "HTTPS_PROXY": ""},
        "envPolicy": {
            "inherit": "none", "ignoreDefaultExcludes": false, "exclude": ["HTTPS_PROXY"], "set": {},
            "includeOnly": ["PATH"],
        },
    });
    codex.call("process/start", base.clone());
    assert_eq!(codex.finish("v1").0, b"http://proxy.example");
    let mut old = base;
    old["processId"] = json!("v0");
    old.as_object_mut().unwrap().remove("envPolicy");
    codex.call("command/exec", old);
    let told = codex.event("command/exec/outputDelta", "v0");
    assert_eq!(exec_server::bytes(&told["params"]["chunk"]), b"http://proxy.example");
}

/// ARCHITECTURE.md, invariant 58.
#[test]
fn a_header_cannot_use_a_variable_that_commands_do_not_inherit() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    command.arg("exec-server").env("DEPLOY_TOKEN", "secret").env("GREETING", "hello");
    let served = ServedDaemon::spawn(command);
    let mut codex = served.client();
    // Nobody listens there: what has its headers goes as far as trying.
    let closed = "127.0.0.1:1";
    for (variable, code) in [("GREETING", -32603), ("DEPLOY_TOKEN", -32602), ("NO_SUCH_THING", -32602)] {
        let params = json!({
            "method": "GET", "url": format!("http://{closed}/"), "requestId": variable,
            "headers": [{"name": "x-test", "value": "", "valueEnvVar": variable}],
        });
        assert_eq!(codex.refused("http/request", params), code, "{variable}");
    }
}

/// ARCHITECTURE.md, invariant 58.
#[test]
fn the_audit_contains_file_address_and_process() {
    let sandbox = Sandbox::new();
    let (served, _rexd) = beside(&sandbox);
    let mut codex = served.client();
    let path = sandbox.path("root/kept.txt");
    codex.call("fs/writeFile", json!({"path": path, "dataBase64": base64("content")}));
    let copy = sandbox.path("root/copied.txt");
    codex.call("fs/copy", json!({"sourcePath": path, "destinationPath": copy, "recursive": false}));
    codex.call("fs/remove", json!({"path": path}));
    let url = "http://user:s3cr3t@127.0.0.1:1/place?token=s3cr3t";
    let params = json!({"method": "GET", "url": url, "requestId": "r", "headers": []});
    codex.ask("http/request", params).unwrap_err();
    let mut params = start("mine", &["true"]);
    params["cwd"] = json!(sandbox.root());
    codex.call("process/start", params);
    codex.finish("mine");
    sandbox.gains("audit.log", "process/closed", Instant::now() + PATIENCE);
    let audit = sandbox.read("audit.log");
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let params = |method: &str| {
        let found = lines.iter().find(|line| line["method"] == method);
        found.unwrap_or_else(|| panic!("no {method} in {audit}"))["params"].clone()
    };
    assert_eq!(params("fs/writeFile")["path"], json!(path));
    assert_eq!(params("fs/copy")["destination_path"], json!(copy));
    assert_eq!(params("fs/remove")["path"], json!(path));
    assert_eq!(params("http/request")["url"], "127.0.0.1:1/place");
    assert_eq!(params("process/start")["process_id"], "mine");
    assert_eq!(params("process/closed")["process_id"], "mine");
    assert!(params("process/closed")["known_as"].is_string());
    assert!(!audit.contains("s3cr3t") && !audit.contains(&base64("content")), "{audit}");
}

/// An OpenTelemetry collector: its URL, and the spans that it receives.
fn collector() -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (received, spans) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
            spans.iter().for_each(|span| drop(received.send(span.clone())));
        }
    });
    (url, spans)
}

/// Answers one HTTP request with these bytes, and sends its first line.
fn answer_once(address: &str, answer: &'static [u8]) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind(address).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (received, first_line) = mpsc::channel();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let (mut line, mut first) = (String::new(), None);
        while line != "\r\n" {
            line.clear();
            assert_ne!(stream.read_line(&mut line).unwrap(), 0);
            first.get_or_insert_with(|| line.trim_end().to_owned());
        }
        stream.get_mut().write_all(answer).unwrap();
        received.send(first.unwrap()).unwrap();
    });
    (address, first_line)
}

#[test]
fn the_proxies_in_the_environment_of_the_program_are_used() {
    let sandbox = Sandbox::new();
    let (proxy, proxied) = answer_once("127.0.0.1:0", b"HTTP/1.1 203 Proxied\r\ncontent-length: 0\r\n\r\n");
    let (server, direct) = answer_once("127.0.0.2:0", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
    command.args(["exec-server", "--listen", "ws://127.0.0.1:0"]);
    command.env("HTTP_PROXY", format!("http://{proxy}")).env("NO_PROXY", "localhost,127.0.0.2");
    let served = ServedDaemon::spawn(command);
    let mut codex = served.client();
    for (url, status, first_line, expected) in [
        ("http://host.invalid/a?b".to_owned(), 203, proxied, "GET http://host.invalid/a?b HTTP/1.1"),
        (format!("http://{server}/c"), 200, direct, "GET /c HTTP/1.1"),
    ] {
        let params = json!({"method": "GET", "url": url, "requestId": url});
        assert_eq!(codex.call("http/request", params)["status"], status, "{url}");
        assert_eq!(first_line.recv_timeout(PATIENCE).unwrap(), expected);
    }
}

/// ARCHITECTURE.md, invariant 58.
#[test]
fn a_request_is_counted_traced_and_audited_under_its_own_name() {
    let (url, spans) = collector();
    let sandbox = Sandbox::with_config(&format!("[telemetry]\notlp_endpoint = {url:?}\n"));
    let mut command = serve(&sandbox);
    command.args(["--http", "127.0.0.1:0"]).env("REXD_TOKEN", TOKEN);
    let served = ServedDaemon::spawn(command);
    let mut codex = served.client();
    let path = sandbox.write("root/file.txt", "content");
    codex.call("fs/readFile", json!({"path": path}));
    let mut params = start("p", &["true"]);
    params["cwd"] = json!(sandbox.root());
    codex.call("process/start", params);
    codex.finish("p");
    let methods = ["initialize", "fs/readFile", "process/start"];

    let mut http = Http::connect(served.http.unwrap()).unwrap();
    let page = http.ask("/metrics", &bearer(Some(TOKEN)), None).unwrap();
    let counts = prometheus::parse(&page.body).unwrap();
    for method in methods {
        let labels = [("face", "exec-server"), ("method", method), ("outcome", "ok")];
        assert_eq!(counts.value("rexd_requests_total", &labels), Some(1.0), "{method}");
    }
    assert_eq!(counts.sum("rexd_requests_total", &[("face", "exec-server")]), 3.0, "{}", page.body);

    let attribute = |span: &Value, key: &str| {
        let attributes = span["attributes"].as_array().unwrap();
        let found = attributes.iter().find(|attribute| attribute["key"] == key);
        found.map(|attribute| attribute["value"]["stringValue"].clone()).unwrap_or_default()
    };
    let mut expected = BTreeSet::from(methods);
    while !expected.is_empty() {
        let span = spans.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no span for {expected:?}"));
        assert_eq!(attribute(&span, "rexd.face"), "exec-server", "{span}");
        assert_eq!(attribute(&span, "rpc.method"), span["name"], "{span}");
        assert!(expected.remove(span["name"].as_str().unwrap()), "not expected, or twice: {span}");
    }

    sandbox.gains("audit.log", "process/closed", Instant::now() + PATIENCE);
    let audit = sandbox.read("audit.log");
    let records = audit.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let records: Vec<Value> = records.filter(|record| record["face"] == "exec-server").collect();
    for method in methods {
        assert_eq!(records.iter().filter(|record| record["method"] == method).count(), 1, "{audit}");
    }
}

/// ARCHITECTURE.md, invariant 57.
#[test]
fn unread_input_is_bounded_and_its_process_can_still_be_ended() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut codex = served.client();
    codex.call("process/start", start("p", &["sleep", "1000"]));
    let chunk = base64(vec![b'x'; 24 * 1024 * 1024]);
    let asked: Vec<u64> =
        (0..12).map(|_| codex.request("process/write", json!({"processId": "p", "chunk": chunk}))).collect();
    let refused = codex.answer(*asked.last().unwrap()).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("too many pending reads and writes"), "{refused}");
    assert_eq!(codex.call("process/terminate", json!({"processId": "p"}))["running"], true);
    for id in &asked[..4] {
        assert_eq!(codex.answer(*id).unwrap()["status"], "accepted", "what waited is answered with its end");
    }
    codex.call("process/start", start("next", &["true"]));
    let write = json!({"processId": "next", "chunk": base64("x")});
    assert_eq!(codex.call("process/write", write)["status"], "accepted", "its room is free again");
}

/// ARCHITECTURE.md, invariant 58.
#[test]
fn a_tree_with_a_file_that_a_rule_protects_is_neither_removed_nor_copied_whole() {
    let sandbox = Sandbox::with_config(
        "[policy]\n[[policy.rules]]\nname = \"keep\"\naction = \"deny\"\npaths = [\"**/secret.env\"]\n",
    );
    sandbox.write("root/tree/deep/secret.env", "KEY=1");
    sandbox.write("root/tree/plain.txt", "plain");
    let (served, _rexd) = beside(&sandbox);
    let mut codex = served.client();
    codex.ask("fs/remove", json!({"path": sandbox.path("root/tree"), "recursive": true})).unwrap_err();
    assert_eq!(sandbox.read("root/tree/deep/secret.env"), "KEY=1");
    let copy = json!({
        "sourcePath": sandbox.path("root/tree"), "destinationPath": sandbox.path("root/copy"), "recursive": true,
    });
    codex.ask("fs/copy", copy).unwrap_err();
    assert!(!sandbox.path("root/copy/deep/secret.env").exists());
}

#[test]
fn unread_responses_are_bounded_and_other_clients_are_served() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&sandbox, &[]);
    let mut neighbour = served.client();
    let pid = i32::try_from(served.child.id()).unwrap();
    let before = testkit::proc::held_bytes(pid);
    let large = sandbox.path("root/large.bin");
    std::fs::write(&large, vec![b'x'; 10 * 1024 * 1024]).unwrap();
    let mut reader = served.client();
    reader.shell("p", "head -c 5000000 /dev/zero");
    reader.finish("p");
    for _ in 0..150 {
        reader.request("process/read", json!({"processId": "p"}));
        reader.request("fs/readFile", json!({"path": large}));
    }
    // One that only asks, until it is not heard any more: the end of the daemon ends it.
    let asker = served.client();
    let flood =
        std::thread::spawn(move || asker.flood(r#"{"id":1,"method":"environment/info","params":{}}"#));
    for round in 0..40 {
        let process = format!("q{round}");
        neighbour.call("process/start", start(&process, &["echo", "served"]));
        assert_eq!(neighbour.finish(&process).0, b"served\n");
        let grown = testkit::proc::held_bytes(pid).saturating_sub(before);
        assert!(grown < 320 * 1024 * 1024, "{grown} bytes in round {round}");
    }
    drop(served);
    flood.join().unwrap();
    drop(reader);
}

#[test]
fn variables_and_http_requests_are_checked_like_commands() {
    let sandbox = Sandbox::with_config(
        "[policy]\ndefault = \"deny\"\n[[policy.rules]]\nname = \"ls\"\naction = \"allow\"\nargv = [\"ls\", \"*\"]\nenv = [\"RUST_LOG\"]\n\
         [[policy.rules]]\nname = \"web\"\naction = \"allow\"\nargv = [\"http-request\", \"GET\", \"http://127.0.0.1:1/*\"]\n",
    );
    let (served, _rexd) = beside(&sandbox);
    let mut codex = served.client();
    let mut run = |id: &str, env: Value| {
        let mut params = start(id, &["ls"]);
        (params["cwd"], params["env"]) = (json!(sandbox.root()), env);
        codex.ask("process/start", params)
    };
    for (id, env) in [
        ("path", json!({"PATH": "/tmp"})),
        ("preload", json!({"LD_PRELOAD": "/tmp/x.so"})),
        ("git", json!({"GIT_CONFIG_COUNT": "1"})),
        ("unknown", json!({"SOME_UNKNOWN_NAME": "1"})),
    ] {
        let refusal = run(id, env).unwrap_err();
        assert_eq!(refusal["code"], -32600, "{id}: {refusal}");
    }
    for (id, env) in
        [("none", json!({})), ("named", json!({"RUST_LOG": "debug"})), ("locale", json!({"LC_ALL": "C"}))]
    {
        run(id, env).unwrap();
    }
    let request =
        |method: &str, url: &str| json!({"method": method, "url": url, "requestId": url, "headers": []});
    for (method, url) in [("GET", "http://127.0.0.1:2/"), ("POST", "http://127.0.0.1:1/a")] {
        let refusal = codex.ask("http/request", request(method, url)).unwrap_err();
        assert_eq!(refusal["code"], -32600, "{refusal}");
    }
    let failure = codex.ask("http/request", request("GET", "http://127.0.0.1:1/a")).unwrap_err();
    assert_ne!(failure["code"], -32600, "an allowed request fails for lack of a server: {failure}");
}
