//! Reports the output and the status of a process to a model; long output is truncated in the middle.

use std::fmt::Write as _;

use client::ProcessExit;
use serde_json::{Value, json};

use super::limits::Limits;
use super::outcome::ToolOutcome;
use super::spool::SpoolChunk;
use super::tracked::{TrackedProcess, TrackedStatus};
use super::truncate;

/// Bytes shown of the start of long output, and of its end.
const SHOWN_EACH: usize = 16 * 1024;
/// Lines shown of the start of long output, and of its end.
const LINES_EACH: usize = 900;
/// Bytes of one page.
pub(super) const PAGE: usize = 32 * 1024;
/// Lines of one page.
const PAGE_LINES: usize = 2 * LINES_EACH;
/// The maximum growth of bytes when they are shown: an invalid byte becomes a character of three bytes.
const GROWTH: usize = 3;

/// The outcome of `bash`: all output, or its start and its end.
pub(super) async fn command_outcome(
    process: &TrackedProcess,
    run: &RunNotes,
    background: bool,
) -> Result<ToolOutcome, ToolOutcome> {
    let status = process.status();
    let head = piece(process, process.from, PAGE).await?;
    let (mut output, mut structured) = (String::new(), state(process, &status));
    let (mut replaced, mut omitted) = (0, String::new());
    let cursor =
        if head.end() >= status.end && fitting_head(&head.bytes, PAGE, PAGE_LINES) == head.bytes.len() {
            replaced += shown(&head, &mut output);
            head.end()
        } else {
            let tail_start = status.end.saturating_sub(SHOWN_EACH as u64).max(process.from);
            let cut = Cut::between(process, head, piece(process, tail_start, SHOWN_EACH).await?);
            replaced += shown(&cut.head, &mut output);
            end_line(&mut output);
            writeln!(output, "[{} bytes, {} line ends omitted here]", cut.bytes(), cut.lines).ok();
            replaced += shown(&cut.tail, &mut output);
            omitted = format!(", {} of {} bytes of output omitted", cut.bytes(), status.end - process.from);
            structured["cut"] = cut.to_json();
            cut.head.end()
        };
    process.set_shown(cursor);
    structured["output"] = json!(output);
    structured["cursor"] = json!(cursor);
    structured["truncated"] = json!(!omitted.is_empty());
    if output.is_empty() {
        output.push_str(if status.is_over() { "(no output)" } else { "(no output yet)" });
    }
    let mut text = heading(process, &status, run, &omitted);
    text.push_str(&output);
    end_line(&mut text);
    text.push_str(&notes(&status, replaced));
    if !omitted.is_empty() {
        let read = json!({ "process_id": process.id, "cursor": cursor });
        let search = json!({ "pattern": "…", "path": format!("process:{}", process.id) });
        writeln!(
            text,
            "[next: bash_output {read} reads the omitted part, grep {search} searches all output]"
        )
        .ok();
    }
    if !status.is_over() {
        text.push_str(&next_while_running(process, background));
    }
    let is_error =
        status.cut.is_some() || status.exit.as_ref().is_some_and(|exit| run.limits.named(exit).is_some());
    Ok(ToolOutcome { is_error, ..ToolOutcome::text(text.trim_end()).with(structured) })
}

