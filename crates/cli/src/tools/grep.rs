//! The tool `grep`: searches files or the output of a process.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use client::v1;
use rustix::io::Errno;
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::browse::limited;
use super::files::value;
use super::outcome::ToolOutcome;
use super::process;
use super::search::{self, ESCAPE_HINT, MULTILINE_HINT, PatternCase};
use super::toolbox::{TargetSession, Toolbox};
use crate::failure::Failure;

/// The maximum number of matches whose lines are returned.
const MAX_MATCHES: usize = 1_000;
/// The maximum number of matches that are counted.
const MAX_COUNTED: usize = 10_000;
/// The maximum number of lines of context.
const MAX_CONTEXT: u64 = 50;
/// The maximum number of characters of a line.
const MAX_LINE_CHARS: usize = 500;
/// The path prefix with which grep searches the output of a process.
const OF_PROCESS: &str = "process:";
/// The capability of servers that match across lines.
const MULTILINE: &str = "fs.grep.multiline";

/// What a call asks for.
#[derive(Debug, Default)]
pub(super) struct GrepRequest {
    /// The regular expression.
    pub(super) pattern: String,
    /// Whether case is ignored.
    pub(super) case: PatternCase,
    /// Lines before each match.
    pub(super) before: usize,
    /// Lines after each match.
    pub(super) after: usize,
    /// Whether the pattern matches across lines.
    pub(super) multiline: bool,
    path: Option<String>,
    include: Option<String>,
    mode: OutputMode,
    /// The maximum number of matches, or of files if only those are shown.
    head_limit: Option<usize>,
}

/// What is shown of the matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum OutputMode {
    #[default]
    Content,
    Files,
    Count,
}

/// A line of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundLine {
    /// The file.
    pub(super) path: String,
    /// The line number, from 1.
    pub(super) number: u64,
    /// Its text.
    pub(super) text: String,
    /// Whether it is a part of a match, not only context.
    pub(super) is_match: bool,
}

/// Lines by file and number.
#[derive(Debug, Default)]
pub(super) struct FoundLines {
    /// The lines.
    pub(super) lines: Vec<FoundLine>,
    /// The number of matches.
    pub(super) matches: usize,
    /// Whether there are more matches.
    pub(super) truncated: bool,
}

/// Searches files or the output of a process.
pub(super) async fn grep(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let request = GrepRequest::of(arguments)?;
    let limit = match request.mode {
        OutputMode::Content => request.head_limit.unwrap_or(MAX_MATCHES).min(MAX_MATCHES),
        OutputMode::Files | OutputMode::Count => MAX_COUNTED,
    };
    let (found, structured, directory) =
        match request.path.as_deref().and_then(|path| path.strip_prefix(OF_PROCESS)) {
            Some(id) => {
                let process = process::tracked(toolbox, id, Some(0), u64::MAX).await?;
                let found = search::search(&process, &request, limit).await?;
                let structured = structured(&found);
                (found, structured, None)
            }
            None => in_files(toolbox, &request, limit).await?,
        };
    let text = match found.lines.is_empty() {
        true => format!("no match for {}", request.pattern),
        false => report(&request, found, directory.as_deref()),
    };
    Ok(ToolOutcome::text(text).with(structured))
}

impl GrepRequest {
    fn of(arguments: &Arguments<'_>) -> Result<GrepRequest, ToolOutcome> {
        let mode = match arguments.maybe_text("output_mode")? {
            None | Some("content") => OutputMode::Content,
            // Another agent's name for it.
            Some("files" | "files_with_matches") => OutputMode::Files,
            Some("count") => OutputMode::Count,
            Some(other) => {
                let text = format!("grep: unknown output_mode `{other}`\nhint: use content, files or count");
                return Err(ToolOutcome::failed(text));
            }
        };
        let context = arguments.maybe_number("context", 0)?.unwrap_or(0);
        let lines = |name: &str| -> Result<usize, ToolOutcome> {
            let lines = arguments.maybe_number(name, 0)?.unwrap_or(context).min(MAX_CONTEXT);
            // The lines of context would be neither listed nor counted.
            Ok(if mode == OutputMode::Content { usize::try_from(lines).unwrap_or(0) } else { 0 })
        };
        let head_limit = arguments.maybe_number("head_limit", 0)?.filter(|limit| *limit > 0);
        Ok(GrepRequest {
            pattern: arguments.text("pattern")?.to_owned(),
            case: if arguments.flag("-i")? { PatternCase::Ignored } else { PatternCase::Smart },
            before: lines("-B")?,
            after: lines("-A")?,
            multiline: arguments.flag("multiline")?,
            path: arguments.maybe_text("path")?.map(str::to_owned),
            include: arguments.maybe_text("include")?.map(str::to_owned),
            mode,
            head_limit: head_limit.and_then(|limit| usize::try_from(limit).ok()),
        })
    }

