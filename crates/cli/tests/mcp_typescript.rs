//! `rex mcp` with the official TypeScript client.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use mcp::{ASKS, McpWorkspace, STRUCTURED};

#[test]
fn every_tool_can_be_listed_and_called() {
    McpWorkspace::open().typescript("tools", &[STRUCTURED]);
}

#[test]
fn a_cancelled_command_is_gone_with_everything_it_started() {
    McpWorkspace::open().typescript("cancel", &[]);
}

#[test]
fn progress_is_told_with_the_last_line() {
    McpWorkspace::open().typescript("progress", &[]);
}

#[test]
fn fifty_megabytes_are_paged_byte_by_byte() {
    McpWorkspace::open().typescript("pages", &[STRUCTURED]);
}

#[test]
fn a_picture_arrives_as_one() {
    McpWorkspace::open().typescript("image", &[]);
}

#[test]
fn what_policy_asks_is_asked_of_the_person() {
    McpWorkspace::with_config(ASKS).typescript("elicit", &[]);
}

#[test]
fn over_http_everything_works_with_the_token() {
    let place = McpWorkspace::with_config(ASKS);
    let server = place.serve_http(Some("a-token-of-ours"));
    for scenario in ["tools", "cancel", "progress", "image", "elicit"] {
        place.typescript(scenario, &[("URL", &server.url), ("TOKEN", "a-token-of-ours")]);
    }
}

#[test]
fn a_running_server_follows_the_target_that_is_used() {
    let place = McpWorkspace::open();
    let daemons = ["one", "two"].map(|name| (name, place.serve_unix(name)));
    for (name, daemon) in &daemons {
        let (status, _, errors) =
            place.rex(&["target", "add", name, &format!("unix:{}", daemon.socket.display())]);
        assert_eq!(status, 0, "{errors}");
    }
    place.typescript("switch", &[STRUCTURED]);
}
