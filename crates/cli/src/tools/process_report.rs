//! Reports the output and the status of a process to a model; long output is truncated in the middle.

use std::fmt::Write as _;
use std::io;

use client::ProcessExit;
use serde_json::{Value, json};

use super::collapse::{Collapser, Excerpt, ExcerptLimits, Omission};
use super::limits::Limits;
use super::outcome::ToolOutcome;
use super::spool::SpoolChunk;
use super::tracked::{TrackedProcess, TrackedStatus};
use super::truncate;

/// The start of long output that is shown, and its end.
const EACH: ExcerptLimits = ExcerptLimits { bytes: 16 * 1024, lines: 900 };
/// Bytes of one page.
pub(super) const PAGE: usize = 32 * 1024;
/// Lines of one page.
const PAGE_LINES: usize = 2 * EACH.lines;
/// The limits of a page, which is never truncated.
const WHOLE: ExcerptLimits = ExcerptLimits { bytes: usize::MAX, lines: usize::MAX };
/// Output that is collapsed at a time.
const CHUNK: usize = 256 * 1024;
/// Output that is collapsed at the start and at the end; what is between is left out in any case.
const COLLAPSED_EACH: u64 = 4 * 1024 * 1024;
/// The maximum growth of bytes when they are shown: an invalid byte becomes a character of three bytes.
const GROWTH: usize = 3;

/// The outcome of `bash`: all output, or its start and its end.
pub(super) async fn command_outcome(
    process: &TrackedProcess,
    run: &RunNotes,
    background: bool,
) -> Result<ToolOutcome, ToolOutcome> {
    let status = process.status();
    let reported = rest(process, process.from, status.end).await?;
    let mut outcome = outcome(process, &status, (run, ""), &reported);
    if !status.is_over() {
        outcome.add_line(&next_while_running(process, background));
    }
    outcome.is_error =
        status.cut.is_some() || status.exit.as_ref().is_some_and(|exit| run.limits.named(exit).is_some());
    Ok(outcome)
}

/// The part of the output that `bash_output` shows.
#[derive(Debug, Clone, Copy)]
pub(super) enum OutputPart {
    /// Everything from this offset on; of long output, its start and its end.
    Rest(u64),
    /// One page from this offset on.
    Page(u64),
}

/// The outcome of `bash_output`. `waited` says how its wait ended.
pub(super) async fn output_outcome(
    process: &TrackedProcess,
    part: OutputPart,
    waited: &str,
) -> Result<ToolOutcome, ToolOutcome> {
    let status = process.status();
    let reported = match part {
        OutputPart::Rest(from) => rest(process, from, status.end).await?,
        OutputPart::Page(from) => page(process, from, status.end).await?,
    };
    Ok(outcome(process, &status, (&RunNotes::default(), waited), &reported))
}

/// The output in a report.
struct ReportedOutput {
    /// As it is shown, collapsed.
    text: String,
    /// As programs get it.
    exact: Option<Vec<u8>>,
    /// Where it starts, and where the next page starts.
    range: (u64, u64),
    lost: u64,
    replaced: usize,
    omission: Option<Omission>,
    is_page: bool,
}

/// All output from an offset on, or its start and its end.
async fn rest(process: &TrackedProcess, from: u64, end: u64) -> Result<ReportedOutput, ToolOutcome> {
    let spool = process.spool.clone();
    let collapse = move || -> io::Result<(Excerpt, u64)> {
        let (mut collapser, mut at, mut lost) = (Collapser::new(from, EACH), from, 0);
        while at < end {
            let chunk = spool.read_now(at, usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK))?;
            if chunk.bytes.is_empty() {
                break;
            }
            lost += chunk.lost;
            at = chunk.end();
            match chunk.start - from < COLLAPSED_EACH || at + COLLAPSED_EACH >= end {
                true => collapser.take(chunk.start, &chunk.bytes),
                false => collapser.skip(chunk.start, &chunk.bytes),
            }
        }
        Ok((collapser.finish(), lost))
    };
    let done = tokio::task::spawn_blocking(collapse).await;
    let (excerpt, lost) =
        done.map_err(|error| unreadable(process, &error))?.map_err(|error| unreadable(process, &error))?;
    let (mut text, tail) = excerpt.texts();
    let omission = excerpt.omission();
    if let Some(omitted) = omission {
        end_line(&mut text);
        let bytes = omitted.to - omitted.from;
        writeln!(text, "[{bytes} bytes, {} line ends omitted here]", omitted.line_ends).ok();
    }
    text.push_str(&tail);
    process.set_shown(end.max(from));
    let next = omission.map_or(end.max(from), |omitted| omitted.from);
    let (replaced, is_page) = (excerpt.replaced(), false);
    Ok(ReportedOutput { text, exact: None, range: (from, next), lost, replaced, omission, is_page })
}

/// One page of output.
async fn page(process: &TrackedProcess, from: u64, end: u64) -> Result<ReportedOutput, ToolOutcome> {
    let read = process.spool.read(from, PAGE).await;
    let mut page: SpoolChunk = read.map_err(|error| unreadable(process, &error))?;
    // A page ends at a line or a character, unless it is the last one.
    let limit = if page.end() < end { PAGE - 4 } else { PAGE };
    page.bytes.truncate(fitting_head(&page.bytes, limit, PAGE_LINES));
    let mut collapser = Collapser::new(page.start, WHOLE);
    collapser.take(page.start, &page.bytes);
    let excerpt = collapser.finish();
    let range = (page.start, page.end());
    process.set_shown(range.1);
    Ok(ReportedOutput {
        text: excerpt.texts().0,
        range,
        lost: page.lost,
        replaced: excerpt.replaced(),
        omission: None,
        is_page: true,
        exact: Some(page.bytes),
    })
}

