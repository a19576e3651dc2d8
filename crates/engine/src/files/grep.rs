//! Searches file contents with ripgrep's libraries: parallel, bounded, and only inside the roots.
//!
//! The walker lists directories by path, which only selects the files to search. Every file is opened relative to the
//! descriptor of the searched directory, without following symlinks, so that nothing outside is read.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::{WalkBuilder, WalkState};
use rustix::fs::{FileType, OFlags, ResolveFlags};

use super::grep_sink::{FileSink, Match, Shared};
use super::guard::{Access, check_open};
use super::ignore_files::IgnoreFiles;
use super::path::{ResolveStrategy, RootedPath};
use super::resolve::{SAFE_FLAGS, is_of_process, open_beneath};
use super::scan::ScanBudget;
use crate::Error;

/// Threads of one search; files wait for a free one.
const MAX_THREADS: usize = 8;

/// Memory for lines of one search, divided among its threads. A file with a longer line is searched up to that line.
const MAX_HEAP: usize = 64 * 1024 * 1024;

/// Whether upper and lower case differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Case {
    /// Insensitive unless the pattern contains an upper-case letter.
    #[default]
    Smart,
    /// Sensitive.
    Sensitive,
    /// Insensitive.
    Insensitive,
}

/// The options of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepOptions {
    /// A regular expression, or plain text if `literal`.
    pub pattern: String,
    /// Whether the pattern is plain text.
    pub literal: bool,
    /// Case sensitivity.
    pub case: Case,
    /// Globs of which a file must match one, if there are any, with the syntax of `.gitignore`.
    pub include: Vec<String>,
    /// Globs of files and directories to exclude.
    pub exclude: Vec<String>,
    /// Whether a match may span lines; `.` then matches line ends too. Files larger than the memory of a search are skipped.
    pub multiline: bool,
    /// The number of lines before each match.
    pub before: usize,
    /// The number of lines after each match.
    pub after: usize,
    /// Whether names with a leading dot are searched too.
    pub hidden: bool,
    /// Whether to disregard ignore files.
    pub no_ignore: bool,
    /// Limit on the number of matches.
    pub max_matches: usize,
    /// Longer lines are returned truncated, but searched completely.
    pub max_line_bytes: usize,
}

impl GrepOptions {
    /// A search with the default options.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            literal: false,
            case: Case::default(),
            include: Vec::new(),
            exclude: Vec::new(),
            multiline: false,
            before: 0,
            after: 0,
            hidden: false,
            no_ignore: false,
            max_matches: usize::MAX,
            max_line_bytes: 16 * 1024,
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrepResult {
    /// The matches by path and line; empty when they were streamed.
    pub matches: Vec<Match>,
    /// Whether there are more matches.
    pub truncated: bool,
}

/// Searches a file or directory and returns all matches, sorted by path and line.
pub fn grep_sorted(path: &RootedPath, grep: &GrepOptions, scan: &ScanBudget) -> Result<GrepResult, Error> {
    let all = Mutex::new(Vec::new());
    let mut grepped = self::grep(path, grep, scan, &|mut found| {
        all.lock().unwrap_or_else(PoisonError::into_inner).append(&mut found);
    })?;
    grepped.matches = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    grepped.matches.sort_unstable();
    Ok(grepped)
}

/// Searches a file or directory and calls `deliver` with a few matches at a time: in order within a file, in any order
/// of files, from several threads. Binary files are skipped as ripgrep does.
pub fn grep(
    path: &RootedPath,
    grep: &GrepOptions,
    scan: &ScanBudget,
    deliver: &(dyn Fn(Vec<Match>) + Sync),
) -> Result<GrepResult, Error> {
    scan.check("grep")?;
    let matcher = matcher(grep)?;
    let filter = filter(path.as_path(), grep)?;
    let shared = Shared {
        grep,
        matcher: &matcher,
        scan,
        found: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        deliver,
    };
    let truncated = match path.open_listing() {
        Ok(top) => search_tree(path, top, filter, &shared)?,
        Err(Error::File { source, .. }) if source.kind() == std::io::ErrorKind::NotADirectory => {
            let file = path.open_file()?;
            search_file(&mut searcher(grep), &shared, path.as_path(), file)
        }
        Err(error) => return Err(error),
    };
    scan.check("grep")?;
    Ok(GrepResult { matches: Vec::new(), truncated })
}

/// Searches all files below a directory; returns whether matches were omitted.
fn search_tree(
    path: &RootedPath,
    top: OwnedFd,
    filter: Override,
    shared: &Shared<'_>,
) -> Result<bool, Error> {
    let truncated = AtomicBool::new(false);
    let opener = Opener { path, top };
    let walker = walker(path, shared.grep, filter);
    walker.run(|| {
        let mut searcher = searcher(shared.grep);
        let (opener, truncated) = (&opener, &truncated);
        Box::new(move |entry| {
            if shared.scan.check("grep").is_err() || truncated.load(Ordering::Relaxed) {
                return WalkState::Quit;
            }
            // Unreadable entries are skipped.
            let Ok(entry) = entry else { return WalkState::Continue };
            if entry.file_type().is_some_and(|kind| kind.is_file())
                && let Some(file) = opener.open(entry.path())
                && search_file(&mut searcher, shared, entry.path(), file)
            {
                truncated.store(true, Ordering::Relaxed);
                return WalkState::Quit;
            }
            WalkState::Continue
        })
    });
    Ok(truncated.into_inner())
}

/// Opens the files of a tree relative to the searched directory.
struct Opener<'a> {
    path: &'a RootedPath,
    top: OwnedFd,
}

