//! The tools `read`, `write`, `edit` and `patch`.

use client::v1;
use rustix::io::Errno;
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::lines::{LinePage, LineWindow};
use super::outcome::{ContentPart, ToolOutcome};
use super::toolbox::{TargetSession, Toolbox};
use super::{browse, image, unified_diff};
use crate::failure::Failure;

/// Bytes read per request.
const CHUNK: u64 = 256 * 1024;
/// The maximum size of an image returned to a model.
const MAX_IMAGE_BYTES: u64 = 8 * 1024 * 1024;
/// The maximum number of lines of one `read`.
const MAX_LINES: u64 = 1_800;
/// The hint for a file that the user of the server may not change.
const NOT_WRITABLE: &str = "the user of the server may not change it: stat shows its owner and mode; use another path, or ask the operator";
/// The maximum number of resource links in a result.
const MAX_LINKS: usize = 20;

/// Reads lines of a file, or an image.
pub(super) async fn read(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let path = arguments.text("path")?;
    let first = arguments.maybe_number("offset", 1)?.unwrap_or(1);
    let limit = arguments.maybe_number("limit", 1)?.unwrap_or(MAX_LINES).min(MAX_LINES);
    let mut lines = LineWindow::new(first, limit);
    let mut at = 0;
    loop {
        let (bytes, about) = match chunk(toolbox, path, at).await {
            Ok(read) => read,
            Err(failure) => return unreadable(toolbox, path, failure).await,
        };
        if let Some(mime) = image::kind(&bytes).filter(|_| at == 0) {
            return picture(toolbox, path, mime, &about).await;
        }
        if at == 0 && bytes.contains(&0) {
            return Err(binary(&about));
        }
        at += bytes.len() as u64;
        let is_end = !about.truncated || bytes.is_empty();
        lines.take(&bytes, is_end);
        if is_end || lines.is_full() {
            return page(&lines.finish(), &about, is_end);
        }
    }
}

async fn chunk(toolbox: &Toolbox, path: &str, at: u64) -> Result<(bytes::Bytes, v1::FsReadResult), Failure> {
    toolbox
        .with_session(|target| async move {
            target.session.files().read(&target.path(path), at, Some(CHUNK)).await
        })
        .await
}

fn page(page: &LinePage, about: &v1::FsReadResult, is_end: bool) -> Result<ToolOutcome, ToolOutcome> {
    if about.size == 0 {
        return Ok(ToolOutcome::text(format!("{} is empty", about.path)));
    }
    if page.text.is_empty() {
        return Err(ToolOutcome::failed(format!(
            "cannot read {}: it has {} lines, and offset {} is after its end",
            about.path, page.seen, page.first
        )));
    }
    let has_more = !is_end || page.has_more;
    let mut text = match has_more {
        true => format!("[lines {} to {} of {}, {} bytes]\n", page.first, page.last, about.path, about.size),
        false => String::new(),
    };
    text.push_str(&page.text);
    if page.is_cut {
        text.push_str(
            "[lines longer than 2000 characters are truncated; use bash with `cut -c` to read more]\n",
        );
    }
    if page.replaced > 0 {
        text.push_str("[invalid UTF-8 is shown as \u{fffd}]\n");
    }
    if !has_more {
        return Ok(ToolOutcome::text(text));
    }
    let next = json!({ "path": about.path, "offset": page.last + 1 });
    text.push_str(&format!("[next: read {next}]"));
    Ok(ToolOutcome::text(text).and_link(about.path.clone(), Some(about.size)))
}

async fn picture(
    toolbox: &Toolbox,
    path: &str,
    mime: &'static str,
    about: &v1::FsReadResult,
) -> Result<ToolOutcome, ToolOutcome> {
    if about.size > MAX_IMAGE_BYTES {
        let text = format!(
            "{} is too large: an image ({mime}) of {} bytes (limit {MAX_IMAGE_BYTES})\n\
             hint: reduce its size with bash, then read the result",
            about.path, about.size
        );
        return Err(ToolOutcome::failed(text));
    }
    let whole =
        |target: TargetSession| async move { target.session.files().read_all(&target.path(path)).await };
    let bytes = toolbox.with_session(whole).await.map_err(ToolOutcome::from)?;
    let text = format!("{} ({mime}, {} bytes)", about.path, bytes.len());
    Ok(ToolOutcome {
        parts: vec![ContentPart::Text(text), ContentPart::Image { mime, bytes }],
        ..ToolOutcome::default()
    })
}

