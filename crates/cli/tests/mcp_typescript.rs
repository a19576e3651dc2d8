//! `rex mcp` with the official TypeScript client.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use mcp::{ASKS, McpWorkspace, PATIENT, STRUCTURED};

/// The client of the versions with `initialize`, and the one of 2026-07-28.
const GENERATIONS: [(&str, &str); 2] = [("GENERATION", "1"), ("GENERATION", "2")];

#[test]
fn every_tool_can_be_listed_and_called() {
    for generation in GENERATIONS {
        McpWorkspace::open().typescript("tools", &[STRUCTURED, generation]);
    }
}

#[test]
fn a_cancelled_command_is_gone_with_everything_it_started() {
    for generation in GENERATIONS {
        McpWorkspace::open().typescript("cancel", &[generation]);
    }
}

#[test]
fn progress_is_told_with_the_last_line() {
    for generation in GENERATIONS {
        McpWorkspace::open().typescript("progress", &[generation]);
    }
}

#[test]
fn fifty_megabytes_are_paged_byte_by_byte() {
    McpWorkspace::open().typescript("pages", &[STRUCTURED, PATIENT]);
}

#[test]
fn a_picture_arrives_as_one() {
    McpWorkspace::open().typescript("image", &[]);
}

#[test]
fn what_policy_asks_is_asked_of_the_person() {
    for generation in GENERATIONS {
        McpWorkspace::with_config(ASKS).typescript("elicit", &[generation]);
    }
}

#[test]
fn over_http_everything_works_with_the_token() {
    for generation in GENERATIONS {
        let place = McpWorkspace::with_config(ASKS);
        let server = place.serve_http(Some("a-token-of-ours"));
        for scenario in ["tools", "cancel", "progress", "image", "elicit"] {
            place.typescript(scenario, &[("URL", &server.url), ("TOKEN", "a-token-of-ours"), generation]);
        }
    }
}

#[test]
fn a_long_command_is_a_task_for_the_official_client_of_tasks() {
    let place = McpWorkspace::open();
    let server = place.serve_http_with(Some("a-token-of-ours"), &[("REX_MCP_WAIT_MS", "100")]);
    let more = [("URL", &*server.url), ("TOKEN", "a-token-of-ours"), ("GENERATION", "2")];
    place.typescript("tasks", &more);
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
