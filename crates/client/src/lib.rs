//! The client library: targets, sessions, processes, files.
//!
//! A [`Target`] names where work is to be done; a [`Session`] does it there. A session hides a cut of its link: it
//! reaches the target again, takes up where it was, and whoever reads a process's output sees every byte once. What
//! would be done twice by asking again is not asked again: it fails as [`Error::Ambiguous`].
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
//! | [`target`] | where work is done, and how it is written |
//! | [`session`] | one session, its requests, its recovery |
//! | [`process`] | commands, their output, input and end |
//! | [`files`] | everything about files |
//! | [`approvals`] | what waits for somebody to decide |
//! | [`exec_server`] | Codex's exec-server, by its own names |
//! | [`error`] | what can go wrong, and what is known then |

pub mod approvals;
mod connection;
mod dial;
pub mod error;
pub mod exec_server;
pub mod files;
pub mod options;
pub mod process;
mod queue;
pub mod session;
mod shown;
pub mod target;

pub use approvals::{ApprovalEvent, ApprovalSubscription};
pub use error::{ConnectError, ConnectStep, Error};
pub use files::{FileWatch, Files, WatchEvent};
/// Our own standard streams, read and written without blocking.
pub use link::stdio;
pub use options::{OutputMode, SessionOptions};
pub use process::{
    Command, Process, ProcessControl, ProcessEvent, ProcessEventKind, ProcessExit, TerminalSize,
};
pub use session::Session;
pub use target::Target;
/// The wire's own types: params, results and events.
pub use wire::rexd::v1;

/// Finds the daemon's program as the target `local` does.
pub fn find_rexd() -> Option<std::path::PathBuf> {
    dial::find_rexd()
}

/// The system's ssh with a target's options, for commands of its own: everything up to and including the host.
pub fn ssh_command(ssh: &target::SshTarget, options: &SessionOptions) -> std::process::Command {
    dial::ssh_command(ssh, options)
}

/// Why an ssh of [`ssh_command`] ended: by its status, and by what it said on its standard error.
pub fn ssh_failure(ssh: &target::SshTarget, status: Option<i32>, said: &str) -> ConnectError {
    dial::ssh_failure(ssh, status, said)
}

/// Bytes as the wire carries them where they are no text.
pub fn base64(bytes: &[u8]) -> String {
    wire::base64::encode(bytes)
}