/// The outcome of `bash_output`: one page.
pub(super) async fn page_outcome(process: &TrackedProcess, from: u64) -> Result<ToolOutcome, ToolOutcome> {
    let status = process.status();
    let mut page = piece(process, from, PAGE).await?;
    // A page ends at a line or a character, unless it is the last one.
    let limit = if page.end() < status.end { PAGE - 4 } else { PAGE };
    page.bytes.truncate(fitting_head(&page.bytes, limit, PAGE_LINES));
    let mut output = String::new();
    let replaced = shown(&page, &mut output);
    let mut structured = state(process, &status);
    structured["output"] = json!(output);
    if replaced > 0 {
        structured["output_base64"] = json!(base64_simd::STANDARD.encode_to_string(&page.bytes));
    }
    let (start, cursor) = (page.start, page.end());
    process.set_shown(cursor);
    for (name, number) in [("start", start), ("cursor", cursor), ("lost", page.lost)] {
        structured[name] = json!(number);
    }
    structured["truncated"] = json!(cursor < status.end);
    let mut range = format!(", bytes {start} to {cursor} of {}", status.end);
    if page.lost > 0 {
        write!(range, ", {} bytes before byte {start} are lost", page.lost).ok();
    }
    let mut text = heading(process, &status, &RunNotes::default(), &range);
    if output.is_empty() {
        output.push_str(if status.is_over() { "(no more output)" } else { "(no new output)" });
    }
    text.push_str(&output);
    end_line(&mut text);
    text.push_str(&notes(&status, replaced));
    if cursor < status.end {
        let next = json!({ "process_id": process.id, "cursor": cursor });
        writeln!(text, "[next: bash_output {next}]").ok();
    } else if !status.is_over() {
        text.push_str(&next_while_running(process, true));
    }
    Ok(ToolOutcome::text(text.trim_end()).with(structured))
}

async fn piece(process: &TrackedProcess, from: u64, limit: usize) -> Result<SpoolChunk, ToolOutcome> {
    let read = process.spool.read(from, limit).await;
    read.map_err(|error| {
        ToolOutcome::failed(format!("cannot read the stored output of {}: {error}", process.id))
    })
}

/// Appends bytes to the text; returns how many were not UTF-8.
fn shown(piece: &SpoolChunk, text: &mut String) -> usize {
    let shown = truncate::show(&piece.bytes);
    text.push_str(&shown.text);
    shown.replaced
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// The limit of bytes whose text is at most `limit` long.
fn limit_as_text(bytes: &[u8], limit: usize) -> usize {
    let text_bytes = truncate::show(bytes).text.len();
    if text_bytes > bytes.len().max(limit) { limit / GROWTH } else { limit }
}

/// The end of the first bytes that fit: at a line end if lines are short, otherwise between characters.
fn fitting_head(bytes: &[u8], limit: usize, lines: usize) -> usize {
    let limit = limit_as_text(bytes, limit);
    truncate::end_of_head(bytes, limit).min(truncate::end_of_lines(bytes, lines))
}

/// The start of the last bytes that fit.
fn fitting_tail(bytes: &[u8], limit: usize, lines: usize) -> usize {
    let limit = limit_as_text(bytes, limit);
    truncate::start_of_tail(bytes, limit).max(truncate::start_of_lines(bytes, lines))
}

/// The start and the end of long output, with the size of the omitted part.
struct Cut {
    head: SpoolChunk,
    tail: SpoolChunk,
    lines: u64,
}

impl Cut {
    fn between(process: &TrackedProcess, mut head: SpoolChunk, mut tail: SpoolChunk) -> Cut {
        head.bytes.truncate(SHOWN_EACH);
        head.bytes.truncate(fitting_head(&head.bytes, SHOWN_EACH - 4, LINES_EACH));
        let overlap = usize::try_from(head.end().saturating_sub(tail.start)).unwrap_or(usize::MAX);
        let skipped =
            fitting_tail(&tail.bytes, SHOWN_EACH - 4, LINES_EACH).max(overlap.min(tail.bytes.len()));
        tail.bytes.drain(..skipped);
        tail.start += skipped as u64;
        let ends = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let lines = process.spool.span().lines.saturating_sub(ends(&head.bytes) + ends(&tail.bytes));
        Cut { head, tail, lines }
    }

    fn bytes(&self) -> u64 {
        self.tail.start - self.head.end()
    }

    fn to_json(&self) -> Value {
        json!({ "from": self.head.end(), "to": self.tail.start, "bytes": self.bytes(), "lines": self.lines })
    }
}

/// The status of a process as JSON.
fn state(process: &TrackedProcess, status: &TrackedStatus) -> Value {
    let exit = status.exit.as_ref();
    json!({
        "process_id": process.id,
        "status": word(status),
        "exit_code": exit.map(|exit| exit.code),
        "signal": exit.and_then(|exit| exit.signal.clone()),
        "timed_out": exit.is_some_and(|exit| exit.timed_out),
        "output_limit_exceeded": exit.is_some_and(|exit| exit.output_limit_exceeded),
        "duration_ms": exit.map(|exit| u64::try_from(exit.duration.as_millis()).unwrap_or(u64::MAX)),
        "end": status.end,
        "remarks": status.notes,
    })
}

fn word(status: &TrackedStatus) -> &'static str {
    match (&status.exit, &status.cut) {
        (Some(exit), _) if exit.timed_out => "timed_out",
        (Some(exit), _) if exit.signal.is_some() => "killed",
        (Some(_), _) => "exited",
        (None, Some(_)) => "lost",
        (None, None) => "running",
    }
}

