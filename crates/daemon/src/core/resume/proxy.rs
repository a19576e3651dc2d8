//! The resume proxy: connects a client to the daemon that has its session, and copies bytes in both directions.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use link::stdio::Streams;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy_buf};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::{self, Item, Message};
use wire::rexd::v1::{self, Method as _};

use super::{is_issuer_running, session_of_key};
use crate::core::sockets::SocketDir;

/// A longer first line is neither `session.resume` nor `session.open` with a key.
const MAX_FIRST_LINE: usize = 4 * 1024;
/// The response is shorter.
const MAX_RESPONSE: u64 = 1024 * 1024;
/// How long the older daemon may take to respond.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for the socket of a daemon that runs: if it is busy, it notices late that its streams are gone.
const SOCKET_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the socket is tried.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// The buffer of each direction.
const COPY_BUFFER: usize = 256 * 1024;

/// Whether a client was served by the daemon that has its session.
#[derive(Debug)]
pub enum HandoverOutcome {
    /// It was, until it was done.
    Completed,
    /// It requests something else or was refused: it is served here.
    Declined(Streams),
}

/// Reads the first line. If it resumes a session of another daemon, copies bytes to and from that daemon.
pub(super) async fn hand_over(
    sockets: &SocketDir,
    mut streams: Streams,
    stop: &CancellationToken,
) -> HandoverOutcome {
    let gone = streams.reader_gone();
    let first = tokio::select! {
        first = streams.first_line(MAX_FIRST_LINE) => first,
        () = gone => None,
        () = stop.cancelled() => None,
    };
    let Some(request) = first.and_then(ResumeRequest::read) else {
        return HandoverOutcome::Declined(streams);
    };
    let connected = tokio::select! {
        connected = connect(sockets, &request) => connected,
        () = stop.cancelled() => return HandoverOutcome::Declined(streams),
    };
    let (socket, response) = match connected {
        Ok(connected) => connected,
        Err(error) => {
            tracing::debug!(%error, session = request.session, "no other daemon has this session");
            return HandoverOutcome::Declined(streams);
        }
    };
    if is_refusal(&response) {
        streams.skip_line();
        if let Err(error) = streams.write(&response).await {
            tracing::debug!(%error, "the client did not read the response");
        }
        return HandoverOutcome::Declined(streams);
    }
    streams.skip_line();
    copy_streams(streams, socket, response, stop).await;
    HandoverOutcome::Completed
}

/// A request to continue a session: by `session.resume`, or by `session.open` that is sent again with its key.
struct ResumeRequest {
    session: String,
    token: String,
    /// The request with its line end.
    line: Vec<u8>,
}

impl ResumeRequest {
    fn read(line: &[u8]) -> Option<ResumeRequest> {
        let Ok(Message::Single(Item::Call(call))) = jsonrpc::parse(line) else { return None };
        // Without an id there is no response to decide by.
        call.id.as_ref()?;
        let params = call.params.map(|raw| raw.get());
        let (session, token) = match &*call.method {
            v1::SessionResume::NAME => {
                let params: v1::SessionResume = v1::decode_params_text(params).ok()?;
                (params.session_id, params.resume_token)
            }
            v1::SessionOpen::NAME => {
                let params: v1::SessionOpen = v1::decode_params_text(params).ok()?;
                params.resent_after_ms?;
                // Its socket exists as long as the session does: there is nothing to wait for.
                (session_of_key("", &params.resume_key?), String::new())
            }
            _ => return None,
        };
        let line = [line, b"\n"].concat();
        Some(ResumeRequest { session, token, line })
    }
}

/// Sends the request to the older daemon. Returns the response with its line end, and possibly what follows it.
async fn connect(sockets: &SocketDir, request: &ResumeRequest) -> io::Result<(UnixStream, BytesMut)> {
    let mut socket = open_socket(sockets, request).await?;
    let exchange = async {
        socket.write_all(&request.line).await?;
        let mut response = Vec::new();
        // What was read beyond the response is in the buffer and is not lost.
        let mut reader = BufReader::new((&mut socket).take(MAX_RESPONSE));
        if reader.read_until(b'\n', &mut response).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        response.extend_from_slice(reader.buffer());
        Ok(BytesMut::from(response.as_slice()))
    };
    let response = tokio::time::timeout(RESPONSE_TIMEOUT, exchange).await??;
    Ok((socket, response))
}

