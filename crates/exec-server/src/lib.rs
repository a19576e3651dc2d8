//! Codex's exec-server as a library: its client, its server and its protocol, by the names of its documents.
//!
//! | you want to | use |
//! |---|---|
//! | speak to a server over streams that you have | [`ExecServerClient::connect_stdio`] |
//! | speak to one that listens | [`ExecServerClient::connect_websocket`] |
//! | speak to one behind a rendezvous | [`ExecServerClient::connect_relay`] |
//! | start one as a child and speak to it | [`spawn_local_exec_server`] |
//! | be one | [`run_main`], [`run_main_with_transport`] |
//! | be one that registers at a hub | [`run_remote_executor`] |
//!
//! The types of v1 are at the root, under the names they have in the protocol; those of v0 are in [`v0`]. Each row has a
//! program in `examples/`.

mod serve;
mod spawn;

pub use client::exec_server::{
    ByteChunk, ErrorObject, ExecServerClient, ExecServerClientConnectOptions, ExecServerError,
    ExecServerEvent, ExecServerProcess, Notification, Notifications, RemoteExecServerConnectArgs, code,
};
pub use client::exec_server::{http::*, v0, v1::*};
pub use daemon::faces::exec_server::listen::{
    DEFAULT_LISTEN_URL, ExecServerListenUrlParseError, ExecServerTransport,
};
pub use daemon::faces::exec_server::relay::{RemoteExecutorConfig, RemoteExecutorError};
pub use serve::{ExecServerRuntimePaths, run_main, run_main_with_transport, run_remote_executor};
pub use spawn::{ExecServerLaunchCommand, SpawnedExecServer, spawn_local_exec_server};
