//! Waits for the output of a process to match a regular expression.

use std::io;
use std::time::Duration;

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use tokio::time::{Instant, timeout_at};

use super::outcome::ToolOutcome;
use super::search::{self, PatternScope};
use super::tracked::TrackedProcess;

/// Output that is searched at a time.
const BLOCK_BYTES: usize = 1024 * 1024;
/// Output that is searched again with what follows, for a match that spans both.
const OVERLAP_BYTES: usize = 16 * 1024;

/// A pattern to wait for.
#[derive(Debug)]
pub(super) struct Until(RegexMatcher);

impl Until {
    /// Parses a regular expression.
    pub(super) fn new(pattern: &str) -> Result<Until, ToolOutcome> {
        search::matcher("until", pattern, PatternScope::AcrossLines).map(Until)
    }

    /// Waits until the output after `from` matches, the process has ended or the time has passed. Whether it matched.
    pub(super) async fn wait(
        &self,
        process: &TrackedProcess,
        from: u64,
        limit: Duration,
    ) -> io::Result<bool> {
        let deadline = Instant::now() + limit;
        let mut next = from;
        loop {
            // Read before the search, so that output which follows it is waited for.
            let status = process.status();
            if self.is_found(process, &mut next, status.end).await? {
                return Ok(true);
            }
            let more = process.wait_until(|now| now.end > status.end);
            if status.is_over() || timeout_at(deadline, more).await.is_err() {
                return Ok(false);
            }
        }
    }

    /// Searches the output from `next` to `end`, and advances `next` to where the following search starts.
    async fn is_found(&self, process: &TrackedProcess, next: &mut u64, end: u64) -> io::Result<bool> {
        while *next < end {
            let block = process.spool.read(*next, BLOCK_BYTES).await?;
            if block.bytes.is_empty() || self.matches(&block.bytes)? {
                return Ok(!block.bytes.is_empty());
            }
            let kept = block.bytes.len().saturating_sub(OVERLAP_BYTES);
            let before = block.bytes.get(..kept).unwrap_or_default();
            // The next block starts with a line, so that `^` does not match inside one.
            let line = before.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            if block.end() >= end {
                *next = block.start + line.unwrap_or(0) as u64;
                return Ok(false);
            }
            *next = match block.bytes.len() == BLOCK_BYTES {
                true => block.start + line.unwrap_or(kept) as u64,
                // Output after the block was lost.
                false => block.end(),
            };
        }
        Ok(false)
    }

    fn matches(&self, bytes: &[u8]) -> io::Result<bool> {
        let mut searcher =
            SearcherBuilder::new().binary_detection(BinaryDetection::none()).multi_line(true).build();
        let mut found = Found(false);
        searcher.search_slice(&self.0, bytes, &mut found)?;
        Ok(found.0)
    }
}

/// Whether there was a match.
struct Found(bool);

impl Sink for Found {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, _: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.0 = true;
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_lines_prompts_and_several_lines() {
        for (pattern, text, expected) in [
            ("ready", "not yet\nReady at port 5\n", true),
            ("READY", "ready\n", false),
            ("^Password: $", "login: x\nPassword: ", true),
            (r"one\ntwo", "zero\none\ntwo\n", true),
            ("^two$", "one two\n", false),
            ("x", "", false),
        ] {
            assert_eq!(Until::new(pattern).unwrap().matches(text.as_bytes()).unwrap(), expected, "{pattern}");
        }
        let error = Until::new("(").unwrap_err().text_content();
        assert!(error.contains("`until`") && error.contains("hint: "), "{error}");
    }
}
