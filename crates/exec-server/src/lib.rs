//! The exec-server of Codex as a library: client, server and protocol, with the names of its documents.
//!
//! | you want to | use |
//! |---|---|
//! | connect to a server over existing streams | [`ExecServerClient::connect_stdio`] |
//! | connect to a listening server | [`ExecServerClient::connect_websocket`] |
//! | connect to a server behind a rendezvous | [`ExecServerClient::connect_relay`] |
//! | start a server as a child process and connect to it | [`spawn_local_exec_server`] |
//! | serve | [`run_main`], [`run_main_with_transport`] |
//! | serve as an executor that registers at a hub | [`run_remote_executor`] |
//!
//! The types of v1 are at the root, with their names in the protocol; those of v0 are in [`v0`]. Each row has an example
//! program in `examples/`.

mod serve;
mod spawn;

pub use client::exec_server::{
    ByteChunk, ErrorObject, ExecServerClient, ExecServerClientConnectOptions, ExecServerError,
    ExecServerEvent, ExecServerLoss, ExecServerProcess, MissedCause, Notification, Notifications,
    RemoteExecServerConnectArgs, code,
};
pub use client::exec_server::{http::*, v0, v1::*};
pub use daemon::faces::exec_server::listen::{
    DEFAULT_LISTEN_URL, ExecServerListenUrlParseError, ExecServerTransport,
};
pub use daemon::faces::exec_server::relay::{RemoteExecutorConfig, RemoteExecutorError};
pub use serve::{ExecServerRuntimePaths, run_main, run_main_with_transport, run_remote_executor};
pub use spawn::{ExecServerLaunchCommand, SpawnedExecServer, spawn_local_exec_server};
