//! Conversions between wire parameters and the engine's types. Pure, so that tables can test them.

use std::path::Path;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use engine::Limits;
use engine::files::{self, Durability, Edit, HashKind, Roots, WriteMode};
use engine::limits::LimitsRequest;
use engine::process::{
    ExitCause, ExitStatus, OutputLimit, ProcessId, ProcessState, Program, Signal, Stdin, TerminalSize,
};
use wire::binary;
use wire::rexd::v1::{self, Encoding, LimitsReport, RpcError, UNLIMITED};

use super::errors::{invalid, rpc_error, text};

/// Columns and rows of a terminal whose client names none.
const DEFAULT_SIZE: TerminalSize = TerminalSize { cols: 120, rows: 32 };

/// The program of `exec.start`. Shell text without `shell: true` is an error.
pub(super) fn exec_program(params: &v1::ExecStart) -> Result<Program, RpcError> {
    match (params.shell, &params.command, params.argv.is_empty()) {
        (true, Some(line), _) => Ok(Program::Shell { line: line.clone(), login: params.login }),
        (true, None, _) => Err(invalid("command", "command required when shell=true")),
        (false, _, false) => Ok(Program::Argv(params.argv.clone())),
        (false, _, true) => Err(invalid("argv", "argv is required")),
    }
}

/// The program of `pty.open`. Shell text alone is enough; its shell is a login shell unless `login` is false.
pub(super) fn pty_program(params: &v1::PtyOpen) -> Result<Program, RpcError> {
    match (&params.command, params.argv.is_empty()) {
        (Some(line), true) => Ok(Program::Shell { line: line.clone(), login: params.login.unwrap_or(true) }),
        (Some(line), false) if params.shell => {
            Ok(Program::Shell { line: line.clone(), login: params.login.unwrap_or(true) })
        }
        (_, false) => Ok(Program::Argv(params.argv.clone())),
        (None, true) => Err(invalid("argv", "argv is required")),
    }
}

/// What `fs.write` does with an existing file.
pub(super) fn write_mode(name: Option<&str>) -> Result<WriteMode, RpcError> {
    match name {
        None | Some("replace") => Ok(WriteMode::Replace),
        Some("create") => Ok(WriteMode::Create),
        Some("append") => Ok(WriteMode::Append),
        Some(_) => Err(invalid("mode", "expected create, replace or append")),
    }
}

/// Permission bits of owner, group and others, from octal digits.
pub(super) fn permissions(digits: Option<&str>) -> Result<Option<u32>, RpcError> {
    let Some(digits) = digits else { return Ok(None) };
    let is_octal =
        (3..=5).contains(&digits.len()) && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    match u32::from_str_radix(digits, 8) {
        Ok(mode) if is_octal => Ok(Some(mode & 0o777)),
        _ => Err(invalid("permissions", "expected octal digits, like 0755")),
    }
}

/// The durability of a write, if the request names it.
pub(super) fn durability(durable: Option<bool>) -> Option<Durability> {
    durable.map(|durable| if durable { Durability::Synced } else { Durability::Relaxed })
}

/// The hash that `fs.stat` returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HashRequest {
    pub(super) kind: HashKind,
    /// Bytes from the beginning; `None` for the whole file.
    pub(super) first: Option<u64>,
}

/// The hash that `fs.stat` returns, if any.
pub(super) fn hash_request(params: &v1::FsStat) -> Result<Option<HashRequest>, RpcError> {
    let first = optional("hash_bytes", params.hash_bytes)?;
    match hash_kind(params.hash.as_deref())? {
        None if first.is_some() => Err(invalid("hash_bytes", "requires hash")),
        None => Ok(None),
        Some(kind) => Ok(Some(HashRequest { kind, first })),
    }
}

/// The hash that is requested, if any.
pub(super) fn hash_kind(name: Option<&str>) -> Result<Option<HashKind>, RpcError> {
    match name {
        None => Ok(None),
        Some("sha256") => Ok(Some(HashKind::Sha256)),
        Some("xxh128") => Ok(Some(HashKind::Xxh128)),
        Some(_) => Err(invalid("hash", "expected sha256 or xxh128")),
    }
}

/// The hash of bytes in hexadecimal.
pub(super) fn hash(kind: HashKind, bytes: &[u8]) -> String {
    hex::encode(files::hash(kind, bytes))
}

/// The edit that `fs.edit` requests.
pub(super) fn edit(params: &v1::FsEdit) -> Edit {
    Edit {
        old: params.old_string.clone(),
        new: params.new_string.clone(),
        replace_all: params.replace_all,
        expected_mtime_ms: params.expected_mtime,
        durability: Durability::default(),
    }
}

