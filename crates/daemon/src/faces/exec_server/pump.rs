//! The pump: what one process writes, numbered and told to whoever listens now.
//!
//! While nobody listens it rests: the engine then keeps what the process writes, in memory and on disk, and nothing of it
//! has a number yet. Whoever comes back reads the pieces that have one, and hears of the rest.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use engine::audit::{self, AuditOutcome, AuditRecord};
use engine::process::{Cursor, ExitStatus, Item, LogReader, Process, ProcessSummary, Stream};
use link::Outgoing;
use tokio::sync::watch;
use tokio::time::Instant;
use wire::exec_server::{envelope, v0, v1};

use super::answer::Asker;
use super::exits::exit_code;
use super::numbers::{Ended, Numbers};
use super::{FACE, Service};

/// The most output that is told at once.
const PIECE: usize = 256 * 1024;
/// How long somebody who came back has to read what they missed.
const READS_WITHIN: Duration = Duration::from_secs(10);

/// In which words a process is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    /// Those of v0: no numbers, and nothing after the end.
    V0,
    /// Those of v1.
    V1,
}

/// Who hears of a session's processes; nobody between connections.
pub(super) type Listener = watch::Receiver<Option<Outgoing>>;

/// Everything it takes to tell of one process.
pub(super) struct Pump {
    pub(super) service: Arc<Service>,
    pub(super) asker: Asker,
    /// What the client calls it.
    pub(super) id: String,
    pub(super) words: Words,
    pub(super) process: Process,
    pub(super) reader: LogReader,
    pub(super) numbers: Arc<Numbers>,
    pub(super) listener: Listener,
    /// Whether somebody else listens since it was last looked at.
    pub(super) has_changed: bool,
}

/// What was told lately is kept, for somebody who came back.
struct Held {
    reads: u64,
    until: Instant,
}

impl Held {
    fn new(numbers: &Numbers) -> Held {
        Held { reads: numbers.state().reads, until: Instant::now() + READS_WITHIN }
    }

    /// They have read, or will not.
    fn is_over(&self, numbers: &Numbers) -> bool {
        numbers.state().reads != self.reads || Instant::now() >= self.until
    }
}

/// What happened next.
enum Step {
    Item(Item),
    /// Somebody else listens now, or nobody.
    Changed,
}

impl Pump {
    /// Tells of the process up to its end, or until its session is over.
    pub(super) async fn run(mut self) {
        let mut held: Option<Held> = None;
        loop {
            let Some(outgoing) = self.heard().await else { return };
            if std::mem::take(&mut self.has_changed) && self.words == Words::V1 {
                // Whoever comes back reads first what they may have missed.
                held = Some(Held::new(&self.numbers));
                self.reader.hold(true);
            } else if held.as_ref().is_some_and(|held| held.is_over(&self.numbers)) {
                held = None;
                self.reader.hold(false);
            }
            match self.step().await {
                Step::Changed => self.has_changed = true,
                Step::Item(Item::Exited { status, is_denied }) => match self.words {
                    // The exit of v0 ends the process, so it is sent with the end.
                    Words::V0 => {}
                    Words::V1 => self.tell_exit(&outgoing, status, is_denied).await,
                },
                Step::Item(Item::Output { stream, bytes, next }) => {
                    self.tell_output(&outgoing, stream, &bytes, next).await;
                }
                Step::Item(Item::Lost { bytes, .. }) => {
                    // The numbers go on without a gap: who knows our word for it sees it in the next offset.
                    self.numbers.gave_up();
                    self.service.metrics.lost_bytes(bytes);
                    tracing::warn!(process = %self.id, bytes, "output was given up while nobody listened");
                }
                Step::Item(Item::Closed(closed)) => return self.tell_end(&outgoing, &closed).await,
                Step::Item(Item::Disconnected) => return,
            }
        }
    }

    /// Waits until somebody listens; nothing when the session is over.
    async fn heard(&mut self) -> Option<Outgoing> {
        self.has_changed |= self.listener.has_changed().ok()?;
        self.listener.wait_for(Option::is_some).await.ok()?.clone()
    }

