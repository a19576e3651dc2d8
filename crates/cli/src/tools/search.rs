//! Searches the output of a process with the same engine as files.

use std::io;
use std::sync::Arc;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::grep::{FoundLine, FoundLines, GrepRequest};
use super::outcome::ToolOutcome;
use super::spool::{Spool, SpoolReader};
use super::tracked::TrackedProcess;
use super::truncate;

/// The maximum length of a line that is searched, and of the output with `multiline`.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;
/// The hint for a pattern that does not parse.
pub(super) const ESCAPE_HINT: &str = "escape special characters with \\: ( ) [ ] { } . * + ? | ^ $";
/// The hint for a pattern that needs `multiline`.
pub(super) const MULTILINE_HINT: &str = "set multiline: true to match across line ends";

/// What a pattern is matched against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternScope {
    /// One line.
    OneLine,
    /// Text of several lines; `.` also matches a line end.
    AcrossLines,
}

/// Whether a pattern contains a line end, which only matches across lines.
pub(super) fn has_line_end(pattern: &str) -> bool {
    pattern.contains('\n') || pattern.contains("\\n")
}

/// Whether case is ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum PatternCase {
    /// Unless the pattern contains a capital letter.
    #[default]
    Smart,
    /// Always.
    Ignored,
}

/// Parses the regular expression of an argument.
pub(super) fn matcher(
    name: &str,
    pattern: &str,
    (scope, case): (PatternScope, PatternCase),
) -> Result<RegexMatcher, ToolOutcome> {
    let mut builder = RegexMatcherBuilder::new();
    match case {
        PatternCase::Smart => builder.case_smart(true),
        PatternCase::Ignored => builder.case_insensitive(true),
    };
    builder.multi_line(true);
    match scope {
        PatternScope::OneLine => builder.line_terminator(Some(b'\n')),
        PatternScope::AcrossLines => builder.dot_matches_new_line(true),
    };
    builder.build(pattern).map_err(|error| {
        let needs_lines = scope == PatternScope::OneLine && has_line_end(pattern);
        let hint = if needs_lines { MULTILINE_HINT } else { ESCAPE_HINT };
        ToolOutcome::failed(format!("invalid regular expression in `{name}`: {error}\nhint: {hint}"))
    })
}

/// Searches the output that a process has written so far.
pub(super) async fn search(
    process: &TrackedProcess,
    request: &GrepRequest,
    limit: usize,
) -> Result<FoundLines, ToolOutcome> {
    let scope = if request.multiline { PatternScope::AcrossLines } else { PatternScope::OneLine };
    let matcher = matcher("pattern", &request.pattern, (scope, request.case))?;
    let mut searcher = SearcherBuilder::new();
    searcher
        .line_number(true)
        .binary_detection(BinaryDetection::none())
        .heap_limit(Some(MAX_LINE_BYTES))
        .multi_line(request.multiline)
        .before_context(request.before)
        .after_context(request.after);
    let (spool, path) = (process.spool.clone(), format!("process:{}", process.id));
    let searched =
        tokio::task::spawn_blocking(move || lines(spool, &matcher, &mut searcher.build(), path, limit)).await;
    let failed =
        |error: &dyn std::fmt::Display| ToolOutcome::failed(format!("cannot search the output: {error}"));
    searched.map_err(|error| failed(&error))?.map_err(|error| failed(&error))
}

fn lines(
    spool: Arc<Spool>,
    matcher: &RegexMatcher,
    searcher: &mut Searcher,
    path: String,
    limit: usize,
) -> io::Result<FoundLines> {
    let mut found = Found { path, limit, result: FoundLines::default() };
    searcher.search_reader(matcher, SpoolReader::new(spool), &mut found)?;
    Ok(found.result)
}

struct Found {
    path: String,
    limit: usize,
    result: FoundLines,
}

impl Found {
    fn add(&mut self, first: Option<u64>, bytes: &[u8], is_match: bool) {
        let text = truncate::show(bytes).text;
        let first = first.unwrap_or(0);
        for (number, text) in (first..).zip(text.lines()) {
            let (path, text) = (self.path.clone(), text.to_owned());
            self.result.lines.push(FoundLine { path, number, text, is_match });
        }
    }
}

impl Sink for Found {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.result.matches >= self.limit {
            self.result.truncated = true;
            return Ok(false);
        }
        self.result.matches += 1;
        self.add(found.line_number(), found.bytes(), true);
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.add(context.line_number(), context.bytes(), false);
        Ok(true)
    }
}
