//! Searches the output of a process with the same engine as files.

use std::sync::Arc;

use client::v1::{FsGrepResult, GrepMatch};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, SearcherBuilder, Sink, SinkMatch};

use super::outcome::ToolOutcome;
use super::spool::{Spool, SpoolReader};
use super::tracked::TrackedProcess;
use super::truncate;

/// The maximum length of a line that is searched.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// Searches the output that a process has written so far.
pub(super) async fn search(
    process: &TrackedProcess,
    pattern: &str,
    limit: usize,
) -> Result<FsGrepResult, ToolOutcome> {
    let matcher = RegexMatcherBuilder::new().case_smart(true).line_terminator(Some(b'\n')).build(pattern);
    let matcher = matcher
        .map_err(|error| ToolOutcome::failed(format!("invalid regular expression in `pattern`: {error}")))?;
    let (spool, path) = (process.spool.clone(), format!("process:{}", process.id));
    let searched = tokio::task::spawn_blocking(move || lines(spool, &matcher, path, limit)).await;
    let failed =
        |error: &dyn std::fmt::Display| ToolOutcome::failed(format!("cannot search the output: {error}"));
    searched.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}

fn lines(
    spool: Arc<Spool>,
    matcher: &RegexMatcher,
    path: String,
    limit: usize,
) -> std::io::Result<FsGrepResult> {
    let mut found = Found { path, limit, result: FsGrepResult { matches: Vec::new(), truncated: false } };
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::none())
        .heap_limit(Some(MAX_LINE_BYTES))
        .build();
    searcher.search_reader(matcher, SpoolReader::new(spool), &mut found)?;
    Ok(found.result)
}

struct Found {
    path: String,
    limit: usize,
    result: FsGrepResult,
}

impl Sink for Found {
    type Error = std::io::Error;

    fn matched(&mut self, _: &grep_searcher::Searcher, line: &SinkMatch<'_>) -> Result<bool, std::io::Error> {
        if self.result.matches.len() >= self.limit {
            self.result.truncated = true;
            return Ok(false);
        }
        let bytes = line.bytes().strip_suffix(b"\n").unwrap_or(line.bytes());
        self.result.matches.push(GrepMatch {
            path: self.path.clone(),
            line: line.line_number().unwrap_or(0),
            column: 1,
            text: truncate::show(bytes).text,
            before: Vec::new(),
            after: Vec::new(),
        });
        Ok(true)
    }
}
