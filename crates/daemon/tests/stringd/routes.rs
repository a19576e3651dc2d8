//! Every route: statuses, error bodies, the order of checks, bad input, and what a restart keeps.

use std::io::Write as _;
use std::time::Instant;

use serde_json::{Value, json};
use testkit::proc::watch;
use testkit::sandbox::Sandbox;

use crate::support::{PATIENCE, REXD, Served, StringdClient, start};

fn error(answer: (u16, Value)) -> (u16, String) {
    (answer.0, answer.1["error"].as_str().unwrap_or_default().to_owned())
}

fn expect(answer: (u16, Value), status: u16, text: &str) {
    assert_eq!(error(answer), (status, text.to_owned()));
}

#[test]
fn users_are_registered_listed_and_deleted() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.client();
    assert_eq!(client.get("/users"), json!({ "users": [] }));
    expect(client.request("POST", "/users", b"not json"), 400, "id required");
    expect(client.json("POST", "/users", &json!([1])), 400, "id required");
    expect(client.json("POST", "/users", &json!({ "id": 7, "home": "/x" })), 400, "id required");
    expect(client.json("POST", "/users", &json!({ "id": " " })), 400, "id required");
    expect(client.json("POST", "/users", &json!({ "id": "a" })), 400, "home required");
    expect(
        client.json("POST", "/users", &json!({ "id": "a", "home": "x" })),
        400,
        "home must be an absolute path",
    );
    let home = sandbox.root();
    let created = client.json("POST", "/users", &json!({ "id": " a ", "home": home }));
    assert_eq!(created, (200, json!({ "user_id": "a", "home": home, "created": true })));
    let known = client.json("POST", "/users", &json!({ "user_id": "a", "home": home }));
    assert_eq!(known.1["created"], false);
    let users = client.get("/users");
    let user = &users["users"][0];
    assert_eq!((&user["id"], &user["allowedPaths"]), (&json!("a"), &json!([])));
    assert!(user["createdAt"].as_str().unwrap().ends_with('Z'));
    assert_eq!(client.get("/health"), json!({ "ok": true, "users": 1, "sessions": 0 }));
    assert_eq!(client.request("DELETE", "/users/a", b"").1, json!({ "user_id": "a", "deleted": true }));
    assert_eq!(client.request("DELETE", "/users/a", b"").1["deleted"], false);
    assert_eq!(client.request("DELETE", "/users/", b"").1, json!({ "user_id": "", "deleted": false }));
    expect(client.request("DELETE", "/users/%zz", b""), 400, "Malformed percent escape");
}

#[test]
fn sessions_are_created_listed_and_deleted() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    expect(client.request("POST", "/sessions", b"{"), 400, "user_id required");
    expect(
        client.json("POST", "/sessions", &json!({ "user_id": "x", "topic": "bad!" })),
        401,
        "Unknown user: x",
    );
    expect(
        client.json("POST", "/sessions", &json!({ "user_id": "u", "topic": " bad! " })),
        400,
        "Invalid topic: bad!",
    );
    let created = client.json("POST", "/sessions", &json!({ "user_id": "u", "topic": "notes" })).1;
    assert_eq!(
        created,
        json!({ "user_id": "u", "topic": "file:notes", "topic_type": "file", "created": true })
    );
    let again = client.json("POST", "/sessions", &json!({ "user_id": "u", "topic": "file:notes" })).1;
    assert_eq!(again["created"], false);
    let sessions = client.get("/sessions?user_id=u");
    let item = &sessions["sessions"][0];
    assert_eq!((&item["topic"], &item["doc"]), (&json!("file:notes"), &json!(null)));
    assert_eq!((&item["executing"], &item["queue_length"]), (&json!(false), &json!(0)));
    assert_eq!(client.get("/sessions?user_id=nobody"), json!({ "sessions": [] }));
    expect(client.request("DELETE", "/sessions/u", b""), 400, "Expected /sessions/:user_id/:topic");
    assert_eq!(client.request("DELETE", "/sessions/u/notes", b"").1["deleted"], false, "not canonical");
    assert_eq!(client.request("DELETE", "/sessions/u/file:notes", b"").1["deleted"], true);
    assert_eq!(client.get("/health")["sessions"], 0);
}