    fn params(&self, target: &TargetSession, limit: usize) -> v1::FsGrep {
        let context = |lines: usize| i64::try_from(lines).ok().filter(|lines| *lines > 0);
        v1::FsGrep {
            pattern: self.pattern.clone(),
            path: self.path.as_deref().map(|path| target.path(path)).or_else(|| target.cwd.clone()),
            include: self.include.clone().into_iter().collect(),
            case: (self.case == PatternCase::Ignored).then(|| "insensitive".to_owned()),
            before: context(self.before),
            after: context(self.after),
            multiline: self.multiline,
            max_matches: i64::try_from(limit).ok(),
            ..v1::FsGrep::default()
        }
    }
}

/// The lines, the result of the server, and the working directory.
async fn in_files(
    toolbox: &Toolbox,
    request: &GrepRequest,
    limit: usize,
) -> Result<(FoundLines, Value, Option<String>), ToolOutcome> {
    let target = toolbox.target().await?;
    if request.multiline && !target.session.has_capability(MULTILINE) {
        let text = "grep: the server on the target does not support multiline\nhint: search with bash: `rg -U` or `grep -Pzo`";
        return Err(ToolOutcome::failed(text));
    }
    let grep = |target: TargetSession| async move {
        target.session.files().grep(request.params(&target, limit)).await
    };
    let found = toolbox.with_session(grep).await.map_err(|failure| explained(failure, request))?;
    let structured = value(&found);
    Ok((lines_of(found), structured, target.directory()))
}

/// The failure with a hint for its cause.
fn explained(failure: Failure, request: &GrepRequest) -> ToolOutcome {
    if failure.hint.is_some() {
        return failure.into();
    }
    let hint = match failure.data["errno"].as_i64() {
        Some(errno) if errno == i64::from(Errno::NOENT.raw_os_error()) => {
            "the path does not exist; find it with glob or list"
        }
        Some(_) => "check the path with stat",
        None if !request.multiline && search::has_line_end(&request.pattern) => MULTILINE_HINT,
        None if failure.data["field"] == "pattern" => ESCAPE_HINT,
        None => return failure.into(),
    };
    failure.hint(hint).into()
}

/// The lines of one file by number: the text, and whether it is a part of a match.
type LinesByNumber = BTreeMap<u64, (String, bool)>;

/// The lines of all matches, each once: the contexts of close matches overlap.
fn lines_of(found: v1::FsGrepResult) -> FoundLines {
    let (matches, truncated) = (found.matches.len(), found.truncated);
    let mut files: Vec<(String, LinesByNumber)> = Vec::new();
    for one in found.matches {
        if files.last().is_none_or(|(path, _)| *path != one.path) {
            files.push((one.path.clone(), BTreeMap::new()));
        }
        let Some((_, lines)) = files.last_mut() else { continue };
        let first = one.line.saturating_sub(one.before.len() as u64);
        for (number, text) in (first..).zip(one.before) {
            lines.entry(number).or_insert((text, false));
        }
        let mut after = one.line;
        for text in one.text.split('\n') {
            lines.insert(after, (text.to_owned(), true));
            after += 1;
        }
        for (number, text) in (after..).zip(one.after) {
            lines.entry(number).or_insert((text, false));
        }
    }
    let lines = files.into_iter().flat_map(|(path, lines)| {
        lines.into_iter().map(move |(number, (text, is_match))| FoundLine {
            path: path.clone(),
            number,
            text,
            is_match,
        })
    });
    FoundLines { lines: lines.collect(), matches, truncated }
}

/// The matches in the output of a process, in the form of the server.
fn structured(found: &FoundLines) -> Value {
    let matches = found.lines.iter().filter(|line| line.is_match).map(|line| v1::GrepMatch {
        path: line.path.clone(),
        line: line.number,
        column: 1,
        text: line.text.clone(),
        before: Vec::new(),
        after: Vec::new(),
    });
    value(&v1::FsGrepResult { matches: matches.collect(), truncated: found.truncated })
}

