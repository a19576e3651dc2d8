//! A client of the exec-server protocol of Codex, over any link.
//!
//! One task owns the link; [`ExecServerClient`] is a handle to it. After a lost WebSocket connection the client
//! reconnects and resumes the session, and the reader of an [`ExecServerProcess`] receives each event once and in order.
//! A request that could be performed twice is not sent again: it fails as [`ExecServerError::Ambiguous`].
//!
//! ```no_run
//! # async fn example() -> Result<(), client::exec_server::ExecServerError> {
//! use client::exec_server::{ExecServerClient, ExecServerEvent, RemoteExecServerConnectArgs, v1::ExecParams};
//!
//! let args = RemoteExecServerConnectArgs::new("ws://127.0.0.1:7000", "example");
//! let client = ExecServerClient::connect_websocket(args).await?;
//! let mut process = client
//!     .start(ExecParams {
//!         process_id: "p-1".to_owned(),
//!         argv: vec!["uname".to_owned()],
//!         cwd: "file:///".to_owned(),
//!         ..ExecParams::default()
//!     })
//!     .await?;
//! while let Some(event) = process.next().await? {
//!     if let ExecServerEvent::Output { bytes, .. } = event {
//!         print!("{}", String::from_utf8_lossy(&bytes));
//!     }
//! }
//! client.close().await
//! # }
//! ```

pub(crate) mod bridge;
mod calls;
mod calls_v0;
mod connect;
mod driver;
mod error;
mod handle;
mod handshake;
mod listeners;
mod message;
mod options;
pub(crate) mod path_uri;
mod process;
mod recover;
mod routes;
mod sequencer;

pub use crate::dial::exec_server_limits;
pub(crate) use connect::ExecServerAddress;
pub use error::{ExecServerError, ExecServerLoss, MissedCause};
pub use handle::{ExecServerClient, Notification, Notifications};
pub use options::{ExecServerClientConnectOptions, RemoteExecServerConnectArgs};
pub use process::{ExecServerEvent, ExecServerProcess};
/// The wire types of the protocol.
pub use wire::exec_server::{ByteChunk, ErrorObject, code, http, v0, v1};
