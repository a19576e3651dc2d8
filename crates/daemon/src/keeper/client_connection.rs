//! Talking to a keeper: connect, agree on a version, ask, listen.

use std::io;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use bytes::BytesMut;
use engine::Error;
use engine::process::{Cursor, KillOutcome, Signal, TerminalSize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use wire::keeper::{Decoder, KeeperFrame, KeeperMessage, KeeperRequest, Version, encode_request};

use super::convert;
use super::dir::{KeeperDir, SOCKET};

/// How long a keeper may take to accept and to answer a hello. It does nothing else that could take long.
const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// How long it may take to do a thing: longer than any tree takes to die.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A connection on which a version was agreed.
#[derive(Debug)]
pub(super) struct KeeperConnection {
    socket: UnixStream,
    incoming: BytesMut,
    decoder: Decoder,
    last_id: u64,
}

impl KeeperConnection {
    pub(super) async fn open(dir: &KeeperDir) -> io::Result<KeeperConnection> {
        tokio::time::timeout(HELLO_WITHIN, KeeperConnection::greet(dir)).await?
    }

    async fn greet(dir: &KeeperDir) -> io::Result<KeeperConnection> {
        let directory = dir.open()?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd());
        let socket = UnixStream::connect(path).await?;
        if socket.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
        }
        let decoder = Decoder::new(Version::V1);
        let mut connection = KeeperConnection { socket, incoming: BytesMut::new(), decoder, last_id: 0 };
        let newest = Version::NEWEST;
        match connection.ask(|id| KeeperRequest::Hello { id, version: newest.number() }).await? {
            KeeperMessage::Hello { version, .. } if version > 0 && version <= newest.number() => {
                let agreed = newest.common(version).ok_or(io::ErrorKind::Unsupported)?;
                connection.decoder = Decoder::new(agreed);
                Ok(connection)
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Asks for one thing and waits for its answer.
    pub(super) async fn ask(
        &mut self,
        request: impl FnOnce(u64) -> KeeperRequest,
    ) -> io::Result<KeeperMessage> {
        self.last_id += 1;
        self.socket.write_all(&encode_request(&request(self.last_id))).await?;
        match self.piece().await? {
            Some(KeeperFrame::Message(told)) => Ok(told),
            Some(KeeperFrame::Output { .. }) => Err(io::ErrorKind::InvalidData.into()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// The next thing that the keeper says; nothing when it has closed the connection. Safe to drop while it waits.
    pub(super) async fn piece(&mut self) -> io::Result<Option<KeeperFrame>> {
        loop {
            let next = self.decoder.next(&mut self.incoming);
            if let Some(piece) = next.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                return Ok(Some(piece));
            }
            if self.incoming.capacity() - self.incoming.len() < 4096 {
                self.incoming.reserve(64 * 1024);
            }
            if self.socket.read_buf(&mut self.incoming).await? == 0 {
                return Ok(None);
            }
        }
    }
}

/// Ends the tree, or tells its group something. On a connection of its own, so that nothing is before it.
pub(super) async fn kill(dir: &KeeperDir, signal: Signal) -> Result<KillOutcome, Error> {
    match ask(dir, |id| KeeperRequest::Kill { id, signal: signal.number() }).await? {
        KeeperMessage::Killed { killed, left, .. } => Ok(convert::ended(killed, left)),
        told => Err(unexpected(told)),
    }
}

/// Changes the size of the terminal.
pub(super) async fn resize(dir: &KeeperDir, size: TerminalSize) -> Result<(), Error> {
    match ask(dir, |id| KeeperRequest::Resize { id, cols: size.cols, rows: size.rows }).await? {
        KeeperMessage::Resized { .. } => Ok(()),
        told => Err(unexpected(told)),
    }
}

/// Where the log of a running process ends.
pub(super) async fn end(dir: &KeeperDir) -> Result<Cursor, Error> {
    match ask(dir, |id| KeeperRequest::Status { id }).await? {
        KeeperMessage::Status { end, .. } => Ok(Cursor(end)),
        told => Err(unexpected(told)),
    }
}

async fn ask(dir: &KeeperDir, request: impl FnOnce(u64) -> KeeperRequest) -> Result<KeeperMessage, Error> {
    let mut connection = KeeperConnection::open(dir).await.map_err(|error| unreachable(dir, &error))?;
    let answered = tokio::time::timeout(ANSWER_WITHIN, connection.ask(request))
        .await
        .unwrap_or_else(|late| Err(late.into()));
    answered.map_err(|error| unreachable(dir, &error))
}

/// Why a keeper does not answer. One that has ended took its process with it.
pub(super) fn unreachable(dir: &KeeperDir, error: &io::Error) -> Error {
    match error.kind() {
        _ if !dir.is_alive() => Error::Gone,
        io::ErrorKind::TimedOut => Error::Deadline { what: "the keeper", after: HELLO_WITHIN },
        _ => Error::Unsupported { what: "the keeper", reason: format!("it does not answer: {error}") },
    }
}

/// An answer that says no, or none that was expected.
pub(super) fn unexpected(told: KeeperMessage) -> Error {
    match told {
        KeeperMessage::Error { kind, message, .. } => convert::failure(kind, message),
        _ => Error::Unsupported { what: "the keeper", reason: "it answered something else".to_owned() },
    }
}