/// The text for a model. Paths below the working directory are relative to it.
fn report(request: &GrepRequest, found: FoundLines, directory: Option<&str>) -> String {
    let FoundLines { lines, truncated, .. } = found;
    let relative = |path: &str| {
        let below = directory.and_then(|directory| path.strip_prefix(directory)?.strip_prefix('/'));
        below.unwrap_or(path).to_owned()
    };
    let next = json!({ "pattern": request.pattern, "path": "DIRECTORY", "include": "*.rs" });
    let next = format!("grep {next}, or a narrower pattern");
    if request.mode == OutputMode::Content {
        let context = request.before + request.after > 0;
        let mut previous: Option<(String, u64)> = None;
        let shown = lines.iter().map(|line| {
            let is_apart = previous
                .as_ref()
                .is_some_and(|(path, number)| *path != line.path || *number + 1 != line.number);
            previous = Some((line.path.clone(), line.number));
            let mark = if line.is_match { ':' } else { '-' };
            let separator = if context && is_apart { "--\n" } else { "" };
            format!("{separator}{}{mark}{}{mark} {}", relative(&line.path), line.number, short(&line.text))
        });
        return limited(("", "lines"), shown, truncated, &next);
    }
    let mut counts: Vec<(String, usize)> = Vec::new();
    for line in lines.iter().filter(|line| line.is_match) {
        match counts.last_mut().filter(|(path, _)| *path == line.path) {
            Some((_, count)) => *count += 1,
            None => counts.push((line.path.clone(), 1)),
        }
    }
    let limit = request.head_limit.unwrap_or(usize::MAX);
    let truncated = truncated || counts.len() > limit;
    let shown = counts.iter().take(limit).map(|(path, count)| {
        let mut text = relative(path);
        if request.mode == OutputMode::Count {
            write!(text, ": {count}").ok();
        }
        text
    });
    limited(("", "files"), shown, truncated, &next)
}

fn short(text: &str) -> String {
    match text.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{} …", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, line: u64, text: &str, before: &[&str], after: &[&str]) -> v1::GrepMatch {
        let texts = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let (path, text) = (path.to_owned(), text.to_owned());
        v1::GrepMatch { path, line, column: 1, text, before: texts(before), after: texts(after) }
    }

    fn shown(mode: OutputMode, context: usize, matches: Vec<v1::GrepMatch>) -> String {
        let (before, after) = (context, context);
        let request = GrepRequest { pattern: "x".to_owned(), before, after, mode, ..GrepRequest::default() };
        report(&request, lines_of(v1::FsGrepResult { matches, truncated: false }), Some("/w"))
    }

    #[test]
    fn paths_are_relative_and_overlapping_context_is_shown_once() {
        let matches = || {
            vec![
                found("/w/a", 2, "x1", &["one"], &["x2"]),
                found("/w/a", 3, "x2", &["x1"], &["four"]),
                found("/w/a", 9, "x9", &["eight"], &[]),
                found("/other/b", 1, "x", &[], &[]),
            ]
        };
        assert_eq!(
            shown(OutputMode::Content, 1, matches()),
            "a-1- one\na:2: x1\na:3: x2\na-4- four\n--\na-8- eight\na:9: x9\n--\n/other/b:1: x"
        );
        assert_eq!(shown(OutputMode::Files, 0, matches()), "a\n/other/b");
        assert_eq!(shown(OutputMode::Count, 0, matches()), "a: 3\n/other/b: 1");
    }

    #[test]
    fn a_match_of_several_lines_has_a_number_for_each() {
        let matches = vec![found("/w/a", 4, "x\ny", &[], &["after"])];
        assert_eq!(shown(OutputMode::Content, 1, matches), "a:4: x\na:5: y\na-6- after");
        assert!(short(&"✓".repeat(600)).ends_with("✓ …"));
    }

    #[test]
    fn a_hint_fits_the_mistake() {
        let request = |pattern: &str| GrepRequest { pattern: pattern.to_owned(), ..GrepRequest::default() };
        let failed = |data: Value, pattern: &str| {
            explained(Failure { data, ..Failure::new("failed") }, &request(pattern)).text_content()
        };
        assert!(failed(json!({ "errno": 2, "path": "/x" }), "a").contains("does not exist"));
        assert!(failed(json!({ "field": "pattern" }), "a\\nb").contains("multiline: true"));
        assert!(failed(json!({ "field": "pattern" }), "(").contains("escape special characters"));
        assert_eq!(failed(json!({}), "a"), "failed");
    }
}
