//! The process of a keeper, for one session: through the keeper's socket while the keeper runs, then from disk.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::Error;
use engine::process::{
    Cursor, Keeper, KeeperEvent, KeeperReply, KillOutcome, NextKeeperEvent, Signal, TerminalSize,
    TerminalState,
};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::keeper::{KeeperFrame, KeeperMessage, KeeperRequest, MAX_INPUT_BYTES, MAX_OUTPUT_BYTES};

use super::client_connection::{self, KeeperConnection};
use super::convert;
use super::dir::{KeeperDir, LOG};
use super::segment_reader::SegmentReader;

/// The pause between two attempts to connect to a running keeper.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Implements the engine's [`Keeper`] for one detached process.
#[derive(Debug)]
pub(super) struct KeeperClient {
    dir: KeeperDir,
    /// The position of the next event; everything before it was delivered.
    at: u64,
    source: Source,
    /// Inputs use their own connection, opened by the first one, to keep their order.
    input: Arc<Mutex<Option<KeeperConnection>>>,
}

#[derive(Debug)]
enum Source {
    /// Events come from the keeper.
    Socket(Box<KeeperConnection>),
    /// There is no connection; the time of the next attempt.
    Disconnected(Instant),
    /// The keeper has exited: events come from the log on disk, read on a blocking thread.
    Disk(JoinHandle<(SegmentReader, io::Result<Option<KeeperEvent>>)>),
    /// All events were delivered.
    Ended,
}

impl KeeperClient {
    /// Events from `at` on. Connects when the first event is requested.
    pub(super) fn new(dir: KeeperDir, at: Cursor) -> KeeperClient {
        KeeperClient { dir, at: at.0, source: Source::Disconnected(Instant::now()), input: Arc::default() }
    }

    /// The next event. Dropping this future loses nothing.
    async fn next_event(&mut self) -> Option<KeeperEvent> {
        let event = loop {
            match &mut self.source {
                Source::Socket(connection) => match connection.next_frame().await {
                    Ok(Some(frame)) => {
                        if let Some(event) = event_of(frame) {
                            break event;
                        }
                    }
                    Ok(None) | Err(_) => self.source = Source::Disconnected(Instant::now()),
                },
                Source::Disconnected(due) => {
                    let due = *due;
                    tokio::time::sleep_until(due).await;
                    self.reconnect().await;
                }
                Source::Disk(reading) => match reading.await {
                    Ok((reader, Ok(Some(event)))) => {
                        self.source = Source::Disk(read_next(reader));
                        break event;
                    }
                    Ok((_, Err(error))) if is_exhausted(&error) => self.retry_later(),
                    Ok((_, Ok(None) | Err(_))) | Err(_) => match self.end() {
                        Ok(event) => break event?,
                        Err(_) => self.retry_later(),
                    },
                },
                Source::Ended => return None,
            }
        };
        match &event {
            KeeperEvent::Output { start, bytes, .. } => self.at = start.0 + bytes.len() as u64,
            KeeperEvent::Lost { next } => self.at = next.0,
            KeeperEvent::Exited(_) => {}
            KeeperEvent::Closed(_) => self.source = Source::Ended,
        }
        Some(event)
    }

    async fn reconnect(&mut self) {
        if self.dir.has_ended() {
            self.source = Source::Disk(read_next(SegmentReader::new(&self.dir.path.join(LOG), self.at)));
            return;
        }
        let from = self.at;
        let attached = async {
            let mut connection = KeeperConnection::open(&self.dir).await?;
            match connection.request(|id| KeeperRequest::Attach { id, cursor: from }).await? {
                KeeperMessage::Attached { .. } => Ok::<_, io::Error>(connection),
                _ => Err(io::ErrorKind::ResourceBusy.into()),
            }
        };
        self.source = match attached.await {
            Ok(connection) => Source::Socket(Box::new(connection)),
            Err(_) => Source::Disconnected(Instant::now() + RETRY_PAUSE),
        };
    }

    fn retry_later(&mut self) {
        self.source = Source::Disconnected(Instant::now() + RETRY_PAUSE);
    }