#[test]
fn exec_checks_in_the_order_of_the_protocol() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    let ask = |client: &mut StringdClient, header: &str, body: &str| {
        let headers: &[&str] = if header.is_empty() { &[] } else { &[header] };
        client.send("POST", "/exec", headers, body.as_bytes());
        let (head, body) = client.answer();
        (head.status, serde_json::from_str(&body).unwrap())
    };
    expect(ask(&mut client, "", "{"), 400, "X-User-Id header required");
    expect(ask(&mut client, "X-User-Id:  ", "{"), 400, "X-User-Id header required");
    expect(ask(&mut client, "x-user-id: nobody", "{"), 401, "Unknown user: nobody");
    expect(ask(&mut client, "X-User-Id: u", "{"), 400, "Invalid JSON body — expected { \"cmd\": \"...\" }");
    let empty = "Empty command — provide non-empty \"cmd\" field";
    for body in ["{}", "[]", "{\"cmd\":7}", "{\"cmd\":\" \",\"topic\":\"bad!\"}"] {
        expect(ask(&mut client, "X-User-Id: u", body), 400, empty);
    }
    expect(
        ask(&mut client, "X-User-Id: u", "{\"cmd\":\"/x\",\"topic\":\"bad!\"}"),
        400,
        "Invalid topic: bad!",
    );
    let long = json!({ "cmd": "/x", "topic": "t ".repeat(5_000) }).to_string();
    assert_eq!(ask(&mut client, "X-User-Id: u", &long).0, 400);
    assert_eq!(client.get("/health")["sessions"], 0, "a refused command opens no topic");
    let line = format!("{}\nbody", "x".repeat(81));
    let reply = client.exec("main", &line);
    assert_eq!(reply.head["cmd"], "x".repeat(77) + "...");
    assert_eq!((&reply.head["topic"], &reply.head["topic_type"]), (&json!("file:main"), &json!("file")));
    let body = json!({ "cmd": "//close", "topic": "bash:b", "request_id": " q7 " }).to_string();
    client.send("POST", "/exec", &["X-User-Id: u"], body.as_bytes());
    let reply = client.reply();
    assert_eq!(reply.head["request_id"], "q7");
    assert_eq!(reply.content, "re: [q7] //close\nBash session closed.");
}

#[test]
fn sessions_of_a_user_are_listed_and_closed_by_a_command() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    let last = client.exec("bash:a", "/session close");
    assert_eq!(
        (last.head["code"].clone(), last.content.as_str()),
        (Value::Null, "re: /session close\nERROR(UNKNOWN): Cannot close last session.")
    );
    let list = client.exec("file:b", "/session");
    assert_eq!(list.body(), "sessions:\n  bash:a\n* file:b");
    assert_eq!(client.exec("file:b", "/session close bash:a").body(), "Closed session: bash:a");
    assert!(client.exec("file:b", "/session x").content.ends_with("Unknown session command: /session x"));
}

#[test]
fn unknown_routes_preflights_and_foreign_pages() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.client();
    expect(client.request("GET", "/users/", b""), 404, "Not found: GET /users/");
    expect(client.request("PATCH", "/exec?x=1", b""), 404, "Not found: PATCH /exec");
    client.send("OPTIONS", "/any", &["Origin: http://localhost:5173"], b"");
    let (head, body) = client.answer();
    assert_eq!((head.status, body.as_str()), (204, ""));
    client.send("HEAD", "/health", &[], b"");
    let head = client.http.head().unwrap();
    assert_eq!(head.status, 404);
    client.send("GET", "/health", &["Origin: https://evil.example"], b"");
    assert_eq!(client.answer().0.status, 403);
    let mut client = served.client();
    client.http.stream().write_all(b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n").unwrap();
    assert_eq!(client.answer().0.status, 403);
    let mut client = served.client();
    assert_eq!(client.get("/health")["ok"], true);
}

