//! Applies chunks to the content of one file. It has no side effects, so that a whole patch is computed before any file
//! is changed.

use std::path::Path;

use super::parse::{Chunk, Line};
use crate::error::PatchError;

/// A line of the file with its line ending.
#[derive(Debug, Clone, Copy)]
struct FileLine<'a> {
    text: &'a [u8],
    ending: &'a [u8],
}

/// A part of the file replaced by a chunk.
struct Splice<'a> {
    start: usize,
    length: usize,
    lines: Vec<FileLine<'a>>,
}

/// The content of a file after its chunks, in order. Unchanged lines are taken from the file; new lines get its line
/// ending; a missing final newline stays missing.
pub(super) fn apply(content: &[u8], chunks: &[Chunk], path: &Path) -> Result<Vec<u8>, PatchError> {
    let lines = split(content);
    let ending: &[u8] = usual_ending(&lines);
    let mut splices = Vec::with_capacity(chunks.len());
    let mut at = 0;
    for chunk in chunks {
        let splice = find(&lines, chunk, at, ending, path)?;
        // Lines added at the end of the file do not restrict the position of the next chunk.
        if splice.length > 0 {
            at = splice.start + splice.length;
        }
        splices.push(splice);
    }
    // Additions at the end of the file are applied last, wherever they are in the patch.
    splices.sort_by_key(|splice| splice.start);
    let mut result: Vec<FileLine<'_>> = Vec::with_capacity(lines.len());
    let mut next = 0;
    for splice in splices {
        result.extend_from_slice(&lines[next.min(splice.start)..splice.start]);
        result.extend(splice.lines);
        next = next.max(splice.start + splice.length);
    }
    result.extend_from_slice(&lines[next..]);
    let ends_open = lines.last().is_some_and(|line| line.ending.is_empty());
    Ok(join(&result, ending, ends_open))
}

fn split(content: &[u8]) -> Vec<FileLine<'_>> {
    let mut lines = Vec::new();
    let mut rest = content;
    while !rest.is_empty() {
        let (text, ending, next) = match memchr::memchr(b'\n', rest) {
            Some(end) if end > 0 && rest[end - 1] == b'\r' => {
                (&rest[..end - 1], &rest[end - 1..=end], end + 1)
            }
            Some(end) => (&rest[..end], &rest[end..=end], end + 1),
            None => (rest, &rest[rest.len()..], rest.len()),
        };
        lines.push(FileLine { text, ending });
        rest = &rest[next..];
    }
    lines
}

