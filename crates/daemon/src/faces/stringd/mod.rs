//! stringd: commands of String agents on documents, apps, web pages and shells, over HTTP on loopback.
//!
//! | file | contents |
//! |---|---|
//! | `http.rs`, `routes.rs`, `exec.rs`, `response.rs` | the routes, their order of checks, and the three events of a command |
//! | `users.rs`, `topics.rs` | registered users, open topics and the queue of each |
//! | `commands/` | what a command runs with, bash topics and `/session` |
//! | `documents/` | commands of file, app and web topics |
//! | `table.rs`, `methods/`, `session.rs`, `errors.rs` | what commands do to files, programs and web servers |
//! | `convert.rs` | topics, labels and texts of requests |

pub mod commands;
mod convert;
pub mod documents;
mod errors;
mod events;
mod exec;
mod http;
mod log;
mod methods;
pub mod response;
mod routes;
mod session;
mod table;
mod topics;
mod users;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::Roots;
use engine::process::ProcessId;
use link::rpc::Params;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::RpcError;

pub use convert::{TopicName, TopicType};
pub use errors::OperationError;
pub use http::server;
pub use log::StringdLog;
pub use table::TABLE;
pub use topics::QueueLimits;

use crate::core::Core;
use crate::core::session::{Face, Retention, SessionRegistry};
use crate::core::table::Method;
use session::Session;
use topics::{StoreLocks, Topics};
use users::Users;

/// Which paths commands reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AccessMode {
    /// Everything that the roots allow.
    #[default]
    Full,
    /// The user's home and its allowed paths, within the roots.
    Workspace,
}

/// What the face is made from.
#[derive(Debug)]
pub struct StringdSettings {
    /// The directory of `users.json` and of the log.
    pub data_dir: PathBuf,
    /// Which paths commands reach.
    pub access: AccessMode,
    /// The queue of each topic.
    pub queue: QueueLimits,
    /// The longest time that a program of a command runs.
    pub command_timeout: Duration,
    /// The home of the OS user.
    pub daemon_home: Option<PathBuf>,
    /// The protocol's own log, if it is on.
    pub log: Option<StringdLog>,
}

/// The face over one core.
#[derive(Debug)]
pub struct Stringd {
    core: Arc<Core>,
    settings: StringdSettings,
    sessions: SessionRegistry<Stringd>,
    /// The configured roots, or `/` without any.
    roots: Roots,
    users: Users,
    topics: Topics,
    stores: StoreLocks,
    /// Ends this face and not the others.
    stop: CancellationToken,
}

impl Stringd {
    /// The face. Creates its data directory and reads its users. Blocks.
    pub fn new(core: Arc<Core>, settings: StringdSettings) -> std::io::Result<Arc<Stringd>> {
        let users = Users::load(&settings.data_dir, core.durability)?;
        let roots = match core.roots.is_empty() {
            true => Roots::new(vec![PathBuf::from("/")]),
            false => core.roots.clone(),
        };
        Ok(Arc::new(Stringd {
            stop: core.stop.child_token(),
            sessions: SessionRegistry::new(Retention::default()),
            topics: Topics::default(),
            stores: StoreLocks::default(),
            core,
            settings,
            roots,
            users,
        }))
    }

    /// How many users were registered before, and in which file, for the message at the start.
    pub fn loaded_users(&self) -> (usize, &std::path::Path) {
        (self.users.len(), self.users.file())
    }

    /// Writes to the protocol's log that the face listens.
    pub fn log_start(&self, port: u16) {
        self.log("server.start", &[("port", &port.to_string())]);
    }

    /// Cancelled when this face ends, by `/shutdown` or with the daemon.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Ends every topic of the face and waits for their processes.
    pub async fn end(&self) {
        self.stop.cancel();
        self.log("server.stop", &[]);
        self.topics.clear();
        self.sessions.wait_empty().await;
    }

    fn log(&self, event: &str, fields: &[(&str, &str)]) {
        if let Some(log) = &self.settings.log {
            log.write(event, fields);
        }
    }
}

/// What this face keeps per session.
#[derive(Debug, Default)]
pub struct TopicProcesses {}

impl Face for Stringd {
    const NAME: &'static str = "stringd";
    const IDENTITY_PARAMS: &'static [&'static str] = &[];
    type State = TopicProcesses;
    /// No request is for the connection.
    type ConnectionCall = std::convert::Infallible;
    type Events = events::NoEvents;

    fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn sessions(&self) -> &SessionRegistry<Stringd> {
        &self.sessions
    }

    fn table() -> &'static [&'static dyn Method<Stringd>] {
        TABLE
    }

    fn decode<P: DeserializeOwned>(params: &Params) -> Result<P, RpcError> {
        params.decode()
    }

    fn error(error: engine::Error) -> RpcError {
        errors::rpc_error(error)
    }

    fn session_closed(_id: &str) -> RpcError {
        RpcError::invalid_request("the session was deleted")
    }

    fn process_closed(_session: &mut Session, _process: &ProcessId) {}
}
