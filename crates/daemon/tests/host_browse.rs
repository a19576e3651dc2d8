//! What the web app reads beyond text: bytes of files in pieces, and directories in which a run may start.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod host_support;

use host_support::{HubConnection, Stored, rpc, with_ended_run};
use serde_json::{Value, json};
use testkit::sandbox::Sandbox;

#[tokio::test]
async fn bytes_are_read_in_pieces_and_directories_are_listed_within_the_roots() {
    let sandbox = Sandbox::new();
    let bytes: Vec<u8> = (0..1_500_000_u32).map(|index| (index % 251) as u8).collect();
    sandbox.write("root/picture.png", &bytes);
    sandbox.write("root/sub/inner/x.txt", "x");
    let (_host, _hub, mut connection, mut stored, run) = with_ended_run(&sandbox).await;
    let (connection, stored) = (&mut connection, &mut stored);
    let mut read = Vec::new();
    loop {
        let data = json!({"path": "picture.png", "encoding": "base64", "offset": read.len()});
        let piece = rpc(connection, stored, &run, "rpc.fs.read", data).await;
        read.extend(wire::base64::decode(piece["result"]["content"].as_str().unwrap()).unwrap());
        if piece["result"]["truncated"] == false {
            break;
        }
    }
    assert!(read == bytes, "{} bytes", read.len());
    let data = json!({"path": "picture.png", "encoding": "latin1"});
    let refused = rpc(connection, stored, &run, "rpc.fs.read", data).await;
    assert_eq!(refused["error"], "encoding must be utf8 or base64");

    let root = sandbox.root().to_str().unwrap().to_owned();
    let list = async |connection: &mut HubConnection, stored: &mut Stored, path: Value| {
        rpc(connection, stored, &run, "rpc.host.directories", json!({"host_id": "any", "path": path})).await
    };
    let roots = list(connection, stored, Value::Null).await;
    assert_eq!(roots["result"], json!({"directories": [root], "truncated": false}), "{roots}");
    let below = list(connection, stored, json!(root)).await;
    assert_eq!(below["result"]["directories"], json!([format!("{root}/sub")]), "{below}");
    for outside in [json!("/"), json!(sandbox.outside().to_str().unwrap()), json!(format!("{root}/.."))] {
        let refused = list(connection, stored, outside.clone()).await;
        assert!(refused["error"].is_string(), "{outside}: {refused}");
    }
    let relative = list(connection, stored, json!("sub")).await;
    assert_eq!(relative["error"], "path must be absolute");
}
