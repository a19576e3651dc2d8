//! Requests over a link in memory: every row of the spec's "JSON-RPC edge", batches, cancellation and limits.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::task::Poll;

use bytes::Bytes;
use link::rpc::{Request, Requests, RpcLimits};
use link::{Incoming, Limits, Link, memory};
use serde_json::{Value, json};
use wire::jsonrpc::RpcError;

fn start(limits: RpcLimits) -> (Link, Requests) {
    let (client, server) = memory::pair(&Limits { line_bytes: limits.line_bytes, ..Limits::default() });
    (client, Requests::new(server.incoming, server.outgoing, limits))
}

async fn send(client: &Link, line: &str) {
    client.outgoing.respond(Bytes::copy_from_slice(line.as_bytes())).await.unwrap();
}

async fn receive(client: &mut Link) -> Value {
    match client.incoming.recv().await {
        Some(Incoming::Message(line)) => serde_json::from_slice(&line).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Answers everything with the method's name, and `fail` with an error.
async fn echo(mut requests: Requests) {
    while let Some(request) = requests.next().await {
        let method = request.method.clone();
        let answer = if method == "fail" { Err(RpcError::invalid_params("no")) } else { Ok(method) };
        request.reply.send(answer).await;
    }
}

fn call(id: &str, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

#[tokio::test]
async fn each_line_gets_the_answer_it_deserves_and_the_connection_lives() {
    let (mut client, requests) = start(RpcLimits { line_bytes: 200, ..RpcLimits::default() });
    let server = tokio::spawn(echo(requests));
    let long = "x".repeat(300);
    let cases: &[(&str, Value)] = &[
        ("{nonsense", json!([null, -32700])),
        ("[]", json!([null, -32600])),
        ("5", json!([null, -32600])),
        (r#"{"jsonrpc":"1.0","id":4,"method":"a"}"#, json!([4, -32600])),
        (&call("1", "a"), json!([1, "a"])),
        (&call("\"one\"", "a"), json!(["one", "a"])),
        (&call("1.5", "fail"), json!([1.5, -32602])),
        (&long, json!([null, -32008])),
        (r#"{"jsonrpc":"2.0","id":9,"result":1}"#, Value::Null),
        (r#"{"jsonrpc":"2.0","method":"fail"}"#, Value::Null),
        (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, Value::Null),
        (r#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]"#, Value::Null),
    ];
    for (line, expected) in cases {
        send(&client, line).await;
        if !expected.is_null() {
            let answer = receive(&mut client).await;
            let outcome = answer.get("result").or(answer["error"].get("code")).unwrap();
            assert_eq!(json!([answer["id"], outcome]), *expected, "{line}");
            assert!(answer.get("error").is_none_or(|error| error["data"].is_object()), "{answer}");
        }
    }
    // Had any of the silent ones been answered, this would not come next.
    send(&client, &call("2", "z")).await;
    assert_eq!(receive(&mut client).await["result"], json!("z"));
    drop(client);
    server.await.unwrap();
}

/// ARCHITECTURE.md, invariant 15.
#[tokio::test]
async fn an_oversized_line_is_answered_with_its_length_and_the_limit() {
    let (mut client, requests) = start(RpcLimits { line_bytes: 200, ..RpcLimits::default() });
    tokio::spawn(echo(requests));
    send(&client, &"x".repeat(300)).await;
    assert_eq!(receive(&mut client).await["error"]["data"], json!({"limit": 200, "bytes": 300}));
}

#[tokio::test]
async fn a_batch_is_answered_in_one_line_in_the_order_of_its_calls() {
    let (mut client, mut requests) = start(RpcLimits::default());
    let line =
        format!("[{}, 7, {}, {}]", call("1", "a"), r#"{"jsonrpc":"2.0","method":"quiet"}"#, call("2", "b"));
    send(&client, &line).await;
    let (first, quiet, second) =
        (requests.next().await.unwrap(), requests.next().await.unwrap(), requests.next().await.unwrap());
    assert!(first.reply.is_expected() && !quiet.reply.is_expected());
    second.reply.ok("late first").await;
    quiet.reply.ok("nobody hears this").await;
    first.reply.error(RpcError::cancelled()).await;
    let answers = receive(&mut client).await;
    let seen: Vec<_> = answers.as_array().unwrap().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(seen, [json!(1), Value::Null, json!(2)]);
    assert_eq!((&answers[0]["error"]["code"], &answers[2]["result"]), (&json!(-32800), &json!("late first")));
}

#[tokio::test]
async fn a_batch_of_faults_alone_is_answered_at_once() {
    let (mut client, mut requests) = start(RpcLimits::default());
    send(&client, "[1,{}]").await;
    send(&client, &call("1", "a")).await;
    assert_eq!(requests.next().await.unwrap().method, "a");
    let answers = receive(&mut client).await;
    assert_eq!((answers[0]["error"]["code"].clone(), answers.as_array().unwrap().len()), (json!(-32600), 2));
}

/// ARCHITECTURE.md, invariant 14.
#[tokio::test]
async fn a_request_that_is_given_up_is_still_answered_once() {
    let (mut client, mut requests) = start(RpcLimits::default());
    send(&client, &call("1", "a")).await;
    drop(requests.next().await.unwrap());
    assert_eq!(receive(&mut client).await["error"]["code"], json!(-32603));
    send(&client, &call("2", "a")).await;
    requests.next().await.unwrap().reply.ok(1).await;
    assert_eq!(receive(&mut client).await, json!({"jsonrpc": "2.0", "id": 2, "result": 1}));
}

/// ARCHITECTURE.md, invariant 14.
#[tokio::test]
async fn an_answer_whose_sender_is_dropped_while_the_lane_is_full_still_arrives_once() {
    let (mut client, server) = memory::pair(&Limits { control_slots: 1, ..Limits::default() });
    let mut requests = Requests::new(server.incoming, server.outgoing.clone(), RpcLimits::default());
    let outgoing = client.outgoing.clone();
    tokio::spawn(async move {
        for id in 1..=6 {
            outgoing.respond(Bytes::from(call(&id.to_string(), "a"))).await.unwrap();
        }
    });
    let mut pending: Vec<Request> = Vec::new();
    for _ in 0..6 {
        pending.push(requests.next().await.unwrap());
    }
    // Nobody reads yet: the lane fills, the last answers wait, and their senders are dropped while they do.
    for request in pending {
        let mut answer = Box::pin(request.reply.ok("done"));
        // Whether it is sent at once or waits does not matter; it is dropped either way.
        assert!(matches!(futures_util::poll!(answer.as_mut()), Poll::Ready(()) | Poll::Pending));
        tokio::task::yield_now().await;
    }
    let mut ids = Vec::new();
    for _ in 0..6 {
        let answer = receive(&mut client).await;
        assert_eq!(answer["result"], json!("done"));
        ids.push(answer["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6]);
}

#[tokio::test]
async fn a_request_can_be_withdrawn_by_its_id_until_it_is_answered() {
    let (mut client, mut requests) = start(RpcLimits::default());
    let cancel = |id: &str| format!(r#"{{"jsonrpc":"2.0","method":"$/cancel","params":{{"id":{id}}}}}"#);
    send(&client, &call("\"w\"", "exec.wait")).await;
    let waiting = requests.next().await.unwrap();
    send(&client, &cancel("\"other\"")).await;
    send(&client, &cancel("\"w\"")).await;
    send(&client, &call("2", "a")).await;
    let next = requests.next().await.unwrap();
    assert!(waiting.cancel.is_cancelled() && !next.cancel.is_cancelled());
    waiting.reply.error(RpcError::cancelled()).await;
    assert_eq!(receive(&mut client).await["error"]["code"], json!(-32800));
    next.reply.ok(1).await;
    receive(&mut client).await;
    assert_eq!(requests.in_flight(), 0);
    // As a request it says whether there was anything to withdraw.
    send(&client, r#"{"jsonrpc":"2.0","id":5,"method":"$/cancel","params":{"id":2}}"#).await;
    send(&client, r#"{"jsonrpc":"2.0","id":6,"method":"$/cancel"}"#).await;
    send(&client, &call("7", "a")).await;
    requests.next().await.unwrap().reply.ok(1).await;
    assert_eq!(receive(&mut client).await["result"], json!({"ok": false}));
    assert_eq!(receive(&mut client).await["error"]["code"], json!(-32602));
}

/// ARCHITECTURE.md, invariant 15.
#[tokio::test]
async fn one_request_too_many_is_refused_at_once_and_others_go_on() {
    let (mut client, mut requests) = start(RpcLimits { in_flight: 2, ..RpcLimits::default() });
    for id in ["1", "2", "3"] {
        send(&client, &call(id, "a")).await;
    }
    let (first, second) = (requests.next().await.unwrap(), requests.next().await.unwrap());
    let third = tokio::spawn(async move { requests.next().await.map(|request| (request, requests)) });
    let refused = receive(&mut client).await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(-32008)));
    assert_eq!(refused["error"]["data"], json!({"limit": 2}));
    first.reply.ok(1).await;
    assert_eq!(receive(&mut client).await["id"], json!(1));
    send(&client, &call("4", "a")).await;
    let (fourth, requests) = third.await.unwrap().unwrap();
    assert_eq!((fourth.reply.id().unwrap().to_string(), requests.in_flight()), ("4".to_owned(), 2));
    drop((second, fourth));
}

#[tokio::test]
async fn params_are_the_text_that_arrived_and_decode_by_name() {
    let (client, mut requests) = start(RpcLimits::default());
    send(&client, r#"{"jsonrpc":"2.0","id":1,"method":"fs.read","params": {"session_id":"s","path":"f","offset":"x"} }"#).await;
    let request = requests.next().await.unwrap();
    assert_eq!(request.params.text(), Some(r#"{"session_id":"s","path":"f","offset":"x"}"#));
    let error = request.params.decode::<wire::rexd::v1::FsRead>().unwrap_err();
    assert_eq!(error.message, "invalid params: offset: expected integer, got string \"x\"");
}

#[tokio::test]
async fn requests_that_are_too_large_together_are_rejected_and_later_ones_served() {
    let (mut client, mut requests) = start(RpcLimits { in_flight_bytes: 100, ..RpcLimits::default() });
    let large = |id: u32, size: usize| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":{{"x":"{}"}}}}"#, "a".repeat(size))
    };
    send(&client, &large(1, 200)).await;
    let first = requests.next().await.unwrap();
    send(&client, &large(2, 10)).await;
    send(&client, &call("3", "kill")).await;
    let third = requests.next().await.unwrap();
    assert_eq!(third.method, "kill", "what is small passes what is too large");
    let refused = receive(&mut client).await;
    assert_eq!((refused["id"].clone(), refused["error"]["code"].clone()), (json!(2), json!(-32008)));
    drop(first);
    send(&client, &large(4, 60)).await;
    assert_eq!(requests.next().await.unwrap().reply.id().unwrap().to_string(), "4");
}
