//! Waits for the output of a process to match a regular expression.

use std::io;
use std::time::Duration;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use tokio::time::{Instant, timeout_at};

use super::outcome::ToolOutcome;
use super::search::{self, PatternCase, PatternScope};
use super::tracked::TrackedProcess;
use super::truncate;

/// Output that is searched at a time.
const BLOCK_BYTES: usize = 1024 * 1024;
/// Output that is searched again with what follows, for a match that spans both.
const OVERLAP_BYTES: usize = 16 * 1024;
/// Shown output that is searched once per pattern.
const EARLIER_BYTES: u64 = 16 * 1024 * 1024;
/// Characters of a line that matched.
const LINE_CHARS: usize = 200;

/// A pattern to wait for.
#[derive(Debug)]
pub(super) struct Until {
    pattern: String,
    matcher: RegexMatcher,
}

/// Which output a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UntilMatch {
    /// New output.
    New,
    /// Output that was shown before; the first line that matches.
    Shown(String),
}

impl Until {
    /// Parses a regular expression.
    pub(super) fn new(pattern: &str) -> Result<Until, ToolOutcome> {
        let matcher = search::matcher("until", pattern, (PatternScope::AcrossLines, PatternCase::Smart))?;
        Ok(Until { pattern: pattern.to_owned(), matcher })
    }

    /// Waits until the output after `from` matches, alone or with the unfinished line before it, the process has ended or the
    /// time has passed. Earlier output matches too if `or_earlier`, but only until a match of the pattern was reported:
    /// afterwards a caller waits for the next one.
    pub(super) async fn wait(
        &self,
        process: &TrackedProcess,
        (from, or_earlier): (u64, bool),
        limit: Duration,
    ) -> io::Result<Option<UntilMatch>> {
        let deadline = Instant::now() + limit;
        let mut next = line_start(process, from).await?;
        let mut searches_earlier = or_earlier && !process.has_reported(&self.pattern);
        let matched = loop {
            // Read before the search, so that output which follows it is waited for.
            let status = process.status();
            if self.find(process, &mut next, (from, status.end)).await?.is_some() {
                break Some(UntilMatch::New);
            }
            if std::mem::take(&mut searches_earlier) {
                let first = from.saturating_sub(EARLIER_BYTES).max(process.from);
                if let Some(line) = self.find(process, &mut first.clone(), (first, from)).await? {
                    break Some(UntilMatch::Shown(line));
                }
            }
            let more = process.wait_until(|now| now.end > status.end);
            if status.is_over() || timeout_at(deadline, more).await.is_err() {
                break None;
            }
        };
        if matched.is_some() {
            process.set_reported(&self.pattern);
        }
        Ok(matched)
    }

    /// Searches the output from `after` to `end`, together with what precedes it from `next` on, and advances `next` to where
    /// the following search starts. The first line that matches.
    async fn find(
        &self,
        process: &TrackedProcess,
        next: &mut u64,
        (after, end): (u64, u64),
    ) -> io::Result<Option<String>> {
        while after.max(*next) < end {
            let limit = usize::try_from(end - *next).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
            let block = process.spool.read(*next, limit).await?;
            if block.bytes.is_empty() {
                return Ok(None);
            }
            let shown = usize::try_from(after.saturating_sub(block.start)).unwrap_or(usize::MAX);
            if let Some(line) = self.line_in(&block.bytes, shown) {
                return Ok(Some(line));
            }
            let kept = block.bytes.len().saturating_sub(OVERLAP_BYTES);
            let before = block.bytes.get(..kept).unwrap_or_default();
            // The next block starts with a line, so that `^` does not match inside one.
            let line = before.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
            if block.end() >= end {
                *next = block.start + line.unwrap_or(0) as u64;
                return Ok(None);
            }
            *next = match block.bytes.len() == BLOCK_BYTES {
                true => block.start + line.unwrap_or(kept) as u64,
                // Output after the block was lost.
                false => block.end(),
            };
        }
        Ok(None)
    }

    /// The first line that matches, shortened. A match in the first `shown` bytes alone does not count.
    fn line_in(&self, bytes: &[u8], shown: usize) -> Option<String> {
        let shown = shown.min(bytes.len());
        let find = |bytes: &[u8], at| self.matcher.find_at(bytes, at).ok().flatten();
        let is_known = shown > 0 && find(bytes.get(..shown)?, 0).is_some();
        let start = find(bytes, if is_known { shown } else { 0 })?.start();
        let before = line_start_in(bytes.get(..start)?);
        let line = bytes.get(before..)?.split(|byte| *byte == b'\n').next()?;
        let text = truncate::show(line.get(..line.len().min(LINE_CHARS * 4)).unwrap_or(line)).text;
        Some(text.trim_end().chars().take(LINE_CHARS).collect())
    }
}

/// Where the line of the output before `from` starts, as far as it is searched again.
async fn line_start(process: &TrackedProcess, from: u64) -> io::Result<u64> {
    let first = from.saturating_sub(OVERLAP_BYTES as u64).max(process.from).min(from);
    let limit = usize::try_from(from - first).unwrap_or(OVERLAP_BYTES);
    let block = process.spool.read(first, limit).await?;
    Ok((block.start + line_start_in(&block.bytes) as u64).min(from))
}

/// Where the last line of these bytes starts.
fn line_start_in(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)
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
            let line = Until::new(pattern).unwrap().line_in(text.as_bytes(), 0);
            assert_eq!(line.is_some(), expected, "{pattern}: {line:?}");
        }
        for (pattern, shown, new, expected) in [
            ("Server ready", "Server rea", "dy on 80\nmore", Some("Server ready on 80")),
            ("^ready", "not ", "ready", None),
            ("error.*", "error: one", "\nfine\n", None),
            ("error.*", "error: one", "\nerror: two\n", Some("error: two")),
            ("^Password: $", "Password: ", "\n", None),
            ("o", "o", "", None),
        ] {
            let text = format!("{shown}{new}");
            let line = Until::new(pattern).unwrap().line_in(text.as_bytes(), shown.len());
            assert_eq!(line.as_deref(), expected, "{pattern}: {text:?}");
        }
        let error = Until::new("(").unwrap_err().text_content();
        assert!(error.contains("`until`") && error.contains("hint: "), "{error}");
    }
}