fn binary(about: &v1::FsReadResult) -> ToolOutcome {
    ToolOutcome::failed(format!(
        "{} is not text ({} bytes)\nhint: use bash with `file`, `xxd | head` or a suitable program",
        about.path, about.size
    ))
}

/// Lists the path if it is a directory; otherwise returns the failure with a hint.
async fn unreadable(toolbox: &Toolbox, path: &str, failure: Failure) -> Result<ToolOutcome, ToolOutcome> {
    let stat = toolbox
        .with_session(|target| async move { target.session.files().stat(&target.path(path)).await })
        .await;
    if stat.is_ok_and(|stat| stat.kind.as_deref() == Some("dir")) {
        let listed = browse::entries(toolbox, path).await?;
        return Ok(ToolOutcome::text(format!("this is a directory\n{}", browse::listing(&listed))));
    }
    Err(with_hint(failure, "find it with glob or list"))
}

/// Adds a hint unless the failure has one.
pub(super) fn with_hint(failure: Failure, next: &str) -> ToolOutcome {
    match failure.hint {
        Some(_) => failure.into(),
        None => failure.hint(next).into(),
    }
}

/// Creates or replaces a file.
pub(super) async fn write(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let (path, content) = (arguments.text("path")?, arguments.text("content")?);
    let write = |target: TargetSession| async move {
        target.session.files().write(&target.path(path), content.as_bytes()).await
    };
    let written = toolbox.with_session(write).await.map_err(|failure| match errno(&failure) {
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => with_hint(failure, NOT_WRITABLE),
        _ => with_hint(failure, "use another path"),
    })?;
    let what = if written.created { "created" } else { "replaced" };
    let text = format!("{what} {} ({} bytes)", written.path, written.bytes_written);
    Ok(ToolOutcome::text(text)
        .with(value(&written))
        .and_link(written.path.clone(), Some(written.bytes_written)))
}

/// Replaces text in a file.
pub(super) async fn edit(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let path = arguments.text("path")?;
    let (old, new) = (arguments.text("old_string")?, arguments.text("new_string")?);
    let replace_all = arguments.flag("replace_all")?;
    if old.is_empty() {
        return Err(ToolOutcome::failed(
            "edit: `old_string` is empty; use write to create a file or replace its whole content",
        ));
    }
    let edit = |target: TargetSession| async move {
        let params = v1::FsEdit {
            path: target.path(path),
            old_string: old.to_owned(),
            new_string: new.to_owned(),
            replace_all,
            ..v1::FsEdit::default()
        };
        target.session.files().edit(params).await
    };
    let edited = toolbox.with_session(edit).await.map_err(|failure| not_edited(failure, path))?;
    let occurrences = if edited.replacements == 1 { "occurrence" } else { "occurrences" };
    let text = format!("replaced {} {occurrences} in {}", edited.replacements, edited.path);
    Ok(ToolOutcome::text(text).with(value(&edited)).and_link(edited.path.clone(), Some(edited.bytes_written)))
}

/// The outcome of an edit that failed, with a hint for its cause.
fn not_edited(failure: Failure, path: &str) -> ToolOutcome {
    let (field, count) = (failure.data["field"].as_str(), failure.data["count"].as_u64());
    if let Some(count) = count {
        let lines = failure.data["lines"].as_array().into_iter().flatten();
        let mut lines: Vec<u64> = lines.filter_map(Value::as_u64).collect();
        let more = if (lines.len() as u64) < count { ", …" } else { "" };
        // Several occurrences may be on one line.
        lines.dedup();
        let list = lines.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let at = if list.is_empty() { String::new() } else { format!(", on lines {list}{more}") };
        let message = format!("old_string occurs {count} times in {path}{at}");
        let hint = "add surrounding lines until it is unique, or set replace_all: true";
        return Failure { message, ..failure }.hint(hint).into();
    }
    let hint = match (field, errno(&failure)) {
        (Some("old_string"), _) => {
            "read the file and copy the exact text, with its indentation and without line numbers"
        }
        (Some("new_string"), _) => {
            "nothing to change: the file already has this text, or new_string is not the intended one"
        }
        (_, Some(Errno::NOENT)) => "find the file with glob, or create it with write",
        (_, Some(Errno::ACCESS | Errno::PERM | Errno::ROFS)) => NOT_WRITABLE,
        (Some("path"), None) if failure.message.contains("UTF-8") => {
            "use bash with a program that keeps its encoding, such as `iconv`, `sed` or `perl -pi`"
        }
        (Some("path"), None) => "find the file with glob, or create it with write",
        _ => return failure.into(),
    };
    with_hint(failure, hint)
}