/// The standard input of a new process.
pub(super) fn stdin(params: &v1::ExecStart, most: usize) -> Result<Stdin, RpcError> {
    let text = match params.stdin.as_deref().filter(|text| !text.is_empty()) {
        Some(_) if params.no_stdin => return Err(invalid("no_stdin", "not together with stdin")),
        Some(text) => text,
        None if params.no_stdin => return Ok(Stdin::Empty),
        None => return Ok(Stdin::Open),
    };
    let bytes = data("stdin", text, params.stdin_encoding.as_deref(), "stdin_encoding")?;
    if bytes.len() > most {
        return Err(rpc_error(engine::Error::LimitReached {
            what: "stdin bytes at start",
            limit: most as u64,
        }));
    }
    Ok(Stdin::Given(bytes))
}

/// Bytes from text that is UTF-8 or base64.
pub(super) fn data(
    field: &str,
    text: &str,
    encoding: Option<&str>,
    encoding_field: &str,
) -> Result<Bytes, RpcError> {
    match output_encoding(encoding, encoding_field)? {
        Encoding::Utf8 => Ok(Bytes::copy_from_slice(text.as_bytes())),
        Encoding::Base64 | Encoding::Binary => {
            wire::base64::decode(text).map(Bytes::from).map_err(|_bad| invalid(field, "not standard base64"))
        }
    }
}

/// The bytes of a parameter that may be the payload of a binary message instead of text.
pub(super) fn payload_or_text(
    payload: Option<&Bytes>,
    (field, text): (&str, &str),
    encoding: Option<&str>,
) -> Result<Bytes, RpcError> {
    match (payload, encoding == Some(binary::ENCODING)) {
        (Some(payload), true) if text.is_empty() => Ok(payload.clone()),
        (Some(_), true) => Err(invalid(field, "must be empty: the message has a payload")),
        (Some(_), false) => Err(invalid("encoding", "expected binary: the message has a payload")),
        (None, true) => Err(invalid("encoding", "binary is only for messages with a payload")),
        (None, false) => data(field, text, encoding, "encoding"),
    }
}

/// UTF-8 or base64; UTF-8 if none is named.
pub(super) fn output_encoding(name: Option<&str>, field: &str) -> Result<Encoding, RpcError> {
    match name {
        None | Some("utf8") => Ok(Encoding::Utf8),
        Some("base64") => Ok(Encoding::Base64),
        Some(_) => Err(invalid(field, "expected utf8 or base64")),
    }
}

/// The size of a new terminal; absent or 0 means the default.
pub(super) fn new_size(cols: Option<i64>, rows: Option<i64>) -> Result<TerminalSize, RpcError> {
    let requested = size(cols, rows)?;
    let or_default = |requested, default| if requested == 0 { default } else { requested };
    Ok(TerminalSize {
        cols: or_default(requested.cols, DEFAULT_SIZE.cols),
        rows: or_default(requested.rows, DEFAULT_SIZE.rows),
    })
}

/// A terminal size; absent is 0, which keeps the current value.
pub(super) fn size(cols: Option<i64>, rows: Option<i64>) -> Result<TerminalSize, RpcError> {
    let side = |field, requested: Option<i64>| {
        u16::try_from(requested.unwrap_or(0)).map_err(|_range| invalid(field, "expected 0 to 65535"))
    };
    Ok(TerminalSize { cols: side("cols", cols)?, rows: side("rows", rows)? })
}

/// A number that must not be negative; 0 and absence mean the server's default.
pub(super) fn optional(field: &str, requested: Option<i64>) -> Result<Option<u64>, RpcError> {
    match requested {
        None | Some(0) => Ok(None),
        Some(requested) => {
            u64::try_from(requested).map(Some).map_err(|_negative| invalid(field, "must not be negative"))
        }
    }
}

/// As [`optional`], in milliseconds.
pub(super) fn optional_time(field: &str, requested: Option<i64>) -> Result<Option<Duration>, RpcError> {
    Ok(optional(field, requested)?.map(Duration::from_millis))
}

/// As [`optional`], as a count.
pub(super) fn optional_count(field: &str, requested: Option<i64>) -> Result<Option<usize>, RpcError> {
    Ok(optional(field, requested)?.map(|count| usize::try_from(count).unwrap_or(usize::MAX)))
}

/// The output limit of a process.
pub(super) fn output_limit(limits: &Limits, requested: Option<i64>) -> Result<Option<OutputLimit>, RpcError> {
    let requested = optional("max_output_bytes", requested)?;
    Ok(limits.output_bytes(requested).map(|bytes| OutputLimit { bytes, then: limits.on_output_limit }))
}

/// The requested signal; TERM without one.
pub(super) fn signal(requested: Option<&v1::Signal>) -> Result<Signal, RpcError> {
    let parsed = match requested {
        None => Some(Signal::TERM),
        Some(v1::Signal::Name(name)) => Signal::parse(name),
        Some(v1::Signal::Number(number)) => i32::try_from(*number).ok().and_then(Signal::from_number),
    };
    parsed.ok_or_else(|| invalid("signal", "no such signal"))
}