    async fn step(&mut self) -> Step {
        tokio::select! {
            biased;
            item = self.reader.next(PIECE) => Step::Item(item),
            _changed = self.listener.changed() => Step::Changed,
        }
    }

    async fn tell_output(&mut self, outgoing: &Outgoing, stream: Stream, bytes: &[u8], next: Cursor) {
        self.service.metrics.output_bytes(stream, bytes.len() as u64);
        let line = match self.words {
            Words::V0 => v1::encode_output_delta(&self.id, stream == Stream::Stderr, bytes),
            Words::V1 => {
                let start = Cursor(next.0 - bytes.len() as u64);
                let seq = self.numbers.output(stream, (start, next), self.process.first());
                let offset = self.numbers.state().has_given_up.then_some(start.0);
                v1::encode_output(&self.id, (seq, offset), stream_of(stream), bytes)
            }
        };
        self.send(outgoing, line).await;
    }

    async fn tell_exit(&mut self, outgoing: &Outgoing, exit: ExitStatus, is_denied: bool) {
        let exit_code = exit_code(exit, self.process.description().has_terminal);
        let seq = self.numbers.exited(Ended { exit_code, is_denied });
        let process_id = self.id.clone();
        let line = match self.words {
            Words::V0 => envelope::notification(
                v0::method::EXITED,
                &v0::ExecExitedNotification { process_id, exit_code },
            ),
            Words::V1 => {
                let sandbox_denied = Some(is_denied);
                let told = v1::ExecExitedNotification { process_id, seq, exit_code, sandbox_denied };
                envelope::notification(v1::PROCESS_EXITED, &told)
            }
        };
        self.send(outgoing, line.unwrap_or_default()).await;
    }

    async fn tell_end(mut self, outgoing: &Outgoing, closed: &ProcessSummary) {
        self.record_end(closed);
        if self.numbers.state().exited.is_none() {
            self.tell_exit(outgoing, closed.exit, closed.denied.is_some()).await;
        }
        let seq = self.numbers.closed();
        if self.words == Words::V1 {
            let output_offset = self.numbers.state().has_given_up.then_some(self.reader.cursor().0);
            let told = v1::ExecClosedNotification { process_id: self.id.clone(), seq, output_offset };
            let line = envelope::notification(v1::PROCESS_CLOSED, &told);
            self.send(outgoing, line.unwrap_or_default()).await;
        }
    }

    /// Sends, unless whoever listened is gone: then it is read again by whoever comes next.
    async fn send(&mut self, outgoing: &Outgoing, line: Vec<u8>) {
        let mut listener = self.listener.clone();
        listener.mark_unchanged();
        tokio::select! {
            biased;
            _sent = outgoing.event(Bytes::from(line)) => {}
            _changed = listener.changed() => {}
        }
        if outgoing.is_closed() {
            // The connection is about to say so; until then there is nobody to tell.
            let same = |now: &Option<Outgoing>| now.as_ref().is_none_or(|now| !now.is_closed());
            let _gone = self.listener.wait_for(same).await;
            self.has_changed = true;
        }
    }

    fn record_end(&self, closed: &ProcessSummary) {
        self.service.audit.record(AuditRecord {
            time: SystemTime::now(),
            caller: self.asker.caller.name.clone(),
            address: self.asker.caller.address.clone(),
            client: self.asker.client.clone(),
            face: FACE,
            session: self.asker.session.clone(),
            operation: "process/closed".into(),
            details: vec![
                ("process_id".into(), audit::Detail::Text(self.id.clone())),
                // By which other faces know it.
                ("known_as".into(), audit::Detail::Text(self.process.id().0.clone())),
            ],
            outcome: AuditOutcome::Done("ended".into()),
            exit: Some(closed.exit),
            duration: closed.duration,
            decision: None,
        });
    }
}

/// The word for a stream.
pub(super) fn stream_of(stream: Stream) -> v1::ExecOutputStream {
    match stream {
        Stream::Stdout => v1::ExecOutputStream::Stdout,
        Stream::Stderr => v1::ExecOutputStream::Stderr,
        Stream::Terminal => v1::ExecOutputStream::Pty,
    }
}
