//! `rex mcp` with the official Python client.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use mcp::{ASKS, McpWorkspace, PATIENT, STRUCTURED};

/// A version with `initialize`, and 2026-07-28, which the client selects by itself.
const MODES: [(&str, &str); 2] = [("MODE", "legacy"), ("MODE", "auto")];

#[test]
fn an_agent_receives_text_only_with_the_status_first_and_the_next_call_last() {
    for mode in MODES {
        McpWorkspace::open().python("texts", &[mode]);
    }
}

#[test]
fn every_tool_can_be_listed_and_called() {
    for mode in MODES {
        McpWorkspace::open().python("tools", &[STRUCTURED, mode]);
    }
}

#[test]
fn a_thousand_lines_on_two_streams_keep_their_order_in_every_run() {
    McpWorkspace::open().python("order", &[]);
}

#[test]
fn a_cancelled_command_is_gone_with_everything_it_started() {
    for mode in MODES {
        McpWorkspace::open().python("cancel", &[mode]);
    }
}

#[test]
fn progress_is_told_with_the_last_line() {
    for mode in MODES {
        McpWorkspace::open().python("progress", &[mode]);
    }
}

#[test]
fn fifty_megabytes_are_paged_byte_by_byte_and_searched_without_being_held() {
    McpWorkspace::open().python("pages", &[STRUCTURED, PATIENT]);
}

#[test]
fn a_command_that_takes_long_goes_on_in_the_background_until_the_server_ends() {
    for mode in MODES {
        McpWorkspace::open().python("background", &[("REX_MCP_WAIT_MS", "3000"), STRUCTURED, mode]);
    }
}

#[test]
fn a_detached_job_outlives_its_server_and_is_found_by_the_next() {
    for mode in MODES {
        McpWorkspace::open().python("detach", &[STRUCTURED, mode]);
    }
}

#[test]
fn a_picture_arrives_as_one() {
    McpWorkspace::open().python("image", &[]);
}

#[test]
fn what_policy_asks_is_asked_of_the_person() {
    for mode in MODES {
        McpWorkspace::with_config(ASKS).python("elicit", &[mode]);
    }
}

#[test]
fn over_http_everything_works_with_the_token() {
    for mode in MODES {
        let place = McpWorkspace::with_config(ASKS);
        let server = place.serve_http(Some("a-token-of-ours"));
        for scenario in ["tools", "cancel", "progress", "image", "elicit"] {
            place.python(scenario, &[("URL", &server.url), ("TOKEN", "a-token-of-ours"), mode]);
        }
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
    place.python("switch", &[STRUCTURED]);
}