/// The roots in the result of `session.open`: the requested ones inside the configured roots, else the configured ones
/// inside a requested one, else all.
pub(super) fn reported_roots(roots: &Roots, requested: &[String]) -> Vec<String> {
    let configured = roots.paths();
    let mut reported: Vec<String> = Vec::new();
    for requested in requested.iter().filter(|requested| requested.starts_with('/')) {
        let requested = lexical(requested);
        if configured.iter().any(|root| Path::new(&requested).starts_with(root)) {
            reported.push(requested);
        } else {
            reported
                .extend(configured.iter().filter(|root| root.starts_with(&requested)).map(|root| text(root)));
        }
    }
    let mut seen = std::collections::HashSet::new();
    reported.retain(|root| seen.insert(root.clone()));
    if reported.is_empty() { configured.iter().map(|root| text(root)).collect() } else { reported }
}

/// An absolute path without `.`, `..` and repeated slashes, by its text alone.
fn lexical(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// The limits that a session requests.
pub(super) fn requested_limits(requested: Option<&v1::RequestedLimits>) -> Result<LimitsRequest, RpcError> {
    let Some(requested) = requested else { return Ok(LimitsRequest::default()) };
    Ok(LimitsRequest {
        default_timeout: optional_time("limits.default_timeout_ms", requested.default_timeout_ms)?,
        hard_timeout: optional_time("limits.hard_timeout_ms", requested.hard_timeout_ms)?,
        max_output_bytes: optional("limits.max_output_bytes", requested.max_output_bytes)?,
        hard_output_bytes: optional("limits.hard_output_bytes", requested.hard_output_bytes)?,
        max_file_read_bytes: optional("limits.max_file_read_bytes", requested.max_file_read_bytes)?,
        max_processes_per_session: optional_count(
            "limits.max_processes_per_session",
            requested.max_processes_per_session,
        )?,
        max_concurrent_sessions: None,
    })
}

/// The limits as numbers; unlimited is the largest integer that JSON readers keep exactly.
pub(super) fn limits_report(limits: &Limits) -> LimitsReport {
    let time = |limit: Option<Duration>| {
        limit.map_or(UNLIMITED, |limit| u64::try_from(limit.as_millis()).unwrap_or(UNLIMITED))
    };
    let bytes = |limit: Option<u64>| limit.unwrap_or(UNLIMITED);
    LimitsReport {
        default_timeout_ms: time(limits.default_timeout),
        hard_timeout_ms: Some(time(limits.hard_timeout)),
        max_output_bytes: bytes(limits.max_output_bytes),
        hard_output_bytes: Some(bytes(limits.hard_output_bytes)),
        max_file_read_bytes: Some(limits.max_file_read_bytes),
        max_processes_per_session: Some(limits.max_processes_per_session as u64),
        max_concurrent_sessions: Some(limits.max_concurrent_sessions as u64),
    }
}

/// The id of a process's terminal.
pub(super) fn pty_id(process: &ProcessId) -> String {
    format!("pty_{}", process.0.strip_prefix("p_").unwrap_or(&process.0))
}

/// The process of a terminal's id.
pub(super) fn process_of_pty(pty_id: &str) -> Option<ProcessId> {
    pty_id.strip_prefix("pty_").map(|rest| ProcessId(format!("p_{rest}")))
}

/// The exit code on the wire; -1 for a signal.
pub(super) fn exit_code(exit: ExitStatus) -> i64 {
    match exit {
        ExitStatus::Code(code) => i64::from(code),
        ExitStatus::Signal(_) => -1,
    }
}

/// The name of the signal that ended a process.
pub(super) fn exit_signal(exit: ExitStatus) -> Option<String> {
    match exit {
        ExitStatus::Code(_) => None,
        ExitStatus::Signal(signal) => Some(signal.to_string()),
    }
}

/// The status of a process on the wire.
pub(super) fn status(facts: &ProcessState) -> &'static str {
    match (&facts.closed, facts.exited) {
        (Some(closed), _) if closed.cause == ExitCause::TimedOut => "timed_out",
        (Some(closed), _)
            if closed.cause != ExitCause::Itself || matches!(closed.exit, ExitStatus::Signal(_)) =>
        {
            "killed"
        }
        (Some(_), _) => "exited",
        (None, _) => "running",
    }
}

/// A time in RFC 3339 with nanoseconds.
pub(super) fn timestamp(time: SystemTime) -> String {
    match jiff::Timestamp::try_from(time) {
        Ok(time) => format!("{time:.9}"),
        Err(_out_of_range) => "1970-01-01T00:00:00.000000000Z".to_owned(),
    }
}