    /// The events at the end of the log: lost output before the recorded end, then the end itself.
    fn end(&mut self) -> io::Result<Option<KeeperEvent>> {
        let status = self.dir.status()?;
        let end = status.as_ref().map_or_else(|| self.dir.end(), |status| status.end);
        if self.at < end {
            self.source = Source::Disconnected(Instant::now());
            return Ok(Some(KeeperEvent::Lost { next: Cursor(end) }));
        }
        self.source = Source::Ended;
        Ok(status.map(|status| KeeperEvent::Closed(convert::summary_from_wire(status.closed))))
    }
}

/// Whether a file could not be opened for lack of descriptors or memory: it may succeed later.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = Errno::from_io_error(error);
    matches!(code, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM))
}

/// The event of a frame. Other messages are responses; messages of a newer keeper are ignored.
fn event_of(frame: KeeperFrame) -> Option<KeeperEvent> {
    match frame {
        KeeperFrame::Output { start, stream, bytes } => {
            let stream = convert::stream_from_wire(stream);
            Some(KeeperEvent::Output { start: Cursor(start), stream, bytes })
        }
        KeeperFrame::Message(KeeperMessage::Lost { next, .. }) => {
            Some(KeeperEvent::Lost { next: Cursor(next) })
        }
        KeeperFrame::Message(KeeperMessage::Exited { exit }) => {
            Some(KeeperEvent::Exited(convert::exit_from_wire(exit)))
        }
        KeeperFrame::Message(KeeperMessage::Closed(closed)) => {
            Some(KeeperEvent::Closed(convert::summary_from_wire(closed)))
        }
        KeeperFrame::Message(_) => None,
    }
}

fn read_next(mut reader: SegmentReader) -> JoinHandle<(SegmentReader, io::Result<Option<KeeperEvent>>)> {
    tokio::task::spawn_blocking(move || {
        let event = reader.next(MAX_OUTPUT_BYTES);
        (reader, event)
    })
}

impl Keeper for KeeperClient {
    fn next(&mut self) -> NextKeeperEvent<'_> {
        Box::pin(self.next_event())
    }

    fn kill(&self, signal: Signal) -> KeeperReply<KillOutcome> {
        let dir = self.dir.clone();
        Box::pin(async move { client_connection::kill(&dir, signal).await })
    }

    fn input(&self, bytes: Bytes, is_last: bool) -> KeeperReply<usize> {
        let (dir, connection) = (self.dir.clone(), self.input.clone());
        Box::pin(async move { input(&dir, &mut *connection.lock().await, bytes, is_last).await })
    }

    fn resize(&self, size: TerminalSize) -> KeeperReply<()> {
        let dir = self.dir.clone();
        Box::pin(async move { client_connection::resize(&dir, size).await })
    }

    fn terminal(&self) -> KeeperReply<TerminalState> {
        let dir = self.dir.clone();
        Box::pin(async move { client_connection::terminal(&dir).await })
    }
}

/// Sends input to the process, in pieces of at most [`MAX_INPUT_BYTES`]. A broken connection is not retried, because it
/// is unknown which input arrived.
pub(super) async fn input(
    dir: &KeeperDir,
    reusable: &mut Option<KeeperConnection>,
    mut bytes: Bytes,
    is_last: bool,
) -> Result<usize, Error> {
    let accepted = bytes.len();
    loop {
        let piece = bytes.split_to(bytes.len().min(MAX_INPUT_BYTES));
        let eof = is_last && bytes.is_empty();
        let unreachable = |error: io::Error| client_connection::unreachable(dir, &error);
        let mut connection = match reusable.take() {
            Some(connection) => connection,
            None => KeeperConnection::open(dir).await.map_err(unreachable)?,
        };
        let data = wire::base64::encode(&piece);
        let response = connection.request(|id| KeeperRequest::Input { id, data, eof, key: None }).await;
        let response = response.map_err(unreachable)?;
        *reusable = Some(connection);
        if !matches!(response, KeeperMessage::Accepted { .. }) {
            return Err(client_connection::unexpected(response));
        }
        if bytes.is_empty() {
            return Ok(accepted);
        }
    }
}