/// The outcome of a patch that failed, with a hint for its cause.
fn not_patched(failure: Failure, text: &str) -> ToolOutcome {
    let hint = match errno(&failure) {
        Some(Errno::NOENT) => {
            "nothing was changed; find the file with glob, or add it with `*** Add File: path`"
        }
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => NOT_WRITABLE,
        _ if failure.data["reason"] == "ambiguous" => {
            "nothing was changed; add context lines, or `@@ line above` with a line above the place, until it is unique"
        }
        _ if !text.contains("*** Begin Patch") => {
            "write `*** Begin Patch`, `*** Update File: path`, the changes and `*** End Patch`, or a unified diff with \
             complete `---`, `+++` and `@@ -1,2 +1,2 @@` lines"
        }
        _ => "nothing was changed; read the files and copy the context lines exactly",
    };
    with_hint(failure, hint)
}

/// The error number of the operating system, if the failure has one.
fn errno(failure: &Failure) -> Option<Errno> {
    let number = failure.data["errno"].as_i64()?;
    i32::try_from(number).ok().map(Errno::from_raw_os_error)
}

/// Applies a patch to files of the target.
pub(super) async fn patch(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<ToolOutcome, ToolOutcome> {
    let text = arguments.text("patch_text")?;
    let converted = unified_diff::convert(text).map_err(ToolOutcome::failed)?;
    let envelope = converted.as_deref().unwrap_or(text);
    let patch = |target: TargetSession| async move {
        target.session.files().patch(envelope, target.cwd.as_deref()).await
    };
    let patched = toolbox.with_session(patch).await.map_err(|failure| not_patched(failure, envelope))?;
    let mut lines = Vec::new();
    for (what, paths) in
        [("added", &patched.added), ("updated", &patched.updated), ("deleted", &patched.deleted)]
    {
        lines.extend(paths.iter().map(|path| format!("{what} {path}")));
    }
    lines.extend(patched.moved.iter().map(|moved| format!("moved {} to {}", moved.from, moved.to)));
    let outcome = ToolOutcome::text(lines.join("\n")).with(value(&patched));
    let there = patched.added.iter().chain(&patched.updated).take(MAX_LINKS);
    Ok(there.fold(outcome, |outcome, path| outcome.and_link(path.clone(), None)))
}

/// A result of the server as JSON.
pub(super) fn value(result: &impl Serialize) -> Value {
    // Results are plain data and always serialize.
    serde_json::to_value(result).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_edit_has_a_hint_for_its_cause() {
        let said = |message: &str, data: Value| {
            not_edited(Failure { data, ..Failure::new(message) }, "a.rs").text_content()
        };
        let ambiguous = json!({ "field": "old_string", "count": 4, "lines": [1, 5, 5, 9] });
        assert_eq!(
            said("x", ambiguous),
            "old_string occurs 4 times in a.rs, on lines 1, 5, 9\nhint: add surrounding lines until it is unique, or set replace_all: true"
        );
        let many = json!({ "field": "old_string", "count": 30, "lines": [1, 5] });
        assert!(said("x", many).starts_with("old_string occurs 30 times in a.rs, on lines 1, 5, …\n"));
        for (message, data, hint) in [
            ("not found", json!({ "field": "old_string" }), "copy the exact text"),
            ("identical", json!({ "field": "new_string" }), "nothing to change"),
            ("denied", json!({ "path": "/a", "errno": 13 }), "owner and mode"),
            ("file is not UTF-8 text", json!({ "field": "path" }), "keeps its encoding"),
            ("file does not exist", json!({ "field": "path" }), "create it with write"),
        ] {
            assert!(said(message, data).contains(hint), "{message}");
        }
    }

    #[test]
    fn a_failed_patch_has_a_hint_for_its_cause() {
        let said =
            |data: Value, text: &str| not_patched(Failure { data, ..Failure::new("x") }, text).text_content();
        let envelope = "*** Begin Patch\n*** End Patch";
        assert!(said(json!({ "reason": "ambiguous" }), envelope).contains("`@@ line above`"));
        assert!(said(json!({ "errno": 2 }), envelope).contains("*** Add File"));
        assert!(said(json!({}), "--- a\nbroken").contains("unified diff with complete"));
        assert!(said(json!({}), envelope).contains("copy the context lines exactly"));
    }
}
