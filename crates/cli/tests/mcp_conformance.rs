//! `rex mcp --http` and the official conformance suite: exactly the scenarios that do not apply fail.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod mcp;

use mcp::McpWorkspace;

fn conforms_to(revision: &str) {
    let place = McpWorkspace::open();
    let server = place.serve_http(Some("a-token-of-ours"));
    place.conformance(revision, &[("URL", &server.url), ("TOKEN", "a-token-of-ours")]);
}

#[test]
fn requests_with_a_session_conform_to_the_version_with_initialize() {
    conforms_to("2025-11-25");
}

#[test]
fn requests_without_a_session_conform_to_the_version_without_it() {
    conforms_to("2026-07-28");
}
