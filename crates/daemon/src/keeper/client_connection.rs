//! A client's connection to a keeper: connect, negotiate the version, send requests, receive messages.

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

/// The timeout for connecting and negotiating the version.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// The timeout of a request; longer than the kill of any process tree.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// A connection with a negotiated version.
#[derive(Debug)]
pub(super) struct KeeperConnection {
    socket: UnixStream,
    incoming: BytesMut,
    decoder: Decoder,
    last_id: u64,
}

impl KeeperConnection {
    pub(super) async fn open(dir: &KeeperDir) -> io::Result<KeeperConnection> {
        tokio::time::timeout(HELLO_TIMEOUT, KeeperConnection::negotiate(dir)).await?
    }

    async fn negotiate(dir: &KeeperDir) -> io::Result<KeeperConnection> {
        let directory = dir.open()?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd());
        let socket = UnixStream::connect(path).await?;
        if socket.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
            let reason = "the keeper belongs to another user";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        let decoder = Decoder::new(Version::V1);
        let mut connection = KeeperConnection { socket, incoming: BytesMut::new(), decoder, last_id: 0 };
        let newest = Version::NEWEST;
        match connection.request(|id| KeeperRequest::Hello { id, version: newest.number() }).await? {
            KeeperMessage::Hello { version, .. } if version > 0 && version <= newest.number() => {
                let negotiated = newest.common(version).ok_or(io::ErrorKind::Unsupported)?;
                connection.decoder = Decoder::new(negotiated);
                Ok(connection)
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends a request and waits for its response.
    pub(super) async fn request(
        &mut self,
        request: impl FnOnce(u64) -> KeeperRequest,
    ) -> io::Result<KeeperMessage> {
        self.last_id += 1;
        self.socket.write_all(&encode_request(&request(self.last_id))).await?;
        match self.next_frame().await? {
            Some(KeeperFrame::Message(message)) => Ok(message),
            Some(KeeperFrame::Output { .. }) => Err(io::ErrorKind::InvalidData.into()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// The next frame; `None` when the keeper has closed the connection. Dropping this future loses nothing.
    pub(super) async fn next_frame(&mut self) -> io::Result<Option<KeeperFrame>> {
        loop {
            let next = self.decoder.next(&mut self.incoming);
            if let Some(frame) = next.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))? {
                return Ok(Some(frame));
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

/// Kills the tree or signals its group. Uses a new connection, so that no other request is ahead of it.
pub(super) async fn kill(dir: &KeeperDir, signal: Signal) -> Result<KillOutcome, Error> {
    let mut connection = KeeperConnection::open(dir).await.map_err(|error| unreachable(dir, &error))?;
    match send_request(dir, &mut connection, |id| KeeperRequest::Kill { id, signal: signal.number() }).await {
        Ok(KeeperMessage::Killed { killed, left, complete, .. }) => Ok(KillOutcome {
            killed: convert::members_from_wire(killed),
            remaining: convert::members_from_wire(left),
            is_complete: complete,
        }),
        Ok(response) => Err(unexpected(response)),
        // It ended with its keeper after the request was sent; the members are unknown.
        Err(Error::Gone) if signal.ends() => Ok(KillOutcome::default()),
        Err(error) => Err(error),
    }
}

/// Changes the size of the terminal.
pub(super) async fn resize(dir: &KeeperDir, size: TerminalSize) -> Result<(), Error> {
    match request(dir, |id| KeeperRequest::Resize { id, cols: size.cols, rows: size.rows }).await? {
        KeeperMessage::Resized { .. } => Ok(()),
        response => Err(unexpected(response)),
    }
}

/// The end of the log of a running process.
pub(super) async fn end(dir: &KeeperDir) -> Result<Cursor, Error> {
    match request(dir, |id| KeeperRequest::Status { id }).await? {
        KeeperMessage::Status { end, .. } => Ok(Cursor(end)),
        response => Err(unexpected(response)),
    }
}

async fn request(
    dir: &KeeperDir,
    message: impl FnOnce(u64) -> KeeperRequest,
) -> Result<KeeperMessage, Error> {
    let mut connection = KeeperConnection::open(dir).await.map_err(|error| unreachable(dir, &error))?;
    send_request(dir, &mut connection, message).await
}

async fn send_request(
    dir: &KeeperDir,
    connection: &mut KeeperConnection,
    message: impl FnOnce(u64) -> KeeperRequest,
) -> Result<KeeperMessage, Error> {
    let response = tokio::time::timeout(REQUEST_TIMEOUT, connection.request(message))
        .await
        .unwrap_or_else(|late| Err(late.into()));
    response.map_err(|error| unreachable(dir, &error))
}

/// The error for a keeper that does not respond. If the keeper has ended, so has its process.
pub(super) fn unreachable(dir: &KeeperDir, error: &io::Error) -> Error {
    if !dir.is_alive() {
        return Error::Gone;
    }
    match error.kind() == io::ErrorKind::TimedOut {
        true => Error::Deadline { what: "the keeper", after: HELLO_TIMEOUT },
        false => Error::Unsupported { what: "the keeper", reason: format!("no response: {error}") },
    }
}

/// The error for a response that is an error message, or not the expected one.
pub(super) fn unexpected(response: KeeperMessage) -> Error {
    if let KeeperMessage::Error { kind, message, .. } = response {
        return convert::error_from_wire(kind, message);
    }
    Error::Unsupported { what: "the keeper", reason: "unexpected response".to_owned() }
}
