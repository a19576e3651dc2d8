//! Paths of commands: where relative ones start, and how they are shown.

use std::path::{Path, PathBuf};

use sfmd::uri;

use super::state::DocumentState;
use crate::faces::stringd::commands::CommandContext;

/// A path as typed, made absolute: from the home after `~`, else from the topic's directory.
pub(super) fn absolute(state: &DocumentState, context: &CommandContext, typed: &str) -> PathBuf {
    if let Some(path) = uri::to_path(typed) {
        return PathBuf::from(path);
    }
    let home = context.home();
    let (base, rest) = match home_relative(typed) {
        Some(rest) => (home.to_owned(), rest),
        None => (state.cwd(home), typed),
    };
    PathBuf::from(trimmed(&uri::join(&base.to_string_lossy(), rest)))
}

/// What follows `~` or `~/`.
pub(super) fn home_relative(typed: &str) -> Option<&str> {
    match typed {
        "~" => Some("."),
        typed => typed.strip_prefix("~/"),
    }
}

/// A path without its trailing slash.
fn trimmed(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        path => path,
    }
}

/// The address of a file.
pub(super) fn uri_of(path: &Path) -> String {
    uri::from_path(&path.to_string_lossy())
}

/// The directory of a file document.
pub(super) fn directory_of(document: &str) -> Option<PathBuf> {
    uri::to_path(document).map(|path| PathBuf::from(uri::directory(&path)))
}

/// A document as it is shown: relative to the home, absolute outside of it, or its address on the web.
pub(super) fn shown(context: &CommandContext, document: &str) -> String {
    match uri::to_path(document) {
        Some(path) => shown_path(context, Path::new(&path)),
        None => document.to_owned(),
    }
}

/// A path as it is shown: relative to the home, or absolute outside of it.
pub(super) fn shown_path(context: &CommandContext, path: &Path) -> String {
    match path.strip_prefix(context.home()) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => inside.to_string_lossy().into_owned(),
        Err(_) => path.to_string_lossy().into_owned(),
    }
}

/// A directory with `~` for the home and a slash at its end.
pub(super) fn shown_directory(context: &CommandContext, path: &Path) -> String {
    match path.strip_prefix(context.home()) {
        Ok(inside) if inside.as_os_str().is_empty() => "~/".to_owned(),
        Ok(inside) => format!("~/{}/", inside.to_string_lossy()),
        Err(_) => format!("{}/", path.to_string_lossy().trim_end_matches('/')),
    }
}