impl Opener<'_> {
    /// A regular file; `None` if it is not one any more or cannot be read.
    fn open(&self, path: &Path) -> Option<std::fs::File> {
        let below = path.strip_prefix(self.path.as_path()).ok()?;
        if self.path.roots().strategy() == ResolveStrategy::Kernel {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            if let Some(decided) = open_beneath(&self.top, below, OFlags::RDONLY | SAFE_FLAGS, resolve) {
                let file = decided.ok().filter(|file| !is_of_process(file).unwrap_or(true))?;
                if let Some(guard) = self.path.roots().guard() {
                    check_open(guard, &file, Access::Read).ok()?;
                }
                let stat = rustix::fs::fstat(&file).ok()?;
                return (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| file.into());
            }
        }
        self.path.join(below).ok()?.open_file().ok()
    }
}

/// Searches one file; returns whether the limit on matches was exceeded. If reading fails, the matches so far are kept.
fn search_file(searcher: &mut Searcher, shared: &Shared<'_>, path: &Path, file: std::fs::File) -> bool {
    let mut sink = FileSink::new(shared, path);
    let reader = BoundedReader { file, scan: shared.scan };
    if let Err(error) = searcher.search_reader(shared.matcher, reader, &mut sink) {
        tracing::debug!(%error, "a file was not searched to its end");
    }
    sink.finish()
}

fn matcher(grep: &GrepOptions) -> Result<RegexMatcher, Error> {
    let mut builder = RegexMatcherBuilder::new();
    builder.ban_byte(Some(b'\0')).multi_line(true).fixed_strings(grep.literal);
    match grep.multiline {
        true => builder.dot_matches_new_line(true),
        false => builder.line_terminator(Some(b'\n')),
    };
    match grep.case {
        Case::Smart => builder.case_smart(true),
        Case::Sensitive => builder.case_insensitive(false),
        Case::Insensitive => builder.case_insensitive(true),
    };
    builder
        .build(&grep.pattern)
        .map_err(|error| Error::Pattern { pattern: grep.pattern.clone(), reason: error.to_string() })
}

fn searcher(grep: &GrepOptions) -> Searcher {
    SearcherBuilder::new()
        .binary_detection(BinaryDetection::quit(b'\0'))
        .memory_map(MmapChoice::never())
        .heap_limit(Some(MAX_HEAP / threads()))
        .line_number(true)
        .multi_line(grep.multiline)
        .before_context(grep.before)
        .after_context(grep.after)
        .build()
}

fn filter(top: &Path, grep: &GrepOptions) -> Result<Override, Error> {
    let mut builder = OverrideBuilder::new(top);
    let excluded = grep.exclude.iter().map(|glob| format!("!{glob}"));
    for glob in grep.include.iter().cloned().chain(excluded) {
        let bad = |error: ignore::Error| Error::Pattern { pattern: glob.clone(), reason: error.to_string() };
        builder.add(&glob).map_err(bad)?;
    }
    builder
        .build()
        .map_err(|error| Error::Pattern { pattern: grep.include.join(" "), reason: error.to_string() })
}

fn walker(top: &RootedPath, grep: &GrepOptions, filter: Override) -> ignore::WalkParallel {
    let ignore_files = (!grep.no_ignore).then(|| IgnoreFiles::new(top));
    let mut builder = WalkBuilder::new(top.as_path());
    builder.threads(threads()).follow_links(false).standard_filters(false).hidden(!grep.hidden);
    // Not the walker's override, which would also search files that ignore files leave out.
    builder.filter_entry(move |entry| {
        let is_dir = entry.file_type().is_some_and(|kind| kind.is_dir());
        !filter.matched(entry.path(), is_dir).is_ignore()
            && !ignore_files.as_ref().is_some_and(|files| files.ignores(entry.path(), is_dir))
    });
    builder.build_parallel()
}

/// The number of threads of one search.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS)
}

/// A file whose reads fail when the search should stop, however large the file is.
struct BoundedReader<'a> {
    file: std::fs::File,
    scan: &'a ScanBudget,
}

impl std::io::Read for BoundedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.scan.check("grep").map_err(std::io::Error::other)?;
        self.file.read(buffer)
    }
}
