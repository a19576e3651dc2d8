//! A client in Node, written from the description of the public one, drives the whole flow.

use std::process::Command;

use testkit::sandbox::Sandbox;

use crate::support::start;

#[test]
fn a_node_client_with_chunked_bodies_on_one_connection_drives_the_daemon() {
    let sandbox = Sandbox::new();
    let mut served = start(&sandbox);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stringd/client.mjs");
    let output = Command::new("node")
        .args([script, &served.address.port().to_string()])
        .arg(sandbox.root())
        .output()
        .expect("node");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().last(), Some("ok: 1 connection"), "{text}");
    assert!(served.wait().success());
}