#[test]
fn bodies_are_chunked_expected_limited_and_cut() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    let body = json!({ "cmd": "//close", "topic": "bash:b" }).to_string();
    let chunk = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let head = "POST /exec HTTP/1.1\r\nHost: 127.0.0.1\r\nX-User-Id: u\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.http.stream().write_all(format!("{head}{chunk}").as_bytes()).unwrap();
    assert_eq!(client.reply().head["ok"], true);
    let expect_line = format!("Content-Length: {}\r\nExpect: 100-continue\r\n\r\n", body.len());
    let head = format!("POST /exec HTTP/1.1\r\nHost: 127.0.0.1\r\nX-User-Id: u\r\n{expect_line}");
    client.http.stream().write_all(head.as_bytes()).unwrap();
    assert_eq!(client.http.head().unwrap().status, 100);
    client.http.stream().write_all(body.as_bytes()).unwrap();
    assert_eq!(client.reply().head["ok"], true, "on the same connection");
    let limit = 10 * 1024 * 1024;
    let padded = |bytes: usize| {
        let start = "{\"cmd\":\"//close\",\"topic\":\"bash:b\",\"x\":\"";
        format!("{start}{}\"}}", "x".repeat(bytes - start.len() - 2))
    };
    client.send("POST", "/exec", &["X-User-Id: u"], padded(limit).as_bytes());
    assert_eq!(client.reply().head["ok"], true, "exactly the limit");
    client.send("POST", "/exec", &["X-User-Id: u"], padded(limit + 1).as_bytes());
    let (head, body) = client.answer();
    assert_eq!(head.status, 413, "{body}");
    assert!(body.contains("Request body exceeds 10485760 bytes"), "{body}");
    // A client that still sends, one that stops, and one that waits for permission can read the refusal.
    let mut sending = served.client();
    sending.send("POST", "/exec", &["X-User-Id: u"], padded(4 * limit).as_bytes());
    assert_eq!(sending.answer().0.status, 413);
    for (header, sent) in [("X-User-Id: u", limit + 1), ("Expect: 100-continue", 0)] {
        let mut stops = served.client();
        let line = "POST /exec HTTP/1.1\r\nHost: localhost\r\nX-User-Id: u\r\n";
        let head = format!("{line}{header}\r\nContent-Length: {}\r\n\r\n", 3 * limit);
        stops.http.stream().write_all(head.as_bytes()).unwrap();
        stops.http.stream().write_all(&vec![b'x'; sent]).unwrap();
        let (head, body) = stops.answer();
        assert_eq!((head.status, head.header("connection")), (413, Some("close")), "{body}");
    }
    let cut = served.client();
    cut.http
        .stream()
        .write_all(b"POST /users HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
        .unwrap();
    drop(cut);
    assert_eq!(served.client().get("/health")["ok"], true);
}

#[test]
fn a_refusal_before_the_body_keeps_the_connection() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.client();
    for (line, status) in
        [("POST /exec", 400), ("POST /nope", 404), ("GET /health", 200), ("DELETE /users/x", 200)]
    {
        let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n");
        client.http.stream().write_all(head.as_bytes()).unwrap();
        client.http.stream().write_all(b"{}").unwrap();
        assert_eq!(client.answer().0.status, status, "{line}");
    }
}

