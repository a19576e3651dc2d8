//! `rex logs`: prints the output of a process, as far as the server keeps it.

use bytes::Bytes;
use client::{Process, ProcessEvent, ProcessEventKind, Session, v1};
use serde_json::json;

use super::processes::find;
use crate::app::App;
use crate::args::LogsArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::relay::OutputSinks;

/// Bytes of output in which `--tail` looks for lines.
const TAIL_BYTES: u64 = 4 * 1024 * 1024;

/// Prints the output so far, or with `-f` until the process exits.
pub(super) async fn run(app: &App, args: LogsArgs) -> Result<CommandStatus, Failure> {
    let session = app.session().await?;
    let found = find(&session, &args.id).await?;
    let until = match args.follow || found.status != "running" {
        true => u64::MAX,
        false => found.cursor,
    };
    let (mut process, mut offset) = attach(&session, &found, &args).await?;
    let mut out = OutputSinks::open(app.json)?;
    let mut has_ended = false;
    if let Some(lines) = args.tail {
        let mut events = Vec::new();
        while offset < found.cursor {
            let Some(event) = process.next().await? else { break };
            offset = event.cursor.unwrap_or(offset);
            events.push(event);
        }
        for event in last_lines(events, lines) {
            out.show(event).await?;
        }
    }
    while offset < until {
        let Some(event) = process.next().await? else { break };
        has_ended = matches!(event.kind, ProcessEventKind::Exit(_));
        offset = event.cursor.unwrap_or(offset);
        out.show(event).await?;
        if has_ended {
            break;
        }
    }
    if app.json && !has_ended {
        output::json_line(
            &json!({ "process_id": found.process_id, "status": found.status, "cursor": offset }),
        )?;
    }
    session.close().await.ok();
    Ok(CommandStatus::OK)
}

/// Attaches where the output to print begins, and returns that position.
async fn attach(
    session: &Session,
    found: &v1::ListedProcess,
    args: &LogsArgs,
) -> Result<(Process, u64), Failure> {
    let tail = args.tail.map(|_| found.cursor.saturating_sub(TAIL_BYTES));
    let mut process = match args.since {
        Some(age) => {
            if !session.has_capability("exec.attach.since") {
                let message = format!("{} cannot find output by its time", session.target());
                return Err(Failure::new(message).hint("update rexd there, or use --tail N"));
            }
            session.attach_since(&found.process_id, age).await?
        }
        None => session.attach(&found.process_id, tail.unwrap_or(args.cursor)).await?,
    };
    let position = |process: &Process| process.attach_result().map_or((0, 0), |was| (was.cursor, was.lost));
    let (mut cursor, lost) = position(&process);
    if let Some(tail) = tail.filter(|tail| *tail > cursor) {
        process = session.attach(&found.process_id, tail).await?;
        (cursor, _) = position(&process);
    } else if lost > 0 && tail.is_none() {
        output::note(format_args!("output truncated: the first {lost} bytes are no longer kept"));
    }
    Ok((process, cursor))
}

/// The events that hold the last lines of the output, the first one cut at the start of a line unless it is printed as it
/// arrived.
fn last_lines(mut events: Vec<ProcessEvent>, lines: usize) -> Vec<ProcessEvent> {
    if lines == 0 {
        return Vec::new();
    }
    let mut left = lines;
    let mut is_last = true;
    for index in (0..events.len()).rev() {
        let Some(bytes) = output_mut(&mut events[index].kind) else { continue };
        for at in (0..bytes.len()).rev() {
            // The newline at the end of the output does not begin a line.
            if std::mem::take(&mut is_last) || bytes[at] != b'\n' {
                continue;
            }
            left = left.saturating_sub(1);
            if left == 0 {
                *bytes = bytes.slice(at + 1..);
                return events.split_off(index);
            }
        }
    }
    events
}

fn output_mut(kind: &mut ProcessEventKind) -> Option<&mut Bytes> {
    match kind {
        ProcessEventKind::Stdout(bytes)
        | ProcessEventKind::Stderr(bytes)
        | ProcessEventKind::Terminal(bytes) => Some(bytes),
        ProcessEventKind::Lost(_) | ProcessEventKind::Error(_) | ProcessEventKind::Exit(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(chunks: &[&str], lines: usize) -> String {
        let event = |text: &&str| ProcessEvent {
            kind: ProcessEventKind::Stdout(Bytes::copy_from_slice(text.as_bytes())),
            cursor: None,
            line: None,
        };
        let mut kept = last_lines(chunks.iter().map(event).collect(), lines);
        let texts = kept.iter_mut().filter_map(|event| output_mut(&mut event.kind).cloned());
        String::from_utf8(texts.flatten().collect()).unwrap()
    }

    #[test]
    fn the_last_lines_are_kept_wherever_the_chunks_are_cut() {
        for chunks in [&["a\nb\nc\n"][..], &["a", "\n", "b\nc", "\n"], &["a\n", "b\n", "c\n"]] {
            let expected = ["", "c\n", "b\nc\n", "a\nb\nc\n", "a\nb\nc\n"];
            for (lines, expected) in expected.into_iter().enumerate() {
                assert_eq!(tail(chunks, lines), expected, "{chunks:?} {lines}");
            }
        }
        assert_eq!(tail(&["a\nb"], 1), "b");
        assert_eq!(tail(&["\n\n\n"], 2), "\n\n");
        assert_eq!(tail(&[], 2), "");
    }
}
