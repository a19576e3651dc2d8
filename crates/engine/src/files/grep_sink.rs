//! Collects the matches of one file, with the lines around them.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use super::grep::GrepOptions;
use super::scan::ScanBudget;

/// The number of matches delivered at a time, so that a file with many matches needs little memory.
const BATCH: usize = 64;

/// One matching line, or several lines of a match that spans them. Bytes that are not UTF-8 appear as U+FFFD.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Match {
    /// The path of the file, as a continuation of the searched path.
    pub path: PathBuf,
    /// Line number, from 1.
    pub line: u64,
    /// The position of the first match in the line, in bytes from 1.
    pub column: u64,
    /// The line without its ending; the lines of a match that spans several.
    pub text: String,
    /// The lines before it, as many as were requested and exist.
    pub before: Vec<String>,
    /// The lines after it.
    pub after: Vec<String>,
}

/// The state that all threads of a search share.
pub(super) struct Shared<'a> {
    pub(super) grep: &'a GrepOptions,
    pub(super) matcher: &'a RegexMatcher,
    pub(super) scan: &'a ScanBudget,
    pub(super) found: AtomicUsize,
    /// The size of the text delivered so far, context included.
    pub(super) bytes: AtomicUsize,
    pub(super) deliver: &'a (dyn Fn(Vec<Match>) + Sync),
}

/// Text of the matches of one search, context included; beyond it the result is truncated.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Collects the matches of one file.
pub(super) struct FileSink<'a, 'b> {
    shared: &'a Shared<'b>,
    path: &'a Path,
    /// The last lines, as context of the next match.
    recent: VecDeque<(u64, String)>,
    /// Matches with the number of their last line, oldest first; the last ones may need more lines of context.
    matches: VecDeque<(Match, u64)>,
    pub(super) full: bool,
}

impl<'a, 'b> FileSink<'a, 'b> {
    pub(super) fn new(shared: &'a Shared<'b>, path: &'a Path) -> Self {
        Self { shared, path, recent: VecDeque::new(), matches: VecDeque::new(), full: false }
    }

    /// Delivers the remaining matches.
    pub(super) fn finish(mut self) -> bool {
        let rest: Vec<Match> = self.matches.drain(..).map(|(found, _)| found).collect();
        if !rest.is_empty() {
            (self.shared.deliver)(rest);
        }
        self.full
    }

    /// Adds a line as context after and before matches.
    fn pass(&mut self, line: u64, text: &str) {
        let after = self.shared.grep.after as u64;
        if after > 0 {
            let is_near = |last: u64| line <= last.saturating_add(after);
            for (found, last) in self.matches.iter_mut().rev().take_while(|(_, last)| is_near(*last)) {
                if *last < line {
                    self.shared.bytes.fetch_add(text.len(), Ordering::Relaxed);
                    found.after.push(text.to_owned());
                }
            }
        }
        if self.shared.grep.before > 0 {
            if self.recent.len() >= self.shared.grep.before {
                self.recent.pop_front();
            }
            self.recent.push_back((line, text.to_owned()));
        }
    }

    fn before(&self, line: u64) -> Vec<String> {
        let first = line.saturating_sub(self.shared.grep.before as u64);
        self.recent.iter().filter(|(number, _)| *number >= first).map(|(_, text)| text.clone()).collect()
    }

    /// Delivers matches that need no more context.
    fn hand_on(&mut self, line: u64) {
        if self.matches.len() < BATCH {
            return;
        }
        let after = self.shared.grep.after as u64;
        let done = self.matches.partition_point(|(_, last)| last + after < line);
        if done >= BATCH / 2 || after == 0 {
            let ready: Vec<Match> = self.matches.drain(..done).map(|(found, _)| found).collect();
            (self.shared.deliver)(ready);
        }
    }

    fn text(&self, bytes: &[u8]) -> String {
        let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let most = self.shared.grep.max_line_bytes;
        if line.len() <= most {
            return String::from_utf8_lossy(line).into_owned();
        }
        let mut end = most;
        while end > 0 && (line[end] & 0xc0) == 0x80 {
            end -= 1;
        }
        String::from_utf8_lossy(&line[..end]).into_owned()
    }
}

impl Sink for FileSink<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let most = self.shared.grep.max_matches;
        let is_enough = self.shared.bytes.load(Ordering::Relaxed) > MAX_BYTES;
        if is_enough || self.shared.found.fetch_add(1, Ordering::Relaxed) >= most {
            self.full = true;
            return Ok(false);
        }
        let line = found.line_number().unwrap_or(0);
        let column = match self.shared.matcher.find(found.bytes()) {
            Ok(Some(resolved)) => resolved.start() as u64 + 1,
            Ok(None) | Err(_) => 1,
        };
        let text = self.text(found.bytes());
        let before = self.before(line);
        let size = text.len() + before.iter().map(String::len).sum::<usize>();
        self.shared.bytes.fetch_add(size, Ordering::Relaxed);
        let mut last = line;
        for (number, text) in (line..).zip(text.split('\n')) {
            self.pass(number, text);
            last = number;
        }
        self.hand_on(line);
        let (path, after) = (self.path.to_owned(), Vec::new());
        self.matches.push_back((Match { path, line, column, text, before, after }, last));
        Ok(self.shared.scan.check("grep").is_ok())
    }

    fn context(&mut self, _searcher: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let text = self.text(context.bytes());
        self.pass(context.line_number().unwrap_or(0), &text);
        Ok(true)
    }
}