#[test]
fn a_restart_keeps_users_and_loses_sessions_also_after_a_kill() {
    let sandbox = Sandbox::new();
    for round in 0..2 {
        let mut served = start(&sandbox);
        let mut client = served.client();
        let file = sandbox.path(".stringd/users.json");
        match round {
            0 => assert_eq!(served.printed, Vec::<String>::new()),
            _ => assert_eq!(served.printed, [format!("Loaded 1 user(s) from {}", file.display())]),
        }
        assert_eq!(client.get("/health")["sessions"], 0);
        client.json("POST", "/users", &json!({ "id": "u", "home": sandbox.root() }));
        let reply = client.exec("bash:a", "echo $$");
        let shell: i32 = reply.body().lines().last().unwrap().parse().unwrap();
        let pid = rustix::process::Pid::from_raw(served.pid()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        served.wait();
        assert!(watch(shell).ends_before(Instant::now() + PATIENCE), "the shell is left behind");
    }
    let mut served = start(&sandbox);
    let users = served.client().get("/users");
    assert_eq!(users["users"].as_array().unwrap().len(), 1);
    let pid = rustix::process::Pid::from_raw(served.pid()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(served.wait().success());
}

#[test]
fn a_half_written_file_of_users_is_kept_aside() {
    let sandbox = Sandbox::new();
    let half = "[{\"id\": \"old\", \"home\": \"/o";
    sandbox.write(".stringd/users.json", half);
    let mut served = start(&sandbox);
    assert_eq!(served.printed, Vec::<String>::new());
    assert_eq!(served.client().get("/users"), json!({ "users": [] }));
    assert_eq!(sandbox.read(".stringd/users.json.corrupt"), half);
    let mut client = served.user(&sandbox.path("root/missing"));
    assert!(sandbox.path("root/missing").is_dir(), "a missing home is created");
    assert_eq!(client.exec("bash:a", "pwd").head["ok"], true);
    assert_eq!(client.request("POST", "/shutdown", b"").0, 200);
    assert!(served.wait().success());
    let again = start(&sandbox);
    assert_eq!(again.client().get("/users")["users"][0]["id"], "u");
}

#[test]
fn a_port_in_use_and_a_home_that_is_a_file_are_reported() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut second = sandbox.command(REXD);
    let output = second.args(["stringd", &served.address.port().to_string()]).output().unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("cannot listen on 127.0.0.1:"), "{text}");
    let file = sandbox.write("root/file", "x");
    let mut client = served.user(&file);
    let reply = client.exec("bash:a", "true");
    assert_eq!(reply.code(), "INTERNAL_ERROR", "{reply:?}");
    assert!(reply.body().starts_with("ERROR(INTERNAL_ERROR): Bash error: "), "{reply:?}");
    assert_eq!(client.get("/health")["ok"], true);
}

/// A command whose head was accepted, and whose body the daemon waits for.
fn half_sent(served: &Served, body: &str) -> StringdClient {
    let mut client = served.client();
    let length = format!("Content-Length: {}", body.len());
    client.send("POST", "/exec", &["X-User-Id: u", &length, "Expect: 100-continue"], b"");
    assert_eq!(client.http.head().unwrap().status, 100, "the user was checked");
    client
}

#[test]
fn a_user_that_changes_while_a_body_is_read_counts_as_it_is_afterwards() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.path("root/first"));
    let body = json!({ "cmd": "/exec pwd", "topic": "file:a" }).to_string();
    let moved = half_sent(&served, &body);
    let second = sandbox.path("root/second");
    served.user(&second);
    moved.http.stream().write_all(body.as_bytes()).unwrap();
    let begun = { moved }.reply();
    for reply in [begun, client.exec("file:a", "/exec pwd")] {
        assert!(reply.content.ends_with(&format!("\n{}", second.display())), "{reply:?}");
    }
    let deleted = half_sent(&served, &body);
    assert_eq!(client.request("DELETE", "/users/u", b"").1["deleted"], true);
    deleted.http.stream().write_all(body.as_bytes()).unwrap();
    let (head, text) = { deleted }.answer();
    assert_eq!((head.status, text.as_str()), (401, "{\"error\":\"Unknown user: u\"}"));
    assert_eq!(client.get("/health")["sessions"], 0, "no topic of the user was opened");
}

#[test]
fn a_long_topic_is_valid_and_a_stalled_body_stalls_only_its_connection() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    let topic = format!("file:{}", "x".repeat(10_000));
    let reply = client.exec(&topic, "/info");
    assert_eq!(
        (reply.head["ok"].as_bool(), reply.head["topic"].as_str()),
        (Some(true), Some(topic.as_str()))
    );
    let (status, body) = client.json("POST", "/sessions", &json!({ "user_id": "u", "topic": topic }));
    assert_eq!((status, &body["created"]), (200, &json!(false)));
    let body = json!({ "cmd": "/info", "topic": "file:a" }).to_string();
    let (half, rest) = body.split_at(10);
    let mut stalled = half_sent(&served, &body);
    stalled.http.stream().write_all(half.as_bytes()).unwrap();
    assert_eq!(client.exec("file:a", "/info").head["ok"], true, "the topic is not blocked");
    stalled.http.stream().write_all(rest.as_bytes()).unwrap();
    assert_eq!(stalled.reply().head["ok"], true);
}
