//! The host: dials out to hubs, runs commands for their users, and sends numbered events that survive every restart.
//!
//! | file | contents |
//! |---|---|
//! | `table.rs`, `convert.rs`, `methods/`, `errors.rs` | commands and `rpc.*` requests of hub users |
//! | `journal.rs`, `run.rs`, `runs.rs`, `output.rs` | runs, and their events on disk |
//! | `input.rs`, `screen.rs`, `prompts.rs` | what is typed, what the terminal shows, and what it asks |
//! | `uplink.rs`, `connection.rs`, `sender.rs` | the connection to each hub |
//! | `relay.rs` | REXD through a hub |
//! | `local.rs` | the API on a unix socket |
//! | `calls.rs`, `gated.rs`, `pending.rs` | requests by their ids: each runs once |
//! | `questions.rs`, `sharing.rs` | approvals, and what other faces of this daemon do |
//! | `session.rs` | the session of each run |

mod calls;
mod connection;
mod convert;
mod errors;
mod events;
mod gated;
mod identity;
mod input;
pub mod journal;
mod local;
mod log_tail;
mod methods;
mod output;
mod pending;
mod prompts;
mod questions;
mod recent;
mod redaction;
mod relay;
mod run;
mod runs;
mod screen;
mod sender;
mod session;
mod sharing;
mod table;
mod tools;
mod uplink;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use engine::process::ProcessId;
use link::rpc::Params;
use serde::de::DeserializeOwned;
use wire::jsonrpc::RpcError;

use crate::core::Core;
use crate::core::session::{Face, Retention, SessionRegistry};
use crate::core::table::Method;
use crate::net::listen::UnixSocket;
use calls::Calls;
use gated::GatedCalls;
pub use identity::{HostIdentity, IdentityError};
use pending::PendingDir;
use questions::Questions;
pub use redaction::Redaction;
pub use relay::ServeStream;
use runs::{ChangeSignal, RunContext, Runs};
use session::{HostState, RunSessions, Session};
pub use table::TABLE;
pub use tools::ToolPaths;
pub use uplink::{HubUrl, HubUrlError};

/// What a host is made from.
#[derive(Debug)]
pub struct HostSettings {
    /// Its id and token.
    pub identity: HostIdentity,
    /// The hubs that it connects to.
    pub hubs: Vec<HubUrl>,
    /// The code with which it enrols.
    pub join_code: Option<crate::net::auth::Secret>,
    /// The directory of its journals.
    pub journals: PathBuf,
    /// Bytes of one journal.
    pub journal_bytes: u64,
    /// The socket of its local API.
    pub socket: Option<PathBuf>,
    /// Its log file.
    pub log: Option<PathBuf>,
    /// Where tools are.
    pub tools: ToolPaths,
    /// What is removed from stored texts.
    pub redaction: Redaction,
    /// Whether processes and questions of other faces are shared.
    pub shares_all: bool,
    /// How long the prompt of a program waits for a decision before it is denied; `None` for ever.
    pub prompt_timeout: Option<std::time::Duration>,
}

/// The host over one core.
#[derive(Debug)]
pub struct Host {
    core: Arc<Core>,
    settings: HostSettings,
    sessions: SessionRegistry<Host>,
    run_sessions: RunSessions,
    redaction: Arc<Redaction>,
    runs: Runs,
    calls: Calls,
    gated: GatedCalls,
    questions: Questions,
}

impl Host {
    /// The face. Creates the directory of its journals.
    pub fn new(core: Arc<Core>, mut settings: HostSettings) -> io::Result<Arc<Host>> {
        let redaction = Arc::new(std::mem::take(&mut settings.redaction));
        let hubs = settings.hubs.iter().map(|hub| hub.key().to_owned()).collect();
        let context = RunContext {
            changed: ChangeSignal::default(),
            redaction: redaction.clone(),
            keepers: core.keepers.clone(),
            prompt_timeout: settings.prompt_timeout,
        };
        let runs = Runs::new(settings.journals.clone(), settings.journal_bytes, hubs, context)?;
        let gated = GatedCalls::new(PendingDir::new(settings.journals.join("pending")));
        Ok(Arc::new(Host {
            core,
            settings,
            sessions: SessionRegistry::new(Retention::default()),
            run_sessions: RunSessions::default(),
            redaction,
            runs,
            calls: Calls::default(),
            gated,
            questions: Questions::default(),
        }))
    }

    /// Continues the runs of an earlier daemon, and serves every hub until the daemon ends. `rexd` serves the streams of
    /// hub users; without it there are none.
    pub async fn run(self: Arc<Host>, rexd: Option<ServeStream>) {
        self.runs.restore(&self.core).await;
        // Held until the end, so that questions wait for hub users.
        let (_registrations, updates) = questions::register(&self, self.settings.shares_all);
        let (host, stop) = (self.clone(), self.core.stop.clone());
        self.core
            .tasks
            .spawn(async move { stop.run_until_cancelled(questions::publish(host, updates)).await });
        gated::resume_all(&self).await;
        if self.settings.shares_all {
            let (host, stop) = (self.clone(), self.core.stop.clone());
            self.core
                .tasks
                .spawn(async move { stop.run_until_cancelled(sharing::share_processes(host)).await });
        }
        for hub in self.settings.hubs.clone() {
            if let Some(serve) = &rexd {
                self.core.tasks.spawn(relay::run(self.clone(), hub.clone(), serve.clone()));
            }
            self.core.tasks.spawn(uplink::run(self.clone(), hub));
        }
        if let Some(path) = &self.settings.socket {
            match UnixSocket::bind(path) {
                Ok(socket) => self.core.tasks.spawn(local::serve(self.clone(), socket)),
                Err(error) => tracing::error!("no local API: {error}"),
            }
        }
        let stop = self.core.stop.clone();
        stop.run_until_cancelled(self.clean_up()).await;
    }

    async fn clean_up(&self) {
        let mut due = tokio::time::interval(CLEAN_UP_EVERY);
        loop {
            due.tick().await;
            self.runs.forget_old(&self.core).await;
        }
    }
}

/// How often old runs are looked for.
const CLEAN_UP_EVERY: std::time::Duration = std::time::Duration::from_secs(60);

impl Face for Host {
    const NAME: &'static str = "host";
    const IDENTITY_PARAMS: &'static [&'static str] = &["request_id", "actor", "user", "host_id"];
    type State = HostState;
    /// No request is for the connection.
    type ConnectionCall = std::convert::Infallible;
    type Events = events::NoEvents;

    fn core(&self) -> &Arc<Core> {
        &self.core
    }

    fn sessions(&self) -> &SessionRegistry<Host> {
        &self.sessions
    }

    fn table() -> &'static [&'static dyn Method<Host>] {
        TABLE
    }

    fn decode<P: DeserializeOwned>(params: &Params) -> Result<P, RpcError> {
        serde_json::from_str(params.text().unwrap_or("{}"))
            .map_err(|error| RpcError::invalid_params(error.to_string()))
    }

    fn error(error: engine::Error) -> RpcError {
        errors::rpc_error(error)
    }

    fn unknown_method(_name: &str) -> RpcError {
        RpcError::invalid_request("unknown rpc type")
    }

    fn session_closed(_id: &str) -> RpcError {
        errors::unknown_run()
    }

    fn process_closed(_session: &mut Session, _process: &ProcessId) {}
}