/// What is known about a command beside its process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RunNotes {
    /// The limits that it runs under.
    pub(super) limits: Limits,
    /// Whether `sh` runs it, because the target has no `bash`.
    pub(super) lacks_bash: bool,
}

/// The first line: the exit code, the process, whether it still runs, and which part of the output follows.
fn heading(process: &TrackedProcess, status: &TrackedStatus, run: &RunNotes, output: &str) -> String {
    let id = &process.id;
    let state = match (&status.exit, &status.cut) {
        (Some(exit), _) => format!("{}, process {id} has ended", ended(exit, &run.limits)),
        (None, Some(why)) => format!("no exit code, lost contact with process {id}: {why}"),
        (None, None) => format!("no exit code yet, process {id} is still running"),
    };
    let shell = if run.lacks_bash { ", run by sh because the target has no bash" } else { "" };
    format!("[{state}{shell}{output}]\n")
}

fn ended(exit: &ProcessExit, limits: &Limits) -> String {
    let mut text = match &exit.signal {
        Some(signal) => format!("killed by signal {signal}, exit code {}", exit.status()),
        None => format!("exit code {}", exit.code),
    };
    if let Some(limit) = limits.named(exit) {
        text = format!("{limit}, {text}");
    } else if exit.timed_out {
        text = format!("timed out, {text}");
    } else if exit.output_limit_exceeded {
        text = format!("killed: output exceeds the limit, {text}");
    }
    text
}

/// Notes below the output.
fn notes(status: &TrackedStatus, replaced: usize) -> String {
    let mut text = String::new();
    if replaced > 0 {
        let how = "use bash with xxd or base64 to see them";
        writeln!(text, "[{replaced} bytes are not UTF-8 and shown as \u{fffd}; {how}]").ok();
    }
    for note in &status.notes {
        writeln!(text, "[{note}]").ok();
    }
    if let Some(denied) = status.exit.as_ref().and_then(|exit| exit.sandbox_denied.as_ref()) {
        let at = denied.path.as_deref().map(|path| format!(" at {path}")).unwrap_or_default();
        writeln!(text, "[denied by the sandbox: {} access{at}]", denied.access).ok();
    }
    if let Some(exit) = status.exit.as_ref().filter(|exit| !exit.held_by.is_empty()) {
        let pids: Vec<_> = exit.held_by.iter().map(i64::to_string).collect();
        writeln!(text, "[background processes still hold its output: pid {}]", pids.join(", ")).ok();
    }
    if status.cut.is_some() {
        text.push_str("[check what it has done before you run it again]\n");
    }
    text
}

/// The calls that read, feed and stop a process that runs.
fn next_while_running(process: &TrackedProcess, background: bool) -> String {
    let id = json!({ "process_id": process.id });
    let until = match process.is_detached {
        true => "until it exits",
        false => "until it exits or this server stops",
    };
    let input = match background {
        true => format!(", bash_input {} writes to it", json!({ "process_id": process.id, "data": "…\n" })),
        false => String::new(),
    };
    format!(
        "[it continues in the background {until}; next: bash_output {id} waits for output{input}, kill {id} stops it]\n"
    )
}
