//! Parses the patch envelope into hunks, one per file.

use crate::error::PatchError;

/// The change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hunk {
    /// A new file with these lines.
    Add {
        /// The path as written.
        path: String,
        /// Its lines.
        lines: Vec<String>,
    },
    /// The file is removed.
    Delete {
        /// The path as written.
        path: String,
    },
    /// The file is changed, and possibly moved.
    Update {
        /// The path as written.
        path: String,
        /// The new path, as written.
        move_to: Option<String>,
        /// Its changes, from top to bottom.
        chunks: Vec<Chunk>,
    },
}

/// One change in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chunk {
    /// A line somewhere above the change.
    pub context: Option<String>,
    /// The first old line and the number of old lines, as in the header of a unified diff.
    pub old_range: Option<(usize, usize)>,
    /// The lines of the change.
    pub lines: Vec<Line>,
    /// Whether the change is at the end of the file.
    pub at_end: bool,
}

/// One line of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Unchanged.
    Keep(String),
    /// Removed.
    Remove(String),
    /// Added.
    Insert(String),
    /// An empty line without a prefix: an empty line of the file, or only of the patch.
    Blank,
}

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

/// Parses a patch. Text around the envelope is ignored.
pub fn parse(text: &str) -> Result<Vec<Hunk>, PatchError> {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines.iter().position(|line| line.trim() == BEGIN).ok_or(PatchError::NoEnvelope)?;
    let end = lines.iter().rposition(|line| line.trim() == END).ok_or(PatchError::NoEnvelope)?;
    if end < begin {
        return Err(PatchError::NoEnvelope);
    }
    let mut parser = Parser { lines: &lines[..end], at: begin + 1 };
    let mut hunks = Vec::new();
    while let Some(hunk) = parser.hunk()? {
        hunks.push(hunk);
    }
    if hunks.is_empty() { Err(PatchError::NoHunks) } else { Ok(hunks) }
}

struct Parser<'a> {
    lines: &'a [&'a str],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn hunk(&mut self) -> Result<Option<Hunk>, PatchError> {
        while self.peek().is_some_and(|line| line.trim().is_empty()) {
            self.at += 1;
        }
        let Some(line) = self.peek() else { return Ok(None) };
        let line = line.trim();
        if let Some(path) = line.strip_prefix(ADD) {
            let path = self.path(path)?;
            Ok(Some(Hunk::Add { path, lines: self.added()? }))
        } else if let Some(path) = line.strip_prefix(DELETE) {
            Ok(Some(Hunk::Delete { path: self.path(path)? }))
        } else if let Some(path) = line.strip_prefix(UPDATE) {
            let path = self.path(path)?;
            let move_to = match self.peek().and_then(|line| line.trim().strip_prefix(MOVE)) {
                Some(to) => Some(self.path(to)?),
                None => None,
            };
            self.update(path, move_to).map(Some)
        } else {
            Err(self.wrong("expected a file header"))
        }
    }

    /// Returns the path of a header and advances past its line.
    fn path(&mut self, text: &str) -> Result<String, PatchError> {
        let path = text.trim();
        if path.is_empty() {
            return Err(self.wrong("the header names no path"));
        }
        self.at += 1;
        Ok(path.to_owned())
    }

    fn added(&mut self) -> Result<Vec<String>, PatchError> {
        let mut lines = Vec::new();
        while let Some(line) = self.peek() {
            match line.strip_prefix('+') {
                Some(text) => lines.push(text.to_owned()),
                None if line.trim().is_empty() || line.trim() == END_OF_FILE => {}
                None if is_header(line) => break,
                None => return Err(self.wrong("lines of a new file begin with +")),
            }
            self.at += 1;
        }
        Ok(lines)
    }

    fn update(&mut self, path: String, move_to: Option<String>) -> Result<Hunk, PatchError> {
        let mut chunks: Vec<Chunk> = Vec::new();
        while let Some(line) = self.peek() {
            if line.trim_end() == END_OF_FILE {
                match chunks.last_mut() {
                    Some(chunk) => chunk.at_end = true,
                    None => return Err(self.wrong("no change to end here")),
                }
            } else if is_header(line) {
                break;
            } else if let Some(rest) = line.strip_prefix("@@") {
                let (context, old_range) = header(rest);
                chunks.push(Chunk { context, old_range, ..Chunk::default() });
            } else {
                let parsed = self.line(line)?;
                // The first change may have no `@@`; a change after an end of file needs one.
                match chunks.last_mut() {
                    Some(chunk) if !chunk.at_end => chunk.lines.push(parsed),
                    _ if parsed == Line::Blank => {}
                    Some(_) => return Err(self.wrong("expected @@ or a file header")),
                    None => chunks.push(Chunk { lines: vec![parsed], ..Chunk::default() }),
                }
            }
            self.at += 1;
        }
        chunks.retain(|chunk| chunk.context.is_some() || chunk.lines.iter().any(|line| *line != Line::Blank));
        if chunks.is_empty() && move_to.is_none() {
            return Err(self.wrong("the update changes nothing"));
        }
        Ok(Hunk::Update { path, move_to, chunks })
    }

    fn line(&self, line: &str) -> Result<Line, PatchError> {
        let mut rest = line.chars();
        match rest.next() {
            None => Ok(Line::Blank),
            Some(' ') => Ok(Line::Keep(rest.as_str().to_owned())),
            Some('-') => Ok(Line::Remove(rest.as_str().to_owned())),
            Some('+') => Ok(Line::Insert(rest.as_str().to_owned())),
            Some(_) => Err(self.wrong("lines of a change begin with a space, - or +")),
        }
    }

    fn wrong(&self, reason: &'static str) -> PatchError {
        PatchError::Syntax { line: self.at + 1, reason }
    }
}

fn is_header(line: &str) -> bool {
    let line = line.trim_end();
    [ADD, DELETE, UPDATE, MOVE].iter().any(|header| line.starts_with(header))
}

/// The context after `@@`, `None` if empty, and the old lines if the header is one of a unified diff.
fn header(rest: &str) -> (Option<String>, Option<(usize, usize)>) {
    let (mut text, mut old_range) = (rest.strip_prefix(' ').unwrap_or(rest), None);
    if let Some((numbers, heading)) =
        text.trim_start().strip_prefix('-').and_then(|text| text.split_once("@@"))
        && numbers.chars().all(|letter| letter.is_ascii_digit() || matches!(letter, ',' | ' ' | '+'))
    {
        let old = numbers.split(' ').next().unwrap_or_default();
        let (line, count) = old.split_once(',').unwrap_or((old, "1"));
        old_range = line.parse().ok().zip(count.parse().ok());
        // What follows is only a label.
        text = if old_range.is_some() { "" } else { heading.strip_prefix(' ').unwrap_or(heading) };
    }
    (Some(text.to_owned()).filter(|text| !text.trim().is_empty()), old_range)
}
