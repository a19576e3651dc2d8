//! Searching the output of a process as files are searched there.

use std::sync::Arc;

use client::v1::{FsGrepResult, GrepMatch};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, SearcherBuilder, Sink, SinkMatch};

use super::cut;
use super::follow::Followed;
use super::outcome::Outcome;
use super::spool::{Spool, SpoolReader};

/// The longest line that is searched.
const LONGEST: usize = 8 * 1024 * 1024;

/// Lines of what a process wrote so far.
pub(super) async fn search(process: &Followed, pattern: &str, most: usize) -> Result<FsGrepResult, Outcome> {
    let matcher = RegexMatcherBuilder::new().case_smart(true).line_terminator(Some(b'\n')).build(pattern);
    let matcher =
        matcher.map_err(|error| Outcome::failed(format!("`pattern` is no regular expression: {error}")))?;
    let (spool, path) = (process.spool.clone(), format!("process:{}", process.id));
    let searched = tokio::task::spawn_blocking(move || lines(spool, &matcher, path, most)).await;
    let failed =
        |error: &dyn std::fmt::Display| Outcome::failed(format!("the output cannot be searched: {error}"));
    searched.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}

fn lines(
    spool: Arc<Spool>,
    matcher: &RegexMatcher,
    path: String,
    most: usize,
) -> std::io::Result<FsGrepResult> {
    let mut found = Found { path, most, result: FsGrepResult { matches: Vec::new(), truncated: false } };
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .binary_detection(BinaryDetection::none())
        .heap_limit(Some(LONGEST))
        .build();
    searcher.search_reader(matcher, SpoolReader::new(spool), &mut found)?;
    Ok(found.result)
}

struct Found {
    path: String,
    most: usize,
    result: FsGrepResult,
}

impl Sink for Found {
    type Error = std::io::Error;

    fn matched(&mut self, _: &grep_searcher::Searcher, line: &SinkMatch<'_>) -> Result<bool, std::io::Error> {
        if self.result.matches.len() >= self.most {
            self.result.truncated = true;
            return Ok(false);
        }
        let bytes = line.bytes().strip_suffix(b"\n").unwrap_or(line.bytes());
        self.result.matches.push(GrepMatch {
            path: self.path.clone(),
            line: line.line_number().unwrap_or(0),
            column: 1,
            text: cut::show(bytes).text,
            before: Vec::new(),
            after: Vec::new(),
        });
        Ok(true)
    }
}
