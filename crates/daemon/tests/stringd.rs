//! The stringd face of a real daemon: routes, queue, bash topics, the operator's configuration, starts and ends, and a client in Node.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed step ends the test")]

#[path = "stringd/approvals.rs"]
mod approvals;
#[path = "stringd/bash.rs"]
mod bash;
#[path = "stringd/closing.rs"]
mod closing;
#[path = "stringd/crash.rs"]
mod crash;
#[path = "stringd/node.rs"]
mod node;
#[path = "stringd/operator.rs"]
mod operator;
#[path = "stringd/queue.rs"]
mod queue;
#[path = "stringd/requests.rs"]
mod requests;
#[path = "stringd/routes.rs"]
mod routes;
#[path = "stringd/shell_settings.rs"]
mod shell_settings;
#[path = "stringd/starts.rs"]
mod starts;
#[path = "stringd/support.rs"]
mod support;
#[path = "stringd/transcripts.rs"]
mod transcripts;
#[path = "stringd_documents/web.rs"]
mod web;
