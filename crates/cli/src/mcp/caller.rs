//! McpCaller: what the server keeps for one client between its requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use http::request::Parts;
use link::listen::TokenDigest;
use rmcp::service::{RequestContext, RoleServer};

use super::questions::PendingQuestions;
use super::tasks::CallTasks;
use crate::tools::process_owner::{ProcessOwner, ProcessOwners};
use crate::tools::processes::TrackedProcesses;
use crate::tools::{Toolbox, ToolboxOptions};

/// The processes, sessions, questions and tasks of one caller: a connection, a session of HTTP, or a token.
pub(super) struct McpCaller {
    options: ToolboxOptions,
    owner: Option<ProcessOwner>,
    processes: Arc<TrackedProcesses>,
    /// For requests whose client answers questions.
    asking: OnceLock<Arc<Toolbox>>,
    /// For requests whose client does not.
    silent: OnceLock<Arc<Toolbox>>,
    pub(super) questions: PendingQuestions,
    pub(super) tasks: CallTasks,
}

impl McpCaller {
    /// A caller without any state yet.
    pub(super) fn new(options: ToolboxOptions, owner: Option<ProcessOwner>) -> McpCaller {
        McpCaller {
            options,
            processes: Arc::new(TrackedProcesses::of(owner.clone())),
            owner,
            asking: OnceLock::new(),
            silent: OnceLock::new(),
            questions: PendingQuestions::default(),
            tasks: CallTasks::default(),
        }
    }

    /// The toolbox for a request: a session on the target either has an approver or not. Both share the processes.
    pub(super) fn toolbox(&self, approvals: bool) -> &Arc<Toolbox> {
        let toolbox = if approvals { &self.asking } else { &self.silent };
        toolbox.get_or_init(|| {
            let options = ToolboxOptions { approvals, describe_target: true, ..self.options.clone() };
            Arc::new(Toolbox::sharing(options, self.processes.clone()))
        })
    }

    /// Whether a token is the one of this caller.
    pub(super) fn is_of(&self, token: TokenDigest) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.token == token)
    }

    /// How long a call waits for its command.
    pub(super) fn foreground_wait(&self) -> Duration {
        self.options.foreground_wait
    }

    /// Ends its calls and sessions; returns when their attached processes have ended.
    pub(super) async fn close(&self) {
        self.questions.close();
        self.tasks.close();
        for toolbox in [&self.asking, &self.silent].into_iter().filter_map(OnceLock::get) {
            toolbox.close().await;
        }
    }
}

impl Drop for McpCaller {
    fn drop(&mut self) {
        // A task holds the toolbox, and would keep its sessions open.
        self.tasks.close();
    }
}

/// The token of a request, which the HTTP server has checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallerToken(pub(super) TokenDigest);

impl CallerToken {
    /// The token of the request that a handler serves; none on stdin and stdout.
    pub(super) fn of(context: &RequestContext<RoleServer>) -> Option<TokenDigest> {
        let parts = context.extensions.get::<Parts>()?;
        parts.extensions.get::<CallerToken>().map(|token| token.0)
    }
}

/// The callers of an HTTP server. Their number is at most the number of its tokens.
pub(super) struct McpCallers {
    options: ToolboxOptions,
    owners: Arc<ProcessOwners>,
    /// A caller without a request for this long loses its sessions and attached processes.
    idle: Duration,
    known: Mutex<HashMap<TokenDigest, KnownCaller>>,
}

struct KnownCaller {
    caller: Arc<McpCaller>,
    last_request: Instant,
}

impl McpCallers {
    /// No callers yet; each is kept for `idle` after its last request.
    pub(super) fn new(options: ToolboxOptions, idle: Duration) -> McpCallers {
        McpCallers { options, owners: Arc::default(), idle, known: Mutex::default() }
    }

    /// A new caller with this token.
    pub(super) fn create(&self, token: TokenDigest) -> McpCaller {
        let owner = ProcessOwner { token, owners: self.owners.clone() };
        McpCaller::new(self.options.clone(), Some(owner))
    }

    /// The caller of a request without a session.
    pub(super) fn of_token(&self, token: TokenDigest) -> Arc<McpCaller> {
        let mut known = self.known();
        let entry = known.entry(token).or_insert_with(|| KnownCaller {
            caller: Arc::new(self.create(token)),
            last_request: Instant::now(),
        });
        entry.last_request = Instant::now();
        entry.caller.clone()
    }

    /// Closes callers that are idle, forever.
    pub(super) async fn expire(&self) {
        loop {
            tokio::time::sleep(self.idle / 60).await;
            for caller in self.take_idle(Instant::now()) {
                caller.close().await;
            }
        }
    }

    /// Removes the callers that are idle at a time. A running request holds its caller.
    fn take_idle(&self, now: Instant) -> Vec<Arc<McpCaller>> {
        let is_idle = |entry: &KnownCaller| {
            now.duration_since(entry.last_request) >= self.idle && Arc::strong_count(&entry.caller) == 1
        };
        let taken = self.known().extract_if(|_, entry| is_idle(entry)).collect::<Vec<_>>();
        taken.into_iter().map(|(_, entry)| entry.caller).collect()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<TokenDigest, KnownCaller>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_kept_between_requests_until_it_is_idle() {
        let idle = Duration::from_secs(3_600);
        let callers = McpCallers::new(ToolboxOptions::default(), idle);
        let [one, two] = ["one", "two"].map(TokenDigest::of);
        let (mine, theirs) = (callers.of_token(one), callers.of_token(two));
        assert!(Arc::ptr_eq(&mine, &callers.of_token(one)));
        assert!(!Arc::ptr_eq(&mine, &theirs));
        drop(mine);
        assert!(callers.take_idle(Instant::now()).is_empty(), "too early");
        assert_eq!(
            callers.take_idle(Instant::now() + idle).len(),
            1,
            "a request of the other one is running"
        );
        assert!(Arc::ptr_eq(&theirs, &callers.of_token(two)));
    }
}