fn usual_ending(lines: &[FileLine<'_>]) -> &'static [u8] {
    let crlf = lines.iter().filter(|line| line.ending == b"\r\n").count();
    if crlf * 2 > lines.len() || (crlf > 0 && crlf * 2 == lines.len()) { b"\r\n" } else { b"\n" }
}

fn join(lines: &[FileLine<'_>], ending: &[u8], ends_open: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(lines.iter().map(|line| line.text.len() + 2).sum());
    for (index, line) in lines.iter().enumerate() {
        bytes.extend_from_slice(line.text);
        let last = index + 1 == lines.len();
        match (last && ends_open, line.ending.is_empty()) {
            (true, _) => {}
            (false, true) => bytes.extend_from_slice(ending),
            (false, false) => bytes.extend_from_slice(line.ending),
        }
    }
    bytes
}

/// Finds the position of a chunk, from `at` on.
fn find<'a>(
    lines: &[FileLine<'a>],
    chunk: &'a Chunk,
    at: usize,
    ending: &'a [u8],
    path: &Path,
) -> Result<Splice<'a>, PatchError> {
    let starts = match &chunk.context {
        None => vec![at],
        Some(context) => {
            let found = seek(lines, &[context.as_bytes()], at, false, None);
            found.iter().map(|line| line + 1).collect()
        }
    };
    if let (true, Some(context)) = (starts.is_empty(), &chunk.context) {
        return Err(PatchError::NoContext { path: path.to_owned(), context: context.clone() });
    }
    for reading in readings(&chunk.lines) {
        let old: Vec<&[u8]> = reading.iter().filter_map(|line| present(line)).collect();
        if old.is_empty() {
            // Without old lines, a unified diff names the line after which the new ones are inserted.
            let line = chunk.old_range.filter(|(_, count)| *count == 0).map(|(line, _)| line);
            let start = line.filter(|line| (at..lines.len()).contains(line)).unwrap_or(lines.len());
            return Ok(Splice { start, length: 0, lines: rebuilt(&[], &reading, ending) });
        }
        let found = places(lines, &old, &starts, chunk);
        if let [start] = found[..] {
            let matched = &lines[start..start + old.len()];
            return Ok(Splice { start, length: old.len(), lines: rebuilt(matched, &reading, ending) });
        }
        if !found.is_empty() {
            let lines = found.iter().map(|start| start + 1).collect();
            return Err(PatchError::Ambiguous { path: path.to_owned(), first: first_line(chunk), lines });
        }
    }
    Err(PatchError::NoLines { path: path.to_owned(), first: first_line(chunk) })
}

/// The first line of a chunk that must exist.
fn first_line(chunk: &Chunk) -> String {
    let first = chunk.lines.iter().find_map(present).unwrap_or_default();
    String::from_utf8_lossy(first).into_owned()
}

/// The places of the old lines: that of the line number in the header of the chunk, or all of them, or the first one
/// after each line that the context may be.
fn places(lines: &[FileLine<'_>], old: &[&[u8]], starts: &[usize], chunk: &Chunk) -> Vec<usize> {
    let named = chunk.old_range.and_then(|(line, _)| line.checked_sub(1));
    let all = |start: &usize| seek(lines, old, *start, chunk.at_end, named);
    let mut found: Vec<usize> = match chunk.context {
        None => starts.iter().flat_map(all).collect(),
        Some(_) => starts.iter().filter_map(|start| all(start).first().copied()).collect(),
    };
    found.dedup();
    found
}

/// The interpretations of a chunk's lines, best first: an empty line of the patch is a line of the file or not; each
/// also without an empty line at the end.
fn readings(lines: &[Line]) -> Vec<Vec<&Line>> {
    let all: Vec<&Line> = lines.iter().collect();
    let solid: Vec<&Line> = lines.iter().filter(|line| **line != Line::Blank).collect();
    let mut readings = Vec::new();
    for reading in [all, solid] {
        let cut = reading.iter().rposition(|line| present(line).is_some());
        let cut = cut.filter(|last| present(reading[*last]) == Some(b""));
        let shorter = cut.map(|last| {
            let mut shorter = reading.clone();
            shorter.remove(last);
            shorter
        });
        if !readings.contains(&reading) {
            readings.push(reading);
        }
        readings.extend(shorter.filter(|shorter| shorter.iter().any(|line| present(line).is_some())));
    }
    readings
}

/// The text that a line must have in the file, if it must exist.
fn present(line: &Line) -> Option<&[u8]> {
    match line {
        Line::Keep(text) | Line::Remove(text) => Some(text.as_bytes()),
        Line::Blank => Some(b""),
        Line::Insert(_) => None,
    }
}

/// The lines that replace the matched ones.
fn rebuilt<'a>(matched: &[FileLine<'a>], reading: &[&'a Line], ending: &'a [u8]) -> Vec<FileLine<'a>> {
    let mut matched = matched.iter();
    let mut lines = Vec::with_capacity(reading.len());
    for line in reading {
        match line {
            Line::Keep(_) | Line::Blank => lines.extend(matched.next()),
            Line::Remove(_) => drop(matched.next()),
            Line::Insert(text) => lines.push(FileLine { text: text.as_bytes(), ending }),
        }
    }
    lines
}

/// The ways to compare two lines.
type Same = fn(&[u8], &[u8]) -> bool;

/// Places that are collected and reported; a chunk that fits more of them is ambiguous anyway.
const MAX_PLACES: usize = 20;

/// Searches for lines: exactly, then without trailing blanks, then without surrounding blanks. Returns the first places of
/// the strictest comparison that finds any; only the `named` place if that is one of them.
fn seek(
    lines: &[FileLine<'_>],
    sought: &[&[u8]],
    from: usize,
    at_end: bool,
    named: Option<usize>,
) -> Vec<usize> {
    let Some(last) = lines.len().checked_sub(sought.len()) else { return Vec::new() };
    let first = if at_end { last.max(from) } else { from };
    let same: [Same; 3] = [
        |a, b| a == b,
        |a, b| a.trim_ascii_end() == b.trim_ascii_end(),
        |a, b| a.trim_ascii() == b.trim_ascii(),
    ];
    let places = |same: &Same| -> Vec<usize> {
        let is_place =
            |start: &usize| lines[*start..].iter().zip(sought).all(|(line, sought)| same(line.text, sought));
        // Tested first, because it may come after the places that are collected.
        match named.filter(|named| (first..=last).contains(named) && is_place(named)) {
            Some(named) => vec![named],
            None => (first..=last).filter(is_place).take(MAX_PLACES).collect(),
        }
    };
    same.iter().map(places).find(|places| !places.is_empty()).unwrap_or_default()
}
