//! `read`, `write`, `edit` and `patch`.

use client::v1;
use serde::Serialize;
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::lines::{Lines, Page};
use super::outcome::{Outcome, Part};
use super::toolbox::{Place, Toolbox};
use super::{image, look};
use crate::failure::Failure;

/// What is asked of a file at once.
const CHUNK: u64 = 256 * 1024;
/// The largest picture that is handed to a model.
const LARGEST_IMAGE: u64 = 8 * 1024 * 1024;
/// Lines returned if nobody says how many.
const MOST_LINES: u64 = 2_000;
/// Links to files beside the words.
const MOST_LINKS: usize = 20;

/// Lines of a file, or a picture.
pub(super) async fn read(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<Outcome, Outcome> {
    let path = arguments.text("path")?;
    let first = arguments.maybe_number("offset", 1)?.unwrap_or(1);
    let limit = arguments.maybe_number("limit", 1)?.unwrap_or(MOST_LINES);
    let mut lines = Lines::new(first, limit);
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
        .ask(|place| async move { place.session.files().read(&place.path(path), at, Some(CHUNK)).await })
        .await
}

fn page(page: &Page, about: &v1::FsReadResult, is_end: bool) -> Result<Outcome, Outcome> {
    if about.size == 0 {
        return Ok(Outcome::text(format!("{} is empty", about.path)));
    }
    if page.text.is_empty() {
        return Err(Outcome::failed(format!(
            "{} has {} lines; offset {} is behind its end",
            about.path, page.seen, page.first
        )));
    }
    let mut text = page.text.clone();
    if page.is_cut {
        text.push_str("[lines longer than 2000 characters are cut; bash with `cut -c` shows more of them]\n");
    }
    if page.replaced > 0 {
        text.push_str("[what is no UTF-8 is shown as \u{fffd}]\n");
    }
    if is_end && !page.has_more {
        return Ok(Outcome::text(text));
    }
    let next = json!({ "path": about.path, "offset": page.last + 1 });
    text.push_str(&format!(
        "[lines {} to {} of a file of {} bytes; go on: read {next}]",
        page.first, page.last, about.size
    ));
    Ok(Outcome::text(text).and_link(about.path.clone(), Some(about.size)))
}

async fn picture(
    toolbox: &Toolbox,
    path: &str,
    mime: &'static str,
    about: &v1::FsReadResult,
) -> Result<Outcome, Outcome> {
    if about.size > LARGEST_IMAGE {
        let text = format!(
            "{} is a picture ({mime}) of {} bytes, which is more than a model is shown ({LARGEST_IMAGE})\n\
             next: make it smaller with bash, then read that",
            about.path, about.size
        );
        return Err(Outcome::failed(text));
    }
    let whole = |place: Place| async move { place.session.files().read_all(&place.path(path)).await };
    let bytes = toolbox.ask(whole).await.map_err(Outcome::from)?;
    let text = format!("{} ({mime}, {} bytes)", about.path, bytes.len());
    Ok(Outcome { parts: vec![Part::Text(text), Part::Image { mime, bytes }], ..Outcome::default() })
}

fn binary(about: &v1::FsReadResult) -> Outcome {
    Outcome::failed(format!(
        "{} is no text ({} bytes)\nnext: bash with `file`, `xxd | head` or a program made for it",
        about.path, about.size
    ))
}

/// A directory is listed; anything else is said, with what to do.
async fn unreadable(toolbox: &Toolbox, path: &str, failure: Failure) -> Result<Outcome, Outcome> {
    let stat = toolbox.ask(|place| async move { place.session.files().stat(&place.path(path)).await }).await;
    if stat.is_ok_and(|stat| stat.kind.as_deref() == Some("dir")) {
        let listed = look::entries(toolbox, path).await?;
        let text = format!("{} is a directory; in it are\n{}", listed.path, look::listing(&listed));
        return Ok(Outcome::text(text));
    }
    Err(advised(failure, "look for it with glob or list"))
}

/// A failure whose next step is this one, unless it has a better one.
pub(super) fn advised(failure: Failure, next: &str) -> Outcome {
    match failure.hint {
        Some(_) => failure.into(),
        None => failure.hint(next).into(),
    }
}

/// Creates or replaces a file.
pub(super) async fn write(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<Outcome, Outcome> {
    let (path, content) = (arguments.text("path")?, arguments.text("content")?);
    let write = |place: Place| async move {
        place.session.files().write(&place.path(path), content.as_bytes()).await
    };
    let written = toolbox.ask(write).await.map_err(|failure| advised(failure, "choose another path"))?;
    let what = if written.created { "created" } else { "replaced" };
    let text = format!("{what} {} ({} bytes)", written.path, written.bytes_written);
    Ok(Outcome::text(text).with(value(&written)).and_link(written.path.clone(), Some(written.bytes_written)))
}

/// Replaces text in a file.
pub(super) async fn edit(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<Outcome, Outcome> {
    let path = arguments.text("path")?;
    let (old, new) = (arguments.text("old_string")?, arguments.text("new_string")?);
    let replace_all = arguments.flag("replace_all")?;
    if old.is_empty() {
        return Err(Outcome::failed(
            "edit: `old_string` is empty; write creates a file or replaces all of it",
        ));
    }
    let edit = |place: Place| async move {
        let params = v1::FsEdit {
            path: place.path(path),
            old_string: old.to_owned(),
            new_string: new.to_owned(),
            replace_all,
            ..v1::FsEdit::default()
        };
        place.session.files().edit(params).await
    };
    let next = "read the file and copy the text exactly as it is there, with enough around it to be unique";
    let edited = toolbox.ask(edit).await.map_err(|failure| advised(failure, next))?;
    let places = if edited.replacements == 1 { "place" } else { "places" };
    let text = format!("changed {} {places} in {}", edited.replacements, edited.path);
    Ok(Outcome::text(text).with(value(&edited)).and_link(edited.path.clone(), Some(edited.bytes_written)))
}

/// Applies a patch.
pub(super) async fn patch(toolbox: &Toolbox, arguments: &Arguments<'_>) -> Result<Outcome, Outcome> {
    let text = arguments.text("patch_text")?;
    let patch = |place: Place| async move { place.session.files().patch(text, place.cwd.as_deref()).await };
    let next = "nothing was changed; read the files and write the context lines exactly as they are there";
    let patched = toolbox.ask(patch).await.map_err(|failure| advised(failure, next))?;
    let mut lines = Vec::new();
    for (what, paths) in
        [("added", &patched.added), ("updated", &patched.updated), ("deleted", &patched.deleted)]
    {
        lines.extend(paths.iter().map(|path| format!("{what} {path}")));
    }
    lines.extend(patched.moved.iter().map(|moved| format!("moved {} to {}", moved.from, moved.to)));
    let outcome = Outcome::text(lines.join("\n")).with(value(&patched));
    let there = patched.added.iter().chain(&patched.updated).take(MOST_LINKS);
    Ok(there.fold(outcome, |outcome, path| outcome.and_link(path.clone(), None)))
}

/// A result of the server, as it gave it.
pub(super) fn value(result: &impl Serialize) -> Value {
    // Results are plain data; what cannot be written is left out.
    serde_json::to_value(result).unwrap_or(Value::Null)
}
