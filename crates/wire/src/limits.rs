//! The limits for decoding a peer's messages.

/// Bytes of one NDJSON message without its newline; a longer one is skipped and answered with an error. The configuration may
/// set another limit.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// Calls in one batch; a larger batch is refused. The responses of a batch are one line, which this limits too.
pub const MAX_BATCH_CALLS: usize = 1_024;

/// Bytes of a request id, which is kept while the request runs and repeated in its response; a longer id is refused.
pub const MAX_ID_BYTES: usize = 1_024;

/// Requests of one connection that run at the same time; the next one is refused.
pub const MAX_IN_FLIGHT: usize = 1_024;

/// Bytes of params of all running requests of one connection; the next request is refused.
pub const MAX_IN_FLIGHT_BYTES: usize = 4 * MAX_LINE_BYTES;

/// Characters of a client's value that an error message quotes.
pub const MAX_QUOTED_BYTES: usize = 200;

/// Bytes of the longest line sent to a client that fails at 1 MiB.
pub const SAFE_FRAME_BYTES: usize = 950_000;
