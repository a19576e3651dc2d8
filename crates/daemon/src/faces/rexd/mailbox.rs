//! The way to a session: letters that its task opens one by one, whoever writes them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use engine::approval::ApprovalUpdate;
use engine::files::FileWatcher;
use engine::process::{KeptProcess, Process, ProcessId};
use link::Outgoing;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::RpcError;

use super::answer::{Answer, Asker};
use super::call::Call;
use super::keys::Claim;
use super::methods::Adopting;
use super::order::Turn;
use super::permission::Permit;
use super::web::Told;

/// Letters that wait for one session; past it whoever writes waits.
pub(super) const LETTERS_WAITING: usize = 256;

/// A request and where its answer goes.
pub(super) struct Asked {
    pub(super) call: Call,
    pub(super) answer: Answer,
    /// What it may do, once that was judged.
    pub(super) permit: Option<Permit>,
    /// Its idempotency key, while somebody is asked about it.
    pub(super) claim: Option<Claim>,
}

impl Asked {
    /// A request that nobody has judged yet.
    pub(super) fn new(call: Call, answer: Answer) -> Asked {
        Asked { call, answer, permit: None, claim: None }
    }
}

/// What a session is told.
pub(super) enum Letter {
    /// Somebody wants something.
    Call(Box<Asked>),
    /// A task of the session found something out.
    Notice(Notice),
    /// A client takes the session up again.
    Resume(Box<Resume>),
    /// A client wants to listen to the events of a session that has no link.
    Listen(Box<Listen>),
    /// The link with this number is gone.
    Cut(u64),
    /// The session is over.
    End,
}

/// What a task tells the session it works for.
pub(super) enum Notice {
    /// A process has ended and its events are out.
    Finished(ProcessId),
    /// A process could not be started.
    NeverRan(ProcessId),
    /// A request's turn has come.
    Turn { asked: Box<Asked>, turn: Turn },
    /// A watch was set up.
    Watching { watch_id: String, watch: FileWatcher },
    /// The session's directory was found to be one.
    Cwd { path: PathBuf, turn: Turn },
    /// A process of another session was found; from now on it is within reach.
    Found(Process),
    /// A process of another session was found, and somebody wants to follow it.
    Attach { process: Process, from: u64, answer: Box<Answer> },
    /// A process that requests named was looked for among those that are kept.
    Reached { id: ProcessId, kept: Option<Box<KeptProcess>> },
    /// A kept process was found; it is to be taken up.
    Adopt(Box<Adopting>),
    /// Something waits for a decision, or was decided.
    ApprovalUpdate(Box<ApprovalUpdate>),
    /// The listener with this number hears no more.
    Unheard(u64),
    /// The listener with this number may not listen; who heard before, a link or not, still does.
    Refused { attachment: u64, before: Option<(u64, bool)> },
}

/// The link a session is on.
pub(super) struct OnLink {
    /// Where events go.
    pub(super) outgoing: Outgoing,
    /// Ends the link, if it is one that another of its kind may take the place of: nobody can find out whether somebody
    /// is still there at the other end.
    pub(super) hang_up: Option<CancellationToken>,
}

/// A client that comes back.
pub(super) struct Resume {
    /// The last event it saw.
    pub(super) seen: u64,
    /// What it shows to prove that the session is its own.
    pub(super) token: String,
    /// Where events go from now on; nothing if it will ask for them.
    pub(super) link: Option<OnLink>,
    /// Where the answer goes once it is sure.
    pub(super) answer: Answer,
    /// The number of the new link, or nothing if the answer was no.
    pub(super) verdict: oneshot::Sender<Option<u64>>,
}

/// A client that listens.
pub(super) struct Listen {
    /// The last event it saw; nothing means to go on after the last that was sent.
    pub(super) seen: Option<u64>,
    /// Where events go.
    pub(super) to: mpsc::Sender<Told>,
    /// Whether it may.
    pub(super) verdict: oneshot::Sender<Result<(), RpcError>>,
}

/// A way to one session. Cheap to clone; the session ends when it is told to, not when the last of these goes.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) id: Arc<str>,
    /// Who opened it, for the audit and for whoever claims to be the same.
    pub(super) asker: Asker,
    /// Since when nobody hears it, in the order in which sessions fell silent; 0 while somebody does.
    pub(super) silent_since: Arc<AtomicU64>,
    pub(super) letters: mpsc::Sender<Letter>,
}

impl Handle {
    /// Hands over a request; it comes back if the session is over.
    pub(super) async fn ask(&self, asked: Asked) -> Result<(), Asked> {
        match self.letters.send(Letter::Call(Box::new(asked))).await {
            Ok(()) => Ok(()),
            Err(mpsc::error::SendError(Letter::Call(asked))) => Err(*asked),
            Err(_not_ours) => Ok(()),
        }
    }

    /// Tells it something; a session that is over need not know.
    pub(super) async fn tell(&self, letter: Letter) {
        self.letters.send(letter).await.ok();
    }

    /// Ends the session without waiting for it. A mailbox that is full is waited for by a task.
    pub(super) fn end_soon(&self) {
        if let Err(mpsc::error::TrySendError::Full(letter)) = self.letters.try_send(Letter::End) {
            let letters = self.letters.clone();
            // Lives until the session has read what came before.
            tokio::spawn(async move { letters.send(letter).await.ok() });
        }
    }

    /// Whether nothing of the session is left.
    pub(super) fn is_over(&self) -> bool {
        self.letters.is_closed()
    }

    /// Waits until nothing of the session is left.
    pub(super) async fn ended(&self) {
        self.letters.closed().await;
    }
}
