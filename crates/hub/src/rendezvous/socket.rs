//! One WebSocket of the rendezvous: frames in to the room, frames out of a queue, until one of many ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::pulse::{Felt, Pulse, felt};
use super::queue::{Frame, Inbox, Next, OVERHEAD};
use super::routes::{Door, Letter, Seat};
use crate::config::Limits;

/// What is read, and gathered for writing, at a time.
const BUFFER: usize = 64 * 1024;
/// How long saying why may take, and how long the peer has to say goodbye itself.
const GOODBYE: Duration = Duration::from_secs(2);

/// Why a connection ends, as its peer is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Farewell {
    code: CloseCode,
    reason: &'static str,
}

impl Farewell {
    pub(super) const HUB_ENDS: Farewell = Farewell { code: CloseCode::Away, reason: "the hub ends" };
    pub(super) const TOKEN_REMOVED: Farewell =
        Farewell { code: CloseCode::Policy, reason: "the token was removed" };
    /// Its code is one of ours, so that an executor knows: coming back at once would only throw the other one out.
    pub(super) const REPLACED: Farewell = Farewell {
        code: CloseCode::Library(wire::exec_server::relay::REPLACED),
        reason: "another executor with this id connected",
    };
    pub(super) const EXECUTOR_GONE: Farewell =
        Farewell { code: CloseCode::Restart, reason: "the executor is gone for the moment: connect again" };
    pub(super) const TOO_SLOW: Farewell =
        Farewell { code: CloseCode::Again, reason: "too much waited to be taken: connect again" };
    const TOO_LARGE: Farewell =
        Farewell { code: CloseCode::Size, reason: "a frame was larger than the hub passes on" };
    const BROKEN: Farewell = Farewell { code: CloseCode::Protocol, reason: "this is no WebSocket" };
    const SILENT: Farewell = Farewell { code: CloseCode::Away, reason: "there was no sign of life" };
    const NORMAL: Farewell = Farewell { code: CloseCode::Normal, reason: "it said goodbye" };
    const GONE: Farewell = Farewell { code: CloseCode::Abnormal, reason: "the connection broke" };

    pub(super) fn reason(self) -> &'static str {
        self.reason
    }

    fn frame(self) -> CloseFrame {
        CloseFrame { code: self.code, reason: self.reason.into() }
    }
}

/// Where frames of a connection go, and how many may be on their way.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) seat: Seat,
    pub(super) letters: mpsc::Sender<Letter>,
    /// Its own, and what it shares with others: as many permits as bytes.
    credits: Vec<(Arc<Semaphore>, usize)>,
}

impl Source {
    pub(super) fn new(seat: Seat, door: Door, limits: &Limits) -> Source {
        let own = limits.in_flight_bytes;
        let mut credits = vec![(Arc::new(Semaphore::new(own)), own)];
        if let Seat::Harness(_) = seat {
            credits.push((door.to_executor, limits.queued_bytes));
        }
        Source { seat, letters: door.letters, credits }
    }

    /// Hands a frame on; waits while too many are on their way. A frame that is larger than all credit takes all.
    async fn hand_on(&self, bytes: Bytes) {
        let mut credit = Vec::with_capacity(self.credits.len());
        for (semaphore, most) in &self.credits {
            let cost = u32::try_from((bytes.len() + OVERHEAD).min(*most)).unwrap_or(u32::MAX);
            // It is never closed.
            credit.extend(semaphore.clone().acquire_many_owned(cost).await.ok());
        }
        let letter = Letter::Frame { from: self.seat, frame: Frame { bytes, credit } };
        // The room is there as long as this letter box.
        self.letters.send(letter).await.ok();
    }
}

