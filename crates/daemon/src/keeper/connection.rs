//! One connection to the keeper's socket: requests one after the other, or the log until its end.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use engine::process::{Cursor, Process, Signal, TerminalSize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use wire::keeper::{
    FailureKind, KeeperFrame, KeeperMessage, KeeperRequest, MAX_INPUT_BYTES, Version, encode_frame,
    read_request,
};

use super::convert;
use super::viewer::Viewer;

/// How long a peer may take to say its hello.
const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// What every connection of a keeper needs.
#[derive(Debug)]
pub(super) struct ServerState {
    pub(super) process: Process,
    pub(super) log: PathBuf,
    pub(super) written: watch::Receiver<Cursor>,
    /// The newest version that is spoken.
    pub(super) protocol: Version,
    /// Paths for viewers; the rest of the connections is for those who ask and go.
    pub(super) viewers: Semaphore,
    /// Turns at the disk, so that the scribe always gets one.
    pub(super) disk: Arc<Semaphore>,
    /// The keeper is about to end: whoever only waits is let go.
    pub(super) ending: CancellationToken,
}

struct Connection {
    socket: UnixStream,
    incoming: BytesMut,
    version: Version,
}

/// Serves one peer until it is done.
pub(super) async fn serve(socket: UnixStream, served: Arc<ServerState>) {
    let mut connection = Connection { socket, incoming: BytesMut::new(), version: Version::V1 };
    // A peer that breaks off or breaks the rules is left alone; there is nobody to tell.
    let _ended = connection.run(&served).await;
}

impl Connection {
    async fn run(&mut self, served: &ServerState) -> io::Result<()> {
        match tokio::time::timeout(HELLO_WITHIN, self.request()).await?? {
            Some(KeeperRequest::Hello { id, version }) => match served.protocol.common(version) {
                Some(common) => {
                    self.version = common;
                    self.tell(KeeperMessage::Hello { id, version: common.number() }).await?;
                }
                None => return self.refuse(id, FailureKind::Invalid, "no common version").await,
            },
            Some(other) => return self.refuse(other.id(), FailureKind::Invalid, "say hello first").await,
            None => return Ok(()),
        }
        loop {
            let request = tokio::select! {
                biased;
                request = self.request() => request?,
                () = served.ending.cancelled() => None,
            };
            match request {
                Some(KeeperRequest::Attach { id, cursor }) => return self.attach(served, id, cursor).await,
                Some(request) => {
                    let answer = answer(&served.process, request).await;
                    self.tell(answer).await?;
                }
                None => return Ok(()),
            }
        }
    }

    /// Tells the log from `cursor` on.
    async fn attach(&mut self, served: &ServerState, id: u64, cursor: u64) -> io::Result<()> {
        let Ok(_place) = served.viewers.try_acquire() else {
            return self.refuse(id, FailureKind::Busy, "as many viewers as there can be").await;
        };
        let from = Cursor(cursor).min(served.process.state().end);
        self.tell(KeeperMessage::Attached { id, cursor: from.0 }).await?;
        let mut viewer = Viewer::new(served, from);
        loop {
            let piece = {
                let next = viewer.next();
                tokio::pin!(next);
                tokio::select! {
                    biased;
                    piece = &mut next => piece,
                    // Nothing may follow an attach; what comes is an end, or as good as one.
                    _ = self.socket.read_u8() => return Ok(()),
                }
            };
            match piece {
                Some(piece) => self.socket.write_all(&encode_frame(self.version, &piece)).await?,
                None => return self.socket.shutdown().await,
            }
        }
    }

    /// The next request; nothing when the peer is done. Safe to drop while it waits.
    async fn request(&mut self) -> io::Result<Option<KeeperRequest>> {
        loop {
            if let Some(request) = read_request(&mut self.incoming).map_err(io::Error::other)? {
                return Ok(Some(request));
            }
            if self.socket.read_buf(&mut self.incoming).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn tell(&mut self, told: KeeperMessage) -> io::Result<()> {
        self.socket.write_all(&encode_frame(self.version, &KeeperFrame::Message(told))).await
    }

    async fn refuse(&mut self, id: u64, kind: FailureKind, reason: &str) -> io::Result<()> {
        self.tell(KeeperMessage::Error { id, kind, message: reason.to_owned() }).await
    }
}

/// Does what is asked and says what came of it.
async fn answer(process: &Process, request: KeeperRequest) -> KeeperMessage {
    let invalid = |id, reason: &str| KeeperMessage::Error {
        id,
        kind: FailureKind::Invalid,
        message: reason.to_owned(),
    };
    match request {
        KeeperRequest::Input { id, data, eof } => {
            let bytes = match wire::base64::decode(&data) {
                Ok(bytes) if bytes.len() <= MAX_INPUT_BYTES => bytes,
                Ok(_) => return invalid(id, "too much at once"),
                Err(_) => return invalid(id, "not base64"),
            };
            match process.input(bytes.into(), eof).await {
                Ok(count) => KeeperMessage::Accepted { id, bytes: count as u64 },
                Err(error) => convert::failure_told(id, &error),
            }
        }
        KeeperRequest::Resize { id, cols, rows } => match process.resize(TerminalSize { cols, rows }).await {
            Ok(()) => KeeperMessage::Resized { id },
            Err(error) => convert::failure_told(id, &error),
        },
        KeeperRequest::Kill { id, signal } => {
            let Some(signal) = Signal::from_number(signal) else { return invalid(id, "no such signal") };
            match process.kill(signal).await {
                Ok(ended) => KeeperMessage::Killed {
                    id,
                    killed: convert::members_told(&ended.killed),
                    left: convert::members_told(&ended.remaining),
                },
                Err(error) => convert::failure_told(id, &error),
            }
        }
        KeeperRequest::Status { id } => {
            let facts = process.state();
            KeeperMessage::Status {
                id,
                pid: facts.pid,
                end: facts.end.0,
                exit: facts.exited.map(convert::exit_told),
                closed: facts.closed.map(|closed| convert::closed_told(&closed)),
            }
        }
        KeeperRequest::Hello { id, .. } | KeeperRequest::Attach { id, .. } => invalid(id, "not here"),
    }
}
