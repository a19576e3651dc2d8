//! The client library: targets, sessions, processes, files.
//!
//! A [`Target`] is a machine or daemon; a [`Session`] runs commands and changes files there. After a lost connection the
//! session reconnects and resumes, and the reader of a process's output receives every byte once. A request that could
//! be performed twice is not sent again: it fails as [`Error::Ambiguous`].
//!
//! ```no_run
//! # async fn example() -> Result<(), client::Error> {
//! use client::{Command, ProcessEventKind, Session, SessionOptions, Target};
//!
//! let session = Session::open("ssh:build-host".parse().unwrap_or_else(|_| Target::local()), SessionOptions::default()).await?;
//! let mut process = session.start(Command::argv(["cargo", "test"]).cwd("/srv/app")).await?;
//! while let Some(event) = process.next().await? {
//!     match event.kind {
//!         ProcessEventKind::Stdout(bytes) | ProcessEventKind::Stderr(bytes) | ProcessEventKind::Terminal(bytes) => print!("{}", String::from_utf8_lossy(&bytes)),
//!         ProcessEventKind::Exit(exit) => println!("ended with {}", exit.status()),
//!         ProcessEventKind::Lost(lost) => eprintln!("{lost}"),
//!         ProcessEventKind::Error(error) => eprintln!("{error}"),
//!     }
//! }
//! session.close().await
//! # }
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`target`] | targets and their text form |
//! | [`session`] | one session: requests and recovery |
//! | [`process`] | commands, their events and control |
//! | [`files`] | file operations and watches |
//! | [`approvals`] | approval requests and answers |
//! | [`exec_server`] | a client of the exec-server protocol |
//! | [`hub`] | a client of a hub: hosts, runs, approvals |
//! | [`stringd`] | a client of the stringd protocol |
//! | [`error`] | errors, by the failed operation |

mod acknowledge;
pub mod approvals;
mod connection;
mod dial;
pub mod error;
pub mod exec_server;
pub mod files;
pub mod hub;
pub mod options;
pub mod process;
mod queue;
mod redact;
pub mod session;
pub mod stringd;
pub mod target;

pub use approvals::{ApprovalEvent, ApprovalSubscription};
pub use dial::SharedConnection;
pub use error::{ConnectError, ConnectStep, Disconnect, Error, SessionLoss};
pub use files::{FileWatch, Files, WatchEvent, is_file_name};
/// The standard streams of this program, read and written without blocking.
pub use link::stdio;
pub use options::{KeepAlive, OutputMode, SessionOptions};
pub use process::{
    Command, Process, ProcessControl, ProcessEvent, ProcessEventKind, ProcessExit, TerminalSize,
};
pub use session::{ConnectionState, Session, StartingProcess, TargetConnection};
pub use target::Target;
/// The wire types: params, results and events.
pub use wire::rexd::v1;

/// Finds the program `rexd` as the target `local` does.
pub fn find_rexd() -> Option<std::path::PathBuf> {
    dial::find_rexd()
}

/// The `rexhub` next to this program, or on the PATH.
pub fn find_rexhub() -> Option<std::path::PathBuf> {
    dial::find_rexhub()
}

/// The system's ssh with the options of a target, up to and including the host.
pub fn ssh_command(ssh: &target::SshTarget, options: &SessionOptions) -> std::process::Command {
    dial::ssh_command(ssh, options)
}

/// Closes the connection that the commands on an ssh target share.
pub async fn close_shared(ssh: &target::SshTarget) -> std::io::Result<SharedConnection> {
    dial::close_shared(ssh).await
}

/// Closes every connection that commands on ssh targets share; returns how many were open.
pub async fn close_all_shared() -> std::io::Result<usize> {
    dial::close_all_shared().await
}

/// Explains the end of an [`ssh_command`] from its exit status and standard error.
pub fn ssh_failure(ssh: &target::SshTarget, status: Option<i32>, stderr: &str) -> ConnectError {
    dial::ssh_failure(ssh, status, stderr)
}

/// Decodes base64, as the wire encodes bytes that are not text.
pub fn decode_base64(text: &str) -> Result<Vec<u8>, wire::base64::InvalidBase64> {
    wire::base64::decode(text)
}

/// Encodes bytes as base64, as the wire does for bytes that are not text.
pub fn base64(bytes: &[u8]) -> String {
    wire::base64::encode(bytes)
}
