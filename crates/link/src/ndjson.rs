//! Newline-delimited JSON over any pair of byte streams.
//!
//! Reading: CRLF counts as a newline, blank lines are skipped, the last line needs no newline, and a line over the limit is
//! reported and skipped without being stored. Binary messages stand between lines, if they were negotiated. Writing: responses first, all queued messages in one vectored write.

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::lanes::lanes;
pub use crate::reader::Lines;
use crate::writer::write_lines;
use crate::{Limits, Link, Receiver, Writing};

/// A link over `input` and `output`. Must be called within a tokio runtime, which then runs the writing task.
pub fn link<R, W>(input: R, output: W, limits: &Limits) -> Link
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let lines = Lines::begun(input, (limits.line_bytes, &limits.budget), (BytesMut::new(), false));
    link_until(lines, output, limits, std::future::pending())
}

/// Like [`link`] for an output whose closed reader can be detected.
pub(crate) fn link_until<R, W, G>(lines: Lines<R>, output: W, limits: &Limits, gone: G) -> Link
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
    G: Future<Output = ()> + Send + 'static,
{
    let (outgoing, ends) = lanes(limits);
    let outgoing = outgoing.with_binary(lines.binary());
    Link {
        incoming: Receiver::new(lines),
        outgoing,
        writing: Writing::spawn(write_lines(output, ends, gone)),
    }
}
