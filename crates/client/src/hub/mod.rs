//! A client of a hub: its HTTP API, and the WebSocket on which it reports what happens on its hosts.
//!
//! [`HubClient`] sends single requests. [`HubConnection`] receives events and sends commands; it reconnects by itself and
//! reports that it did, so that its caller subscribes again where the events ended.

mod api;
mod approvals;
mod connection;
mod error;
mod rows;
mod run_events;
mod sign_in;

pub use api::{HubClient, path_segment};
pub use approvals::{ApprovalDecision, ApprovalRow, approvals_path};
pub use connection::{HubConnection, HubEvent};
pub use error::HubError;
pub use rows::{HostRow, RunRow};
pub use run_events::{RunEvent, RunEvents};
pub use sign_in::SignIn;
/// The messages of hosts, hub and apps.
pub use wire::hub::v1;
