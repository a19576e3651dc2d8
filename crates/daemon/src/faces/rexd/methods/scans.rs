//! Scans: lists, globs and searches. They run beside everything else, within a deadline, and can be cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::files::{self, Case, GlobOptions, GrepOptions, ListOptions, ScanBudget};
use serde::Serialize;
use wire::rexd::v1::{self, RpcError};

use super::super::answer::Answer;
use super::super::convert::{optional_count, path};
use super::super::errors::{invalid, rpc_error, text, with_hint};
use super::super::session::Session;
use super::files::{kind_name, off_thread};

/// Matches of a search that names no bound of its own.
const MATCHES: usize = 10_000;
/// Lines of context that anybody can read; more is a read of the file.
const CONTEXT_LINES: usize = 1_000;

impl Session {
    /// `fs.list`.
    pub(super) fn fs_list(&self, params: v1::FsList, answer: Answer) {
        let prepared = self
            .path(&params.path)
            .and_then(|path| Ok((path, optional_count("max_entries", params.max_entries)?)));
        let (path, max_entries) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return self.refuse(answer, error),
        };
        let options = ListOptions { recursive: params.recursive, names_only: params.names_only, max_entries };
        let frame = self.manners.frame_bytes;
        self.scan(answer, self.deadline(), move |scan| {
            let listing = files::list(&path, options, &scan).map_err(rpc_error)?;
            let entries = listing.entries.iter().map(|entry| v1::ListEntry {
                name: entry.name().to_string_lossy().into_owned(),
                path: text(&entry.path),
                kind: kind_name(entry.kind).to_owned(),
                size: entry.size,
                mtime: entry.mtime_ms,
            });
            let (entries, was_cut) = fit(entries, frame, |entry| entry.name.len() + entry.path.len() + 96);
            Ok(v1::FsListResult {
                path: text(path.as_path()),
                entries,
                truncated: listing.truncated || was_cut,
            })
        });
    }

    /// `fs.glob`.
    pub(super) fn fs_glob(&self, params: v1::FsGlob, answer: Answer) {
        let base = match &params.cwd {
            Some(cwd) => self.path(cwd).map(|path| path.as_path().to_owned()),
            None => Ok(self.cwd.clone()),
        };
        let (base, max_matches) =
            match base.and_then(|base| Ok((base, optional_count("max_matches", params.max_matches)?))) {
                Ok(prepared) => prepared,
                Err(error) => return self.refuse(answer, error),
            };
        let (roots, frame, no_roots) =
            (self.ruled_roots(), self.manners.frame_bytes, self.service.no_roots.clone());
        self.scan(answer, self.deadline(), move |scan| {
            let found = files::glob(&roots, &base, &params.pattern, GlobOptions { max_matches }, &scan);
            let found = found.map_err(|error| with_hint(rpc_error(error), no_roots.as_deref()))?;
            let (matches, was_cut) =
                fit(found.paths.iter().map(|path| text(path)), frame, |path| path.len() + 8);
            Ok(v1::FsGlobResult { matches, truncated: found.truncated || was_cut })
        });
    }

    /// `fs.grep`.
    pub(super) fn fs_grep(&self, params: v1::FsGrep, answer: Answer) {
        let path = match path(&self.ruled_roots(), &self.cwd, params.path.as_deref().unwrap_or_default()) {
            Ok(path) => path,
            Err(error) => return self.refuse(answer, self.hint(error)),
        };
        let grep = match grep(params) {
            Ok(grep) => grep,
            Err(error) => return self.refuse(answer, error),
        };
        let frame = self.manners.frame_bytes;
        self.scan(answer, self.deadline(), move |scan| {
            let found = files::grep_sorted(&path, &grep, &scan).map_err(rpc_error)?;
            let matches = found.matches.into_iter().map(|found| v1::GrepMatch {
                path: text(&found.path),
                line: found.line,
                column: found.column,
                text: found.text,
                before: found.before,
                after: found.after,
            });
            let lines = |lines: &[String]| lines.iter().map(|line| escaped(line) + 4).sum::<usize>();
            let size = |found: &v1::GrepMatch| {
                found.path.len() + escaped(&found.text) + lines(&found.before) + lines(&found.after) + 96
            };
            let (matches, was_cut) = fit(matches, frame, size);
            Ok(v1::FsGrepResult { matches, truncated: found.truncated || was_cut })
        });
    }

    /// How long a walk over many files may take.
    fn deadline(&self) -> ScanBudget {
        ScanBudget::within(self.limits.scan_deadline)
    }

    /// Runs a scan off the event loop, within its bounds, until it is done or withdrawn.
    pub(super) fn scan<T: Serialize + Send + 'static>(
        &self,
        answer: Answer,
        bounds: ScanBudget,
        work: impl FnOnce(ScanBudget) -> Result<T, RpcError> + Send + 'static,
    ) {
        let withdrawn = Arc::new(AtomicBool::new(false));
        let scan = bounds.cancelled_by(withdrawn.clone());
        let cancel = answer.cancel.clone();
        self.spawn(async move {
            let scanning = off_thread(move || work(scan));
            tokio::pin!(scanning);
            let result = tokio::select! {
                result = &mut scanning => result,
                () = cancel.cancelled() => {
                    withdrawn.store(true, Ordering::Relaxed);
                    scanning.await
                }
            };
            answer.send(result).await;
        });
    }
}

fn grep(params: v1::FsGrep) -> Result<GrepOptions, RpcError> {
    let case = match params.case.as_deref() {
        None | Some("smart") => Case::Smart,
        Some("sensitive") => Case::Sensitive,
        Some("insensitive") => Case::Insensitive,
        Some(_) => return Err(invalid("case", "expected smart, sensitive or insensitive")),
    };
    let mut grep = GrepOptions::new(params.pattern);
    grep.literal = params.literal;
    grep.case = case;
    grep.include = params.include;
    grep.exclude = params.exclude;
    grep.before = optional_count("before", params.before)?.unwrap_or(0).min(CONTEXT_LINES);
    grep.after = optional_count("after", params.after)?.unwrap_or(0).min(CONTEXT_LINES);
    grep.hidden = params.hidden;
    grep.no_ignore = params.no_ignore;
    grep.max_matches = optional_count("max_matches", params.max_matches)?.unwrap_or(MATCHES);
    Ok(grep)
}

/// As many items as fit into a line of `frame` bytes, and whether some had to go.
fn fit<T>(
    items: impl Iterator<Item = T>,
    frame: Option<usize>,
    size: impl Fn(&T) -> usize,
) -> (Vec<T>, bool) {
    let Some(frame) = frame else { return (items.collect(), false) };
    let mut room = frame.saturating_sub(8 * 1024);
    let mut fitting = Vec::new();
    for item in items {
        match room.checked_sub(size(&item)) {
            Some(left) => room = left,
            None => return (fitting, true),
        }
        fitting.push(item);
    }
    (fitting, false)
}

/// The most that a line can take once it is escaped.
fn escaped(line: &str) -> usize {
    let controls = line.bytes().filter(|byte| *byte < 0x20).count();
    let quotes = line.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    line.len() + controls * 5 + quotes
}
