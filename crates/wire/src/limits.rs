//! Decode budgets: how much of a peer's input is looked at before it is refused.

/// One message of NDJSON, without its newline, unless the operator says otherwise.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// Calls in one batch. A batch is answered in one line, so its size bounds that line too.
pub const MAX_BATCH_CALLS: usize = 1_024;

/// Bytes of a request id. It is kept while the request runs and is echoed in its answer.
pub const MAX_ID_BYTES: usize = 1_024;

/// Requests of one connection that may run at the same time.
pub const MAX_IN_FLIGHT: usize = 1_024;

/// Bytes of params of one connection's running requests together: large ones wait for each other in memory.
pub const MAX_IN_FLIGHT_BYTES: usize = 4 * MAX_LINE_BYTES;

/// Bytes of a client's value that an error message quotes back.
pub const MAX_QUOTED_BYTES: usize = 200;

/// The longest line sent to a client that is known to die at 1 MiB.
pub const SAFE_FRAME_BYTES: usize = 950_000;
