//! Real Codex clients of two releases, with a scripted model, over a WebSocket and over standard streams.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod codex;

use codex::script::{ENDED, every_tool, every_tool_answered, prepare, run};
use codex::{CarrierKind, Conversation, Place, Release, Server, Serving};
use serde_json::json;

/// One client plays all tools over a WebSocket.
fn over_a_websocket(client: Release) {
    let place = Place::new();
    prepare(&place);
    let serving = Serving::start(&place, Server::under_test(client));
    let way = CarrierKind::Url(serving.url.clone());
    let model =
        Conversation { place: &place, client, way, sandbox: "danger-full-access" }.hold(every_tool(client));
    every_tool_answered(&model, &place, Server::under_test(client), client);
    serving.stop();
    place.nothing_is_left();
}

/// One client plays all tools with a server that it starts itself.
fn over_standard_streams(client: Release) {
    let place = Place::new();
    prepare(&place);
    let way = CarrierKind::Stdio(Server::under_test(client));
    let model =
        Conversation { place: &place, client, way, sandbox: "danger-full-access" }.hold(every_tool(client));
    every_tool_answered(&model, &place, Server::under_test(client), client);
    place.nothing_is_left();
}

#[test]
fn codex_0_131_uses_every_tool_over_a_websocket() {
    over_a_websocket(Release::V0_131);
}

#[test]
fn codex_0_166_uses_every_tool_over_a_websocket() {
    over_a_websocket(Release::V0_166);
}

#[test]
fn codex_0_131_uses_every_tool_over_standard_streams() {
    over_standard_streams(Release::V0_131);
}

#[test]
fn codex_0_166_uses_every_tool_over_standard_streams() {
    over_standard_streams(Release::V0_166);
}

/// Commands that write inside and outside of the directory the client works in, in one of its sandboxes.
fn shut_in(sandbox: &str) -> (Place, testkit::model::Model) {
    let place = Place::new();
    prepare(&place);
    let serving = Serving::start(&place, Server::under_test(Release::V0_166));
    // Codex lets commands write below /tmp, and a checkout may lie there.
    let elsewhere = tempfile::tempdir_in("/var/tmp").expect("a directory that is not below /tmp");
    let outside = elsewhere.path().join("written.txt");
    let script = vec![
        run("reads", "cat AGENTS.md", json!({})).until(ENDED),
        run("inside", "echo in >inside.txt; echo \"status $?\"", json!({})).until(ENDED),
        run("outside", &format!("echo out >{}; echo \"status $?\"", outside.display()), json!({}))
            .until(ENDED),
        run(
            "patch",
            "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: patched.txt\n+p\n*** End Patch\nEOF",
            json!({}),
        ),
    ];
    let script = script.into_iter().map(|call| vec![call]).collect();
    let way = CarrierKind::Url(serving.url.clone());
    let model = Conversation { place: &place, client: Release::V0_166, way, sandbox }.hold(script);
    assert!(model.output("reads").contains("MARKER-agents"), "{}", model.output("reads"));
    assert!(!outside.exists(), "written outside: {}", model.output("outside"));
    assert!(model.output("outside").contains("status 1"), "{}", model.output("outside"));
    serving.stop();
    place.nothing_is_left();
    (place, model)
}

#[test]
fn codex_0_166_may_write_nothing_where_it_may_only_read() {
    let (place, model) = shut_in("read-only");
    assert!(model.output("inside").contains("status 1"), "{}", model.output("inside"));
    assert!(!place.path("work/inside.txt").exists() && !place.path("work/patched.txt").exists());
    assert!(!model.output("patch").contains("Success"), "{}", model.output("patch"));
}

#[test]
fn codex_0_166_may_write_where_it_works_and_nowhere_else() {
    let (place, model) = shut_in("workspace-write");
    assert!(model.output("inside").contains("status 0"), "{}", model.output("inside"));
    assert_eq!(place.read("work/inside.txt"), "in\n");
    assert!(model.output("patch").contains("Success"), "{}", model.output("patch"));
    assert_eq!(place.read("work/patched.txt"), "p\n");
}
