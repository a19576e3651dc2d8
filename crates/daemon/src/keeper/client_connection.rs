//! A client's connection to a keeper: connect, negotiate the version, send requests, receive messages.

use std::io;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use bytes::BytesMut;
use engine::Error;
use engine::process::{Cursor, KillOutcome, Signal, TerminalSize, TerminalState};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use wire::keeper::{
    Decoder, KeeperFrame, KeeperMessage, KeeperRequest, MAX_INPUT_BYTES, MAX_KEY_BYTES, Version,
    encode_request,
};

use super::convert;
use super::dir::{KeeperDir, SOCKET};

/// The timeout for connecting and negotiating the version.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// The timeout of a request; longer than the kill of any process tree.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// The effect of an input with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputOutcome {
    /// The process gets the input.
    Written,
    /// An earlier input had the same key; this one had no effect.
    Repeated,
}

/// A connection with a negotiated version.
#[derive(Debug)]
pub(super) struct KeeperConnection {
    socket: UnixStream,
    incoming: BytesMut,
    decoder: Decoder,
    version: Version,
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
        let (version, incoming) = (Version::V1, BytesMut::new());
        let decoder = Decoder::new(version);
        let mut connection = KeeperConnection { socket, incoming, decoder, version, last_id: 0 };
        let newest = Version::NEWEST;
        match connection.request(|id| KeeperRequest::Hello { id, version: newest.number() }).await? {
            KeeperMessage::Hello { version, .. } if version > 0 && version <= newest.number() => {
                let negotiated = newest.common(version).ok_or(io::ErrorKind::Unsupported)?;
                (connection.decoder, connection.version) = (Decoder::new(negotiated), negotiated);
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
    let status = dir.status();
    // After the end the request is for its background jobs.
    let (is_open, has_ended) = (matches!(status, Ok(None)), matches!(status, Ok(Some(_))));
    let request = |id| KeeperRequest::Kill { id, signal: signal.number() };
    let response = match KeeperConnection::open(dir).await {
        Ok(mut connection) => match send_request(dir, &mut connection, request).await {
            // It ended with its keeper after the request was sent; the members are unknown.
            Err(Error::Gone) if signal.ends() && !has_ended => return Ok(KillOutcome::default()),
            response => response,
        },
        Err(error) => Err(unreachable(dir, &error)),
    };
    // Its keeper, without background jobs, is about to end.
    let response = response.map_err(|error| match error {
        Error::Unsupported { .. } if has_ended => Error::Gone,
        error => error,
    });
    match response {
        Ok(KeeperMessage::Killed { killed, left, complete, .. }) => Ok(KillOutcome {
            killed: convert::members_from_wire(killed),
            remaining: convert::members_from_wire(left),
            is_complete: complete,
        }),
        Ok(response) => Err(unexpected(response)),
        // The keeper is too busy to respond, but the process is dead. Other members are unknown.
        Err(Error::Deadline { .. }) if signal.ends() && is_open && dir.has_leader_exited() => {
            Ok(KillOutcome::default())
        }
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

/// Sends input that takes effect once per key.
pub(super) async fn input_once(dir: &KeeperDir, key: &str, bytes: &[u8]) -> Result<InputOutcome, Error> {
    let limit_reached = |what, limit: usize| Error::LimitReached { what, limit: limit as u64 };
    if key.len() > MAX_KEY_BYTES {
        return Err(limit_reached("bytes of the key of an input", MAX_KEY_BYTES));
    }
    if bytes.len() > MAX_INPUT_BYTES {
        return Err(limit_reached("bytes of an input with a key", MAX_INPUT_BYTES));
    }
    let mut connection = open_newest(dir, "input with a key").await?;
    let (data, key) = (wire::base64::encode(bytes), Some(key.to_owned()));
    // No deadline: the input waits for a program that does not read, as an input without a key does.
    let response = connection.request(|id| KeeperRequest::Input { id, data, eof: false, key }).await;
    match response.map_err(|error| unreachable(dir, &error))? {
        KeeperMessage::Accepted { repeated: false, .. } => Ok(InputOutcome::Written),
        KeeperMessage::Accepted { repeated: true, .. } => Ok(InputOutcome::Repeated),
        response => Err(unexpected(response)),
    }
}

/// Examines the terminal of a running process.
pub(super) async fn terminal(dir: &KeeperDir) -> Result<TerminalState, Error> {
    let mut connection = open_newest(dir, "the state of the terminal").await?;
    let response = send_request(dir, &mut connection, |id| KeeperRequest::Terminal { id }).await?;
    convert::terminal_from_wire(&response).ok_or_else(|| unexpected(response))
}

/// A connection for a request that older keepers do not understand.
async fn open_newest(dir: &KeeperDir, what: &'static str) -> Result<KeeperConnection, Error> {
    let connection = KeeperConnection::open(dir).await.map_err(|error| unreachable(dir, &error))?;
    if connection.version < Version::V3 {
        let number = connection.version.number();
        let reason = format!("the process belongs to a keeper of protocol {number}, which is older than 3");
        return Err(Error::Unsupported { what, reason });
    }
    Ok(connection)
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
    if dir.has_ended() {
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