/// A WebSocket whose handshake is done.
#[derive(Debug)]
pub(super) struct Socket<S> {
    stream: WebSocketStream<Felt<S>>,
    pulse: Pulse,
    limits: Arc<Limits>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Socket<S> {
    pub(super) async fn new(stream: S, limits: Arc<Limits>) -> Socket<S> {
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(BUFFER)
            .max_frame_size(Some(limits.frame_bytes))
            .max_message_size(Some(limits.frame_bytes));
        let (stream, pulse) = felt(stream);
        let stream = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        Socket { stream, pulse, limits }
    }

    /// Carries frames until the peer ends it, the room does, or `ended` says why.
    pub(super) async fn carry(
        self,
        source: &Source,
        inbox: &mut Inbox,
        ended: impl Future<Output = Farewell>,
    ) -> Ended<S> {
        let Socket { stream, pulse, limits } = self;
        let (mut sink, mut frames) = stream.split();
        let deadline = inbox.deadline();
        let why = tokio::select! {
            biased;
            why = write(&mut sink, inbox, limits.ping) => why,
            why = read(&mut frames, source, &pulse, limits.silence) => why,
            // A peer that takes nothing holds up what it is to be told, not the end.
            why = deadline.passed(GOODBYE) => Some(why),
            why = ended => Some(why),
        };
        let stream = frames.reunite(sink).ok().filter(|_| why.is_some());
        Ended { why: why.unwrap_or(Farewell::GONE), stream }
    }
}

/// A connection that carries nothing any more.
#[derive(Debug)]
#[must_use = "the peer waits to be told why"]
pub(super) struct Ended<S> {
    pub(super) why: Farewell,
    /// If somebody is there to be told.
    stream: Option<WebSocketStream<Felt<S>>>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Ended<S> {
    /// Says why and nothing more, and reads until the peer has ended too: what is not read would make the kernel take
    /// back what was said. The room has to know first, for this may take a while.
    pub(super) async fn say_goodbye(self) {
        let Some(mut stream) = self.stream else { return };
        let goodbye = async {
            // The peer may have said goodbye first; then only the answer is left to be written.
            stream.close(Some(self.why.frame())).await.ok();
            stream.flush().await.ok();
            let below = stream.get_mut();
            below.shutdown().await.ok();
            let mut scratch = vec![0; BUFFER];
            while below.read(&mut scratch).await.is_ok_and(|read| read > 0) {}
        };
        // A peer that does not take even this is gone.
        timeout(GOODBYE, goodbye).await.ok();
    }
}

/// Hands on what comes. Tells what the peer is to be told, if it is still there.
async fn read<S>(
    frames: &mut SplitStream<WebSocketStream<S>>,
    source: &Source,
    pulse: &Pulse,
    silence: Duration,
) -> Option<Farewell>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        let next = tokio::select! {
            next = frames.next() => next,
            () = pulse.silent_for(silence) => return Some(Farewell::SILENT),
        };
        match next {
            Some(Ok(Message::Binary(bytes))) => {
                source.hand_on(bytes).await;
                // Meanwhile nobody listened.
                pulse.beat();
            }
            Some(Ok(Message::Close(_))) => return Some(Farewell::NORMAL),
            // Text means nothing here, as with real peers; pings are answered below.
            Some(Ok(_other)) => {}
            Some(Err(Error::Capacity(_))) => return Some(Farewell::TOO_LARGE),
            // Real peers leave like that.
            Some(Err(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake))) => return None,
            Some(Err(Error::Protocol(_) | Error::Utf8(_))) => return Some(Farewell::BROKEN),
            Some(Err(_)) | None => return None,
        }
    }
}

/// Writes what is there, and flushes when nothing more is. Tells what the peer is to be told, if it is still there.
async fn write<S>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    inbox: &mut Inbox,
    every: Duration,
) -> Option<Farewell>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut pings = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
    loop {
        let next = tokio::select! {
            biased;
            _ = pings.tick() => None,
            next = inbox.next() => Some(next),
        };
        // The credit of a frame is given back when the next one's turn comes.
        let (message, _credit) = match next {
            Some(Next::Frame(frame)) => (Message::Binary(frame.bytes), frame.credit),
            None => (Message::Ping(Bytes::new()), Vec::new()),
            Some(Next::End(why)) => return Some(why),
        };
        let is_last = inbox.is_empty();
        let written = match is_last {
            true => sink.send(message).await,
            false => sink.feed(message).await,
        };
        if written.is_err() {
            return None;
        }
    }
}
