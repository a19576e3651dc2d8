//! Lists, globs and searches. They run beside other requests, within a deadline, and can be cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::approval::FileAction;
use engine::files::{self, Case, GlobOptions, GrepOptions, ListOptions, ScanBudget};
use engine::policy::Access;
use serde::Serialize;
use wire::jsonrpc;
use wire::rexd::v1::{self, RpcError};

use super::files::{FileAccess, kind_name};
use super::frame::{encoded_bytes, fit};
use super::{Context, Params, PrepareResult, RexdPrepared};
use crate::core::effects::FileEffects;
use crate::core::request::off_thread;
use crate::core::responder::Responder;
use crate::faces::rexd::convert::optional_count;
use crate::faces::rexd::errors::{into_text, invalid, rpc_error, text, with_hint};
use crate::faces::rexd::session::Session;

/// Matches of a search without a limit of its own.
const DEFAULT_MATCHES: usize = 10_000;
/// Lines of context per match; more is a read of the file.
const MAX_CONTEXT_LINES: usize = 1_000;

/// Checks and converts a `fs.list` request.
pub(crate) fn list(params: &Params<v1::FsList>, context: &Context<'_>) -> PrepareResult {
    let file = FileAccess::new(context, &params.path)?;
    let options = ListOptions {
        recursive: params.recursive,
        names_only: params.names_only,
        max_entries: optional_count("max_entries", params.max_entries)?,
    };
    let (effects, path, frame) = (file.read(context)?, file.path, context.session.state.client.frame_bytes);
    Ok(RexdPrepared::with_effects(effects, move |session, request| {
        run_scan(session, request.responder, deadline(session), move |scan| {
            let listing = files::list(&path, options, &scan).map_err(rpc_error)?;
            let truncated = listing.truncated;
            let entries = listing.entries.into_iter().map(|entry| v1::ListEntry {
                name: entry.name().to_string_lossy().into_owned(),
                path: into_text(entry.path),
                kind: kind_name(entry.kind).to_owned(),
                size: entry.size,
                mtime: entry.mtime_ms,
            });
            let (entries, was_cut) = fit(entries, frame, encoded_bytes);
            let truncated = truncated || was_cut;
            Ok(v1::FsListResult { path: text(path.as_path()), entries, truncated })
        });
    }))
}

/// Checks and converts a `fs.glob` request.
pub(crate) fn glob(params: &Params<v1::FsGlob>, context: &Context<'_>) -> PrepareResult {
    let max_matches = optional_count("max_matches", params.max_matches)?;
    // Without a directory the pattern may be absolute: only what it matches has to be inside the roots.
    let directory = match &params.cwd {
        Some(cwd) => FileAccess::new(context, cwd)?.path.as_path().to_owned(),
        None => context.request.cwd.to_path_buf(),
    };
    let effects = context.file_effects(|| {
        let file = FileAccess::new(context, params.cwd.as_deref().unwrap_or_default())?;
        Ok(FileEffects::new(FileAction::Read, vec![file.effect(Access::Read, false)]))
    })?;
    let (params, roots, frame) =
        (params.clone(), context.guarded_roots(), context.session.state.client.frame_bytes);
    let no_roots = context.session.core.no_roots.clone();
    Ok(RexdPrepared::with_effects(effects, move |session, request| {
        run_scan(session, request.responder, deadline(session), move |scan| {
            let found = files::glob(&roots, &directory, &params.pattern, GlobOptions { max_matches }, &scan);
            let found = found.map_err(|error| with_hint(rpc_error(error), no_roots.as_deref()))?;
            let truncated = found.truncated;
            let (matches, was_cut) = fit(found.paths.into_iter().map(into_text), frame, encoded_bytes);
            Ok(v1::FsGlobResult { matches, truncated: truncated || was_cut })
        });
    }))
}

/// Checks and converts a `fs.grep` request.
pub(crate) fn grep(params: &Params<v1::FsGrep>, context: &Context<'_>) -> PrepareResult {
    let file = FileAccess::new(context, params.path.as_deref().unwrap_or_default())?;
    let grep = grep_options(params)?;
    let (effects, path, frame) = (file.read(context)?, file.path, context.session.state.client.frame_bytes);
    Ok(RexdPrepared::with_effects(effects, move |session, request| {
        run_scan(session, request.responder, deadline(session), move |scan| {
            let found = files::grep_sorted(&path, &grep, &scan).map_err(rpc_error)?;
            let matches = found.matches.into_iter().map(|found| v1::GrepMatch {
                path: text(&found.path),
                line: found.line,
                column: found.column,
                text: found.text,
                before: found.before,
                after: found.after,
            });
            let (matches, was_cut) = fit(matches, frame, encoded_bytes);
            Ok(v1::FsGrepResult { matches, truncated: found.truncated || was_cut })
        });
    }))
}

/// The deadline for a walk over many files.
fn deadline(session: &Session) -> ScanBudget {
    ScanBudget::within(session.limits.scan_deadline)
}

/// Runs a scan on a worker thread until it ends, reaches its deadline or is cancelled. Its response can be long, so it is
/// encoded there as well.
pub(super) fn run_scan<T: Serialize>(
    session: &Session,
    responder: Responder,
    scan: ScanBudget,
    work: impl FnOnce(ScanBudget) -> Result<T, RpcError> + Send + 'static,
) {
    let cancelled = Arc::new(AtomicBool::new(false));
    let scan = scan.cancelled_by(cancelled.clone());
    let (cancel, id) = (responder.cancel.clone(), responder.id());
    session.spawn(async move {
        let scanning = off_thread(move || {
            let result = work(scan)?;
            Ok(id.map(|id| jsonrpc::response(Some(&id), &result)))
        });
        tokio::pin!(scanning);
        let response = tokio::select! {
            response = &mut scanning => response,
            () = cancel.cancelled() => {
                cancelled.store(true, Ordering::Relaxed);
                scanning.await
            }
        };
        responder.send_encoded(response).await;
    });
}

fn grep_options(params: &v1::FsGrep) -> Result<GrepOptions, RpcError> {
    let case = match params.case.as_deref() {
        None | Some("smart") => Case::Smart,
        Some("sensitive") => Case::Sensitive,
        Some("insensitive") => Case::Insensitive,
        Some(_) => return Err(invalid("case", "expected smart, sensitive or insensitive")),
    };
    let mut grep = GrepOptions::new(params.pattern.clone());
    grep.literal = params.literal;
    grep.case = case;
    grep.include = params.include.clone();
    grep.exclude = params.exclude.clone();
    grep.multiline = params.multiline;
    grep.before = optional_count("before", params.before)?.unwrap_or(0).min(MAX_CONTEXT_LINES);
    grep.after = optional_count("after", params.after)?.unwrap_or(0).min(MAX_CONTEXT_LINES);
    grep.hidden = params.hidden;
    grep.no_ignore = params.no_ignore;
    grep.max_matches = optional_count("max_matches", params.max_matches)?.unwrap_or(DEFAULT_MATCHES);
    Ok(grep)
}
