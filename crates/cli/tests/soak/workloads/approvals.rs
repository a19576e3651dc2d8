//! Approvals: one session starts commands that need an approval, another answers. An approved command runs once, a denied
//! one never, and one in doubt at most once.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use client::{ApprovalEvent, ApprovalSubscription, Command, Error, Session};
use tokio::time::timeout;

use super::reading::{End, read};
use super::sessions::{Sessions, Way};
use super::{Workload, answer};
use crate::Stage;
use crate::counters::{Outcome, Work};
use crate::leftovers::WORK;
use crate::random::Random;
use crate::records::Records;

const ROW: Work = Work::Approvals;
/// Appends to the file that its argument names.
const SCRIPT: &str = "#!/bin/sh\necho once >> \"$1\"\n";
/// How often the approver checks whether its session was replaced, which no event reports.
const TICK: Duration = Duration::from_millis(200);
/// A little less than `approvals.timeout_ms`, which denies a request without an answer.
const TIMEOUT: Duration = Duration::from_secs(119);
/// In the name of a file whose command is to be denied.
const DENY: &str = "deny";

pub(super) struct Approvals {
    requester: Sessions,
    approver: Approver,
    jobs: u64,
    /// How often each command may have run.
    runs: Vec<(PathBuf, RangeInclusive<usize>)>,
}

impl Approvals {
    pub(super) fn new(stage: &Stage) -> Approvals {
        let script = stage.system.sandbox.write("root/once", SCRIPT);
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let requester = Sessions::new(Way::WebSocket, false);
        Approvals { requester, approver: Approver::default(), jobs: 0, runs: Vec::new() }
    }

    /// Starts the command, and waits for its end if it is approved.
    async fn request(
        &mut self,
        stage: &Stage,
        session: &Session,
        file: &Path,
    ) -> (Outcome, RangeInclusive<usize>) {
        let (root, begin) = (stage.system.sandbox.root(), Instant::now());
        let argv = [root.join("once"), file.to_owned()].map(|path| path.display().to_string());
        let is_denied = argv[1].ends_with(DENY);
        let starting = session.start(Command::argv(argv).env(WORK, ROW.name()));
        let mut process = match answer(stage, ROW, "exec.start", starting).await {
            Some(Ok(process)) => process,
            Some(Err(Error::Refused(_))) if is_denied => return (Outcome::Finished, 0..=0),
            // While the approver is disconnected, the request is refused at once.
            Some(Err(Error::Refused(_))) if begin.elapsed() < TIMEOUT => return (Outcome::Refused, 0..=0),
            Some(Err(error @ Error::Refused(_))) => {
                stage
                    .counters
                    .unanswered(ROW, format!("a request that the approver did not receive: {error}"));
                return (Outcome::Refused, 0..=0);
            }
            Some(Err(error)) => {
                return (self.requester.judge(stage, ROW, &error), 0..=usize::from(!is_denied));
            }
            None => return (Outcome::InDoubt, 0..=1),
        };
        match read(stage, ROW, &mut process, &mut Records::default(), u64::MAX).await {
            End::Exit(exit) if exit.status() == 0 && !is_denied => (Outcome::Finished, 1..=1),
            End::Exit(exit) => {
                stage.counters.twice(ROW, 1, format!("{}: {exit:?}", file.display()));
                (Outcome::InDoubt, 0..=1)
            }
            End::Failed(error) => (self.requester.judge(stage, ROW, &error), 0..=1),
            End::Silent | End::Enough => (Outcome::InDoubt, 0..=1),
        }
    }
}

impl Workload for Approvals {
    const WORK: Work = ROW;

    async fn job(&mut self, stage: &Stage, random: &mut Random) -> Outcome {
        let begin = Instant::now();
        self.jobs += 1;
        let verdict = if random.once_in(3) { DENY } else { "approve" };
        let file = stage.system.sandbox.root().join(format!("ran-{}-{verdict}", self.jobs));
        let session = match self.requester.get(stage, ROW).await {
            Ok(session) => session,
            Err(outcome) => return outcome,
        };
        let mut approver = std::mem::take(&mut self.approver);
        let is_over = Cell::new(false);
        let requesting = async {
            let ended = self.request(stage, &session, &file).await;
            is_over.set(true);
            ended
        };
        let ((outcome, runs), ()) = tokio::join!(requesting, approver.serve(stage, &is_over));
        self.approver = approver;
        self.runs.push((file, runs));
        if outcome == Outcome::Finished {
            self.requester.prove(begin);
        }
        outcome
    }

