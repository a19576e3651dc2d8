//! Ferry: brings a client to the daemon that has its session, and carries bytes both ways until either is done.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use link::stdio::Streams;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, copy_buf};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use wire::jsonrpc::{self, Item, Message};
use wire::rexd::v1::{self, Method as _};

use super::landing::Landings;

/// A first line that is longer asks for something else.
const LONGEST_FIRST: usize = 4 * 1024;
/// An answer to `session.resume` is shorter.
const LONGEST_ANSWER: u64 = 1024 * 1024;
/// How long the older daemon may take to answer. It has nothing to do first.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How long to wait for a landing: the older daemon may be about to notice that its streams are gone.
const LANDING_WITHIN: Duration = Duration::from_millis(250);
/// How often it is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Bytes that are carried at once.
const CARGO: usize = 256 * 1024;

/// What came of bringing a client to its session.
#[derive(Debug)]
pub enum Crossing {
    /// It was served there to its end.
    Over,
    /// It wants something else, or was not let in: it is served here.
    Stays(Streams),
}

/// Looks at the first line. If it takes up a session of another daemon, serves as a ferry to there.
pub(super) async fn cross(landings: &Landings, mut streams: Streams, stop: &CancellationToken) -> Crossing {
    let gone = streams.reader_gone();
    let first = tokio::select! {
        first = streams.first_line(LONGEST_FIRST) => first,
        () = gone => None,
        () = stop.cancelled() => None,
    };
    let Some(wanted) = first.and_then(Wanted::read) else { return Crossing::Stays(streams) };
    let landed = tokio::select! {
        landed = land(landings, &wanted) => landed,
        () = stop.cancelled() => return Crossing::Stays(streams),
    };
    let (socket, answer) = match landed {
        Ok(landed) => landed,
        Err(error) => {
            tracing::debug!(%error, session = wanted.session, "no other daemon has the session");
            return Crossing::Stays(streams);
        }
    };
    if is_refusal(&answer) {
        streams.skip_line();
        if let Err(error) = streams.write(&answer).await {
            tracing::debug!(%error, "the client did not hear the answer");
        }
        return Crossing::Stays(streams);
    }
    streams.skip_line();
    carry(streams, socket, answer, stop).await;
    Crossing::Over
}

/// A client that takes up a session.
struct Wanted {
    session: String,
    /// What it said, with its line end.
    line: Vec<u8>,
}

impl Wanted {
    fn read(line: &[u8]) -> Option<Wanted> {
        let Ok(Message::Single(Item::Call(call))) = jsonrpc::parse(line) else { return None };
        // Without an id there will be no answer to go by.
        if call.method != v1::SessionResume::NAME || call.id.is_none() {
            return None;
        }
        let params: v1::SessionResume = v1::decode_params_text(call.params.map(|raw| raw.get())).ok()?;
        let line = [line, b"\n"].concat();
        Some(Wanted { session: params.session_id, line })
    }
}

/// Says at the landing what the client wants; the answer, with its line end and perhaps what follows it.
async fn land(landings: &Landings, wanted: &Wanted) -> io::Result<(UnixStream, BytesMut)> {
    let mut socket = reach(landings, &wanted.session).await?;
    let talk = async {
        socket.write_all(&wanted.line).await?;
        let mut answer = Vec::new();
        // Reads no more than what is there: nothing that follows is lost, it is in the buffer of the reader.
        let mut reader = BufReader::new((&mut socket).take(LONGEST_ANSWER));
        if reader.read_until(b'\n', &mut answer).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
        }
        answer.extend_from_slice(reader.buffer());
        Ok(BytesMut::from(answer.as_slice()))
    };
    let answer = tokio::time::timeout(ANSWER_WITHIN, talk).await??;
    Ok((socket, answer))
}

async fn reach(landings: &Landings, session: &str) -> io::Result<UnixStream> {
    let since = tokio::time::Instant::now();
    loop {
        match landings.reach(session).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound && since.elapsed() < LANDING_WITHIN => {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            reached => return reached,
        }
    }
}

/// Whether the older daemon said no.
fn is_refusal(answer: &[u8]) -> bool {
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match jsonrpc::parse(line) {
        Ok(Message::Single(Item::Response(response))) => response.error.is_some(),
        _ => true,
    }
}

/// Carries everything both ways. Who reads slowly slows down who writes, as if they held each other's pipes.
async fn carry(streams: Streams, socket: UnixStream, answer: BytesMut, stop: &CancellationToken) {
    let gone = streams.reader_gone();
    let mut parts = streams.into_parts();
    let (from, mut to) = socket.into_split();
    let there = async {
        to.write_all(&parts.read).await?;
        if let Some(input) = parts.input {
            copy_buf(&mut BufReader::with_capacity(CARGO, input), &mut to).await?;
        }
        // The client is done; what it has asked for is still answered.
        to.shutdown().await
    };
    let back = async {
        parts.output.write_all(&answer).await?;
        copy_buf(&mut BufReader::with_capacity(CARGO, from), &mut parts.output).await
    };
    let there = async {
        if let Err(error) = there.await {
            tracing::debug!(%error, "the older daemon takes no more");
        }
        // It is the older daemon that says when all is said.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = there => {}
        carried = back => if let Err(error) = carried {
            tracing::debug!(%error, "the client takes no more");
        },
        () = gone => {}
        () = stop.cancelled() => {}
    }
}
