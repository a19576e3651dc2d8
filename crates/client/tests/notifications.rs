//! What an exec-server says that belongs to no process: it is heard, or it is said that it is missing.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod scripted;

use std::time::Duration;

use client::exec_server::{ExecServerClient, ExecServerError, ExecServerEvent, v0};
use scripted::{greeted, line, settled};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, DuplexStream};

/// Pieces that are together more than is kept for anybody.
const PIECES: u64 = 100;
/// Bytes of a piece.
const PIECE: usize = 1 << 20;

fn piece(number: u64) -> Vec<u8> {
    let text = "x".repeat(PIECE);
    line(
        &json!({"method": "http/request/bodyDelta", "params": {"requestId": "r", "seq": number, "text": text}}),
    )
}

type Told = tokio::sync::mpsc::UnboundedReceiver<Result<u64, ExecServerError>>;

/// Says it all, as fast as it is taken.
fn say(mut to_client: DuplexStream) -> tokio::task::JoinHandle<DuplexStream> {
    tokio::spawn(async move {
        for number in 0..PIECES {
            to_client.write_all(&piece(number)).await.unwrap();
        }
        to_client
    })
}

async fn numbers(client: &ExecServerClient) -> Told {
    let mut heard = client.notifications().await.unwrap();
    let (tell, told) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        // Long enough for the server to have said what it can.
        settled().await;
        loop {
            let number = match heard.next().await {
                Ok(None) => return,
                Ok(Some(notification)) => {
                    let params: Value = serde_json::from_slice(&notification.params).unwrap();
                    Ok(params["seq"].as_u64().unwrap())
                }
                Err(error) => Err(error),
            };
            tell.send(number).unwrap();
        }
    });
    told
}

async fn next(told: &mut Told) -> Result<u64, ExecServerError> {
    tokio::time::timeout(Duration::from_secs(60), told.recv()).await.expect("it hears more").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_slow_listener_holds_the_server_back_and_hears_everything() {
    let (client, _from_client, to_client) = greeted().await;
    let mut told = numbers(&client).await;
    let _to_client = say(to_client);
    for number in 0..PIECES {
        assert_eq!(next(&mut told).await.unwrap(), number);
    }
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_is_too_far_behind_hears_where_something_is_missing() {
    let (client, _from_client, to_client) = greeted().await;
    let mut told = numbers(&client).await;
    // Somebody waits for an answer, so the link is read on.
    let asker = client.clone();
    let asking = tokio::spawn(async move { asker.environment_status().await });
    tokio::task::yield_now().await;
    let mut to_client = say(to_client).await.unwrap();
    let (mut expected, mut is_missing) = (0, false);
    while !is_missing {
        match next(&mut told).await {
            Ok(number) => assert_eq!(number, expected, "nothing is missing before it is said"),
            Err(error) => {
                assert!(matches!(error, ExecServerError::Missed(_)), "{error}");
                is_missing = true;
            }
        }
        expected += 1;
    }
    assert!(expected < PIECES, "all of it was kept");
    to_client.write_all(&piece(PIECES)).await.unwrap();
    assert_eq!(next(&mut told).await.unwrap(), PIECES, "what comes later is heard");
    asking.abort();
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_of_a_command_of_v0_holds_the_server_back_and_reads_everything() {
    let (client, _from_client, mut to_client) = greeted().await;
    let params = json!({"processId": "p", "argv": ["x"], "cwd": "/", "env": {}, "tty": false});
    let params: v0::ExecParams = serde_json::from_value(params).unwrap();
    let starting = tokio::spawn(async move { client.command_start(params).await });
    tokio::task::yield_now().await;
    to_client
        .write_all(&line(&json!({"id": 2, "result": {"processId": "p", "running": true}})))
        .await
        .unwrap();
    let mut process = starting.await.unwrap().unwrap();
    let chunk = "eHh4".repeat(PIECE / 4);
    let saying = tokio::spawn(async move {
        let delta = json!({"processId": "p", "stream": "stdout", "chunk": chunk});
        let message = line(&json!({"method": v0::method::OUTPUT_DELTA, "params": delta}));
        for _ in 0..PIECES {
            to_client.write_all(&message).await.unwrap();
        }
        to_client
    });
    settled().await;
    for number in 0..PIECES {
        match process.next().await.unwrap().unwrap() {
            ExecServerEvent::Output { bytes, .. } => assert_eq!(bytes.len(), PIECE / 4 * 3),
            other => panic!("{other:?} after {number} pieces"),
        }
    }
    saying.abort();
}