    async fn end(&mut self, stage: &Stage) {
        self.requester.close(stage, ROW).await;
        self.approver.subscription = None;
        self.approver.sessions.close(stage, ROW).await;
        for (file, allowed) in &self.runs {
            let ran = fs::read_to_string(file).unwrap_or_default().lines().count();
            if !allowed.contains(&ran) {
                stage.counters.twice(ROW, 1, format!("{} ran {ran} times, not {allowed:?}", file.display()));
            }
        }
    }
}

/// The session that answers.
struct Approver {
    sessions: Sessions,
    /// The subscription, and the session that it began with.
    subscription: Option<(ApprovalSubscription, String)>,
    /// The requests of which an event arrived, with their session.
    seen: BTreeSet<(String, String)>,
}

impl Default for Approver {
    fn default() -> Approver {
        let sessions = Sessions::new(Way::Unix, true);
        Approver { sessions, subscription: None, seen: BTreeSet::new() }
    }
}

impl Approver {
    /// Answers requests until the job is over.
    async fn serve(&mut self, stage: &Stage, is_over: &Cell<bool>) {
        while !is_over.get() {
            let Some((subscription, session_id)) = &mut self.subscription else {
                self.subscribe(stage).await;
                continue;
            };
            let (session, begin) = (subscription.session().clone(), Instant::now());
            if session.id() != *session_id {
                // Requests that were made before this session are not announced to it.
                *session_id = session.id();
                self.answer_pending(stage, &session).await;
                continue;
            }
            let Ok(event) = timeout(TICK, subscription.next()).await else { continue };
            match event {
                Some(ApprovalEvent::Requested(asked)) => {
                    if !self.seen.insert((asked.session_id.clone(), asked.approval_id.clone())) {
                        stage.counters.twice(ROW, 1, format!("the request for {}", asked.summary));
                    }
                    if self.answer(stage, &session, &asked.approval_id, &asked.operation.to_string()).await {
                        self.sessions.prove(begin);
                    }
                }
                Some(ApprovalEvent::Decided(_)) => {}
                None => self.subscription = None,
            }
        }
    }

    async fn subscribe(&mut self, stage: &Stage) {
        let Ok(session) = self.sessions.get(stage, ROW).await else {
            timeout(TICK, std::future::pending::<()>()).await.ok();
            return;
        };
        match answer(stage, ROW, "a subscription", session.subscribe_approvals()).await {
            // No session has this name: those that are pending are listed first.
            Some(Ok(subscription)) => self.subscription = Some((subscription, String::new())),
            Some(Err(error)) => drop(self.sessions.judge(stage, ROW, &error)),
            None => {}
        }
    }

    async fn answer_pending(&mut self, stage: &Stage, session: &Session) {
        match answer(stage, ROW, "approval.list", session.pending_approvals()).await {
            Some(Ok(list)) => {
                for pending in list.approvals {
                    self.answer(stage, session, &pending.approval_id, &pending.operation.to_string()).await;
                }
            }
            Some(Err(error)) => self.failed(stage, &error),
            None => {}
        }
    }

    /// Answers a request; false if the answer may not have arrived.
    async fn answer(&mut self, stage: &Stage, session: &Session, id: &str, operation: &str) -> bool {
        let approves = !operation.contains(DENY);
        match answer(stage, ROW, "approval.answer", session.decide(id, approves, None)).await {
            // An error of the server: it is answered already, or withdrawn.
            Some(Ok(()) | Err(Error::Refused(_))) => true,
            Some(Err(error)) => {
                self.failed(stage, &error);
                false
            }
            None => false,
        }
    }

    /// Lists the pending requests again after an error.
    fn failed(&mut self, stage: &Stage, error: &Error) {
        self.sessions.judge(stage, ROW, error);
        if let Some((_, session_id)) = &mut self.subscription {
            session_id.clear();
        }
    }
}
