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
/// Bytes of one page.
pub(super) const PAGE: usize = 32 * 1024;

/// The outcome of `bash`: all output, or its start and its end.
pub(super) async fn command_outcome(
    process: &TrackedProcess,
    limits: &Limits,
    background: bool,
) -> Result<ToolOutcome, ToolOutcome> {
    let status = process.status();
    let whole = status.end - process.from;
    let head = piece(process, process.from, if whole <= PAGE as u64 { PAGE } else { SHOWN_EACH }).await?;
    let (mut text, mut structured) = (String::new(), state(process, &status));
    let mut replaced = 0;
    let cursor = if whole <= PAGE as u64 {
        replaced += shown(&head, &mut text);
        structured["output"] = json!(text);
        head.end()
    } else {
        let tail = piece(process, status.end - SHOWN_EACH as u64, SHOWN_EACH).await?;
        let cut = Cut::between(process, &head, &tail);
        replaced += shown(&cut.head, &mut text);
        end_line(&mut text);
        let from = cut.head.end();
        writeln!(text, "[{}]", cut.text_content(process)).ok();
        replaced += shown(&cut.tail, &mut text);
        structured["output"] = json!(text);
        structured["cut"] = cut.to_json();
        from
    };
    process.set_shown(cursor);
    structured["cursor"] = json!(cursor);
    structured["truncated"] = json!(structured.get("cut").is_some());
    if text.is_empty() {
        text.push_str(if status.is_over() { "(no output)" } else { "(no output yet)" });
    }
    end_line(&mut text);
    if replaced > 0 {
        writeln!(
            text,
            "[{replaced} bytes are not UTF-8 and shown as \u{fffd}; bash_output returns them as base64]"
        )
        .ok();
    }
    text.push_str(&status_text(process, &status, limits, background));
    let is_error =
        status.cut.is_some() || status.exit.as_ref().is_some_and(|exit| limits.named(exit).is_some());
    Ok(ToolOutcome { is_error, ..ToolOutcome::text(text).with(structured) })
}

/// The outcome of `bash_output`: one page.
pub(super) async fn page_outcome(process: &TrackedProcess, from: u64) -> Result<ToolOutcome, ToolOutcome> {
    let status = process.status();
    let mut page = piece(process, from, PAGE).await?;
    // A page ends at a line or a character, unless it is the last one.
    if page.end() < status.end {
        page.bytes.truncate(truncate::end_of_head(&page.bytes, PAGE - 4));
    }
    let mut text = String::new();
    let replaced = shown(&page, &mut text);
    let mut structured = state(process, &status);
    structured["output"] = json!(text);
    if replaced > 0 {
        structured["output_base64"] = json!(base64_simd::STANDARD.encode_to_string(&page.bytes));
    }
    let (start, cursor) = (page.start, page.end());
    process.set_shown(cursor);
    for (name, number) in [("start", start), ("cursor", cursor), ("lost", page.lost)] {
        structured[name] = json!(number);
    }
    structured["truncated"] = json!(cursor < status.end);
    if text.is_empty() {
        text.push_str(if status.is_over() { "(no more output)" } else { "(no new output)" });
    }
    end_line(&mut text);
    if page.lost > 0 {
        writeln!(text, "[{} bytes before byte {start} are lost]", page.lost).ok();
    }
    if replaced > 0 {
        text.push_str("[invalid UTF-8 is shown as \u{fffd}; output_base64 contains the exact bytes]\n");
    }
    writeln!(text, "[bytes {start} to {cursor} of {}]", status.end).ok();
    if cursor < status.end {
        writeln!(
            text,
            "[continue with: bash_output {}]",
            json!({ "process_id": process.id, "cursor": cursor })
        )
        .ok();
    }
    text.push_str(&status_text(process, &status, &Limits::default(), true));
    Ok(ToolOutcome::text(text).with(structured))
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

/// The start and the end of long output, with the size of the omitted part.
struct Cut {
    head: SpoolChunk,
    tail: SpoolChunk,
    lines: u64,
}

impl Cut {
    fn between(process: &TrackedProcess, head: &SpoolChunk, tail: &SpoolChunk) -> Cut {
        let (mut head, mut tail) = (head.clone(), tail.clone());
        // Cut at line ends if lines are short, otherwise between characters.
        head.bytes.truncate(truncate::end_of_head(&head.bytes, SHOWN_EACH - 4));
        let skipped = truncate::start_of_tail(&tail.bytes, SHOWN_EACH - 4);
        tail.bytes.drain(..skipped);
        tail.start += skipped as u64;
        let ends = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        let lines = process.spool.span().lines.saturating_sub(ends(&head.bytes) + ends(&tail.bytes));
        Cut { head, tail, lines }
    }

    fn text_content(&self, process: &TrackedProcess) -> String {
        let (from, to) = (self.head.end(), self.tail.start);
        format!(
            "{} bytes omitted ({} line ends), from byte {from} to {to}; read them: bash_output {}; search them: grep {}",
            to - from,
            self.lines,
            json!({ "process_id": process.id, "cursor": from }),
            json!({ "pattern": "…", "path": format!("process:{}", process.id) }),
        )
    }

    fn to_json(&self) -> Value {
        let (from, to) = (self.head.end(), self.tail.start);
        json!({ "from": from, "to": to, "bytes": to - from, "lines": self.lines })
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

/// The status of a process as text.
fn status_text(
    process: &TrackedProcess,
    status: &TrackedStatus,
    limits: &Limits,
    background: bool,
) -> String {
    let mut text = String::new();
    for note in &status.notes {
        writeln!(text, "[{note}]").ok();
    }
    match (&status.exit, &status.cut) {
        (Some(exit), _) => text.push_str(&ended(exit, limits)),
        (None, Some(why)) => {
            write!(
                text,
                "[lost contact with {}: {why}; check what it has done before you run it again]",
                process.id
            )
            .ok();
        }
        (None, None) => text.push_str(&running(process, background)),
    }
    text
}

fn ended(exit: &ProcessExit, limits: &Limits) -> String {
    let mut text = String::new();
    if let Some(limit) = limits.named(exit) {
        writeln!(text, "[{limit}]").ok();
    } else if exit.timed_out {
        text.push_str("[timed out]\n");
    } else if exit.output_limit_exceeded {
        text.push_str("[killed: output exceeds the limit]\n");
    }
    if let Some(denied) = &exit.sandbox_denied {
        let at = denied.path.as_deref().map(|path| format!(" at {path}")).unwrap_or_default();
        writeln!(text, "[denied by the sandbox: {} access{at}]", denied.access).ok();
    }
    if !exit.held_by.is_empty() {
        let pids: Vec<_> = exit.held_by.iter().map(i64::to_string).collect();
        writeln!(text, "[background processes still hold its output: pid {}]", pids.join(", ")).ok();
    }
    match &exit.signal {
        Some(signal) => write!(text, "[killed by signal {signal}, exit status {}]", exit.status()).ok(),
        None => write!(text, "[exit code {}]", exit.code).ok(),
    };
    text
}

fn running(process: &TrackedProcess, background: bool) -> String {
    let id = json!({ "process_id": process.id });
    let how = match background {
        true => "running in the background",
        false => "still running; continues in the background",
    };
    let until = match process.is_detached {
        true => "until it exits",
        false => "until it exits or this server stops",
    };
    let input = match background {
        true => format!("; write to it: bash_input; stop it: kill {id}"),
        false => format!("; stop it: kill {id}"),
    };
    format!("[{how} as {}, {until}; read its output: bash_output {id}{input}]", process.id)
}