/// Connects to the daemon that has the session. Waits for its socket as long as the daemon of the token runs.
async fn open_socket(sockets: &SocketDir, request: &ResumeRequest) -> io::Result<UnixStream> {
    let since = tokio::time::Instant::now();
    loop {
        // Before the attempt: a daemon that ends after it has removed its socket.
        let may_appear = is_issuer_running(&request.token) && since.elapsed() < SOCKET_TIMEOUT;
        let result = sockets.connect(&request.session).await;
        let is_missing = result.as_ref().is_err_and(|error| {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
        });
        if !is_missing || !may_appear {
            return result;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

/// Whether the older daemon refused.
fn is_refusal(response: &[u8]) -> bool {
    let line = response.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match jsonrpc::parse(line) {
        Ok(Message::Single(Item::Response(response))) => response.error.is_some(),
        _ => true,
    }
}

/// Copies bytes in both directions until one end is done. A slow reader slows the writer down.
async fn copy_streams(streams: Streams, socket: UnixStream, response: BytesMut, stop: &CancellationToken) {
    let gone = streams.reader_gone();
    let mut parts = streams.into_parts();
    let (from, mut to) = socket.into_split();
    let upload = async {
        to.write_all(&parts.read).await?;
        if let Some(input) = parts.input {
            copy_buf(&mut BufReader::with_capacity(COPY_BUFFER, input), &mut to).await?;
        }
        // The client is done sending; its requests are still answered.
        to.shutdown().await
    };
    let download = async {
        parts.output.write_all(&response).await?;
        copy_buf(&mut BufReader::with_capacity(COPY_BUFFER, from), &mut parts.output).await
    };
    let upload = async {
        if let Err(error) = upload.await {
            tracing::debug!(%error, "the older daemon closed its end");
        }
        // The older daemon decides when the connection ends.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = upload => {}
        result = download => if let Err(error) = result {
            tracing::debug!(%error, "the client closed its end");
        },
        () = gone => {}
        () = stop.cancelled() => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::core::resume::token_of;

    const SESSION: &str = "s_0123456789ab";

    fn request(token: &str) -> ResumeRequest {
        ResumeRequest { session: SESSION.to_owned(), token: token.to_owned(), line: Vec::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_is_waited_for_only_while_the_daemon_of_the_token_runs() {
        let state = tempfile::tempdir().unwrap();
        let sockets = SocketDir::new(state.path().join("sessions"), "s_");
        sockets.create().unwrap();
        let waited = async |token: &str| {
            let since = Instant::now();
            let error = open_socket(&sockets, &request(token)).await.unwrap_err();
            (error.kind(), since.elapsed())
        };
        // The same pid with another start time was reused.
        let reused = format!("{}.1.secret", std::process::id());
        for token in ["", "secret", "1.secret", "x.y.secret", "0.0.secret", &reused] {
            assert_eq!(waited(token).await, (io::ErrorKind::NotFound, Duration::ZERO), "{token:?}");
        }
        // The clock is paused: it moves only while nothing but time is waited for.
        let (kind, elapsed) = waited(&token_of("secret")).await;
        assert_eq!(kind, io::ErrorKind::NotFound);
        assert!(elapsed >= SOCKET_TIMEOUT, "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_socket_that_a_busy_daemon_creates_late_is_found() {
        let state = tempfile::tempdir().unwrap();
        let sockets = SocketDir::new(state.path().join("sessions"), "s_");
        sockets.create().unwrap();
        let late = async {
            tokio::time::advance(SOCKET_TIMEOUT / 2).await;
            sockets.bind(SESSION).unwrap()
        };
        let request = request(&token_of("secret"));
        let (found, _bound) = tokio::join!(open_socket(&sockets, &request), late);
        found.unwrap();
    }
}