fn unreadable(process: &TrackedProcess, error: &dyn std::fmt::Display) -> ToolOutcome {
    ToolOutcome::failed(format!("cannot read the stored output of {}: {error}", process.id))
}

/// The outcome without the calls that may follow while the process runs.
fn outcome(
    process: &TrackedProcess,
    status: &TrackedStatus,
    (run, waited): (&RunNotes, &str),
    reported: &ReportedOutput,
) -> ToolOutcome {
    let (start, cursor) = reported.range;
    let mut about = waited.to_owned();
    if reported.is_page {
        write!(about, ", bytes {start} to {cursor} of {}", status.end).ok();
    }
    if let Some(omitted) = reported.omission {
        let bytes = omitted.to - omitted.from;
        write!(about, ", {bytes} of {} bytes of output omitted", status.end - start).ok();
    }
    if reported.lost > 0 {
        write!(about, ", {} bytes of output are lost", reported.lost).ok();
    }
    let mut text = heading(process, status, run, &about);
    match (reported.text.is_empty(), status.is_over(), start) {
        (false, _, _) => text.push_str(&reported.text),
        (true, true, 0) => text.push_str("(no output)"),
        (true, true, _) => text.push_str("(no more output)"),
        (true, false, 0) => text.push_str("(no output yet)"),
        (true, false, _) => text.push_str("(no new output)"),
    }
    end_line(&mut text);
    text.push_str(&notes(status, reported.replaced));
    let read = json!({ "process_id": process.id, "cursor": cursor });
    if reported.omission.is_some() {
        let search = json!({ "pattern": "…", "path": format!("process:{}", process.id) });
        let next = format!("bash_output {read} reads the omitted part, grep {search} searches all output");
        writeln!(text, "[next: {next}]").ok();
    } else if reported.is_page && cursor < status.end {
        writeln!(text, "[next: bash_output {read}]").ok();
    }
    ToolOutcome::text(text.trim_end()).with(structured(process, status, reported))
}

fn structured(process: &TrackedProcess, status: &TrackedStatus, reported: &ReportedOutput) -> Value {
    let (start, cursor) = reported.range;
    let mut structured = state(process, status);
    structured["output"] = match &reported.exact {
        Some(bytes) => json!(truncate::show(bytes).text),
        None => json!(reported.text),
    };
    if let (Some(bytes), 1..) = (&reported.exact, reported.replaced) {
        structured["output_base64"] = json!(base64_simd::STANDARD.encode_to_string(bytes));
    }
    for (name, number) in [("start", start), ("cursor", cursor), ("lost", reported.lost)] {
        structured[name] = json!(number);
    }
    structured["truncated"] = json!(cursor < status.end);
    if let Some(omitted) = reported.omission {
        structured["cut"] = json!({
            "from": omitted.from, "to": omitted.to, "bytes": omitted.to - omitted.from, "lines": omitted.line_ends,
        });
    }
    structured
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

/// The end of the first bytes that fit: at a line end if lines are short, otherwise between characters.
fn fitting_head(bytes: &[u8], limit: usize, lines: usize) -> usize {
    let text_bytes = truncate::show(bytes).text.len();
    let limit = if text_bytes > bytes.len().max(limit) { limit / GROWTH } else { limit };
    truncate::end_of_head(bytes, limit).min(truncate::end_of_lines(bytes, lines))
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
fn heading(process: &TrackedProcess, status: &TrackedStatus, run: &RunNotes, about: &str) -> String {
    let id = &process.id;
    let state = match (&status.exit, &status.cut) {
        (Some(exit), _) => format!("{}, process {id} has ended", ended(exit, &run.limits)),
        (None, Some(why)) => format!("no exit code, lost contact with process {id}: {why}"),
        (None, None) => format!("no exit code yet, process {id} is still running"),
    };
    let shell = if run.lacks_bash { ", run by sh because the target has no bash" } else { "" };
    format!("[{state}{shell}{about}]\n")
}

/// The exit code, or the signal and the code that a shell reports for it.
pub(super) fn end_of(signal: Option<&str>, code: i64) -> String {
    match (signal, signal.and_then(client::process::signal_number)) {
        (Some(signal), Some(number)) => format!("killed by signal {signal}, exit code {}", 128 + number),
        (Some(signal), None) => format!("killed by signal {signal}"),
        (None, _) => format!("exit code {code}"),
    }
}

fn ended(exit: &ProcessExit, limits: &Limits) -> String {
    let mut text = end_of(exit.signal.as_deref(), exit.code);
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
        true => "until it exits, also after this server has stopped",
        false => "until it exits or this server stops",
    };
    let input = match background {
        true => format!(", bash_input {} writes to it", json!({ "process_id": process.id, "data": "…\n" })),
        false => String::new(),
    };
    format!(
        "[it continues in the background {until}; next: bash_output {id} waits for output{input}, kill {id} stops it]"
    )
}
