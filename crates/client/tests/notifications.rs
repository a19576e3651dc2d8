//! Notifications that belong to no process are received, or reported as missing.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod scripted;

use std::time::Duration;

use client::exec_server::{ExecServerClient, ExecServerError, ExecServerEvent, v0};
use scripted::{connected, line, settled};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, DuplexStream};

/// Chunks that together exceed the limit of a queue.
const CHUNKS: u64 = 100;
/// Bytes of one chunk.
const CHUNK_BYTES: usize = 1 << 20;

fn chunk(number: u64) -> Vec<u8> {
    let text = "x".repeat(CHUNK_BYTES);
    line(
        &json!({"method": "http/request/bodyDelta", "params": {"requestId": "r", "seq": number, "text": text}}),
    )
}

type Numbers = tokio::sync::mpsc::UnboundedReceiver<Result<u64, ExecServerError>>;

/// Sends all chunks as fast as they are read.
fn send_all(mut to_client: DuplexStream) -> tokio::task::JoinHandle<DuplexStream> {
    tokio::spawn(async move {
        for number in 0..CHUNKS {
            to_client.write_all(&chunk(number)).await.unwrap();
        }
        to_client
    })
}

async fn numbers(client: &ExecServerClient) -> Numbers {
    let mut notifications = client.notifications().await.unwrap();
    let (sender, received) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        // Long enough for the server to have sent what it can.
        settled().await;
        loop {
            let number = match notifications.next().await {
                Ok(None) => return,
                Ok(Some(notification)) => {
                    let params: Value = serde_json::from_slice(&notification.params).unwrap();
                    Ok(params["seq"].as_u64().unwrap())
                }
                Err(error) => Err(error),
            };
            sender.send(number).unwrap();
        }
    });
    received
}

async fn next(numbers: &mut Numbers) -> Result<u64, ExecServerError> {
    tokio::time::timeout(Duration::from_secs(60), numbers.recv())
        .await
        .expect("another notification")
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_slows_the_server_and_receives_everything() {
    let (client, _from_client, to_client) = connected().await;
    let mut received = numbers(&client).await;
    let _to_client = send_all(to_client);
    for number in 0..CHUNKS {
        assert_eq!(next(&mut received).await.unwrap(), number);
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_over_its_limit_receives_where_notifications_are_missing() {
    let (client, _from_client, to_client) = connected().await;
    let mut received = numbers(&client).await;
    // A request is pending, so the connection is read on.
    let requester = client.clone();
    let pending = tokio::spawn(async move { requester.environment_status().await });
    tokio::task::yield_now().await;
    let mut to_client = send_all(to_client).await.unwrap();
    let (mut expected, mut is_missing) = (0, false);
    while !is_missing {
        match next(&mut received).await {
            Ok(number) => assert_eq!(number, expected, "nothing is missing before the report"),
            Err(error) => {
                assert!(matches!(error, ExecServerError::Missed(_)), "{error}");
                is_missing = true;
            }
        }
        expected += 1;
    }
    assert!(expected < CHUNKS, "all chunks were kept");
    to_client.write_all(&chunk(CHUNKS)).await.unwrap();
    assert_eq!(next(&mut received).await.unwrap(), CHUNKS, "later notifications are received");
    pending.abort();
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_of_a_v0_command_slows_the_server_and_reads_everything() {
    let (client, _from_client, mut to_client) = connected().await;
    let params = json!({"processId": "p", "argv": ["x"], "cwd": "/", "env": {}, "tty": false});
    let params: v0::ExecParams = serde_json::from_value(params).unwrap();
    let starting = tokio::spawn(async move { client.command_start(params).await });
    tokio::task::yield_now().await;
    to_client
        .write_all(&line(&json!({"id": 2, "result": {"processId": "p", "running": true}})))
        .await
        .unwrap();
    let mut process = starting.await.unwrap().unwrap();
    let chunk = "eHh4".repeat(CHUNK_BYTES / 4);
    let sending = tokio::spawn(async move {
        let delta = json!({"processId": "p", "stream": "stdout", "chunk": chunk});
        let message = line(&json!({"method": v0::method::OUTPUT_DELTA, "params": delta}));
        for _ in 0..CHUNKS {
            to_client.write_all(&message).await.unwrap();
        }
        to_client
    });
    settled().await;
    for number in 0..CHUNKS {
        match process.next().await.unwrap().unwrap() {
            ExecServerEvent::Output { bytes, .. } => assert_eq!(bytes.len(), CHUNK_BYTES / 4 * 3),
            other => panic!("{other:?} after {number} chunks"),
        }
    }
    sending.abort();
}
