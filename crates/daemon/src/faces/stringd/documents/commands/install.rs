//! `/install`: copies a document into the user's packages and registers it.

use std::path::{Path, PathBuf};

use sfmd::document::Document;
use sfmd::uri;

use crate::faces::stringd::commands::{CommandContext, CommandResult, EntryKind, WriteFile};
use crate::faces::stringd::documents::packages::{self, PackageKind};
use crate::faces::stringd::documents::state::DocumentState;
use crate::faces::stringd::documents::{DocumentResult, failed, load, paths, store};
use crate::faces::stringd::errors::OperationError;

/// Files beside `string.md` that are copied; more are left out.
const MOST_FILES: usize = 100;

/// Installs the source that the arguments name, or the current document.
pub(in super::super) async fn run(
    state: &DocumentState,
    context: &CommandContext,
    args: &str,
) -> DocumentResult {
    let mut kind = None;
    let mut typed = None;
    for word in args.split_whitespace() {
        match word.strip_prefix("--").and_then(PackageKind::parse) {
            Some(flag) => kind = Some(flag),
            None if word.starts_with("--") => {
                return Err(unsupported(format!(
                    "Unknown flag: {word}\nUsage: /install [--app|--tool] [source]"
                )));
            }
            None => typed = Some(word.to_owned()),
        }
    }
    let source = match (&typed, state.uri()) {
        (Some(typed), _) => address(state, context, typed).await,
        (None, Some(current)) => current.to_owned(),
        (None, None) => {
            return Err(unsupported(
                "No source specified and no document is open.\nUsage: /install [--app|--tool] [source]"
                    .to_owned(),
            ));
        }
    };
    let text = load::text_inside(context, &source, package_directory(&source).as_deref()).await;
    let text = text.map_err(|failure| unsupported(failure.content))?.text;
    let package = Package::new(&load::parsed(text.clone()).await, &source, kind)?;
    let directory = packages::directory(context, &package.name);
    let file = store_files(context, &directory, &source, &text).await?;
    store::register(context, package.kind.key(), &package.name, Some(&paths::uri_of(&file)))
        .await
        .map_err(|failure| unsupported(failure.content))?;
    let (kind, name) = (package.kind.name(), &package.name);
    let usage = match package.kind {
        PackageKind::App => format!("/open app:{name}"),
        PackageKind::Tool => format!("/tool:{name}"),
    };
    let typed = typed.unwrap_or(source);
    Ok(format!("Installed {kind}:{name}\n  Source: {typed}\n  Path: {}\nUse: {usage}", file.display()))
}

fn unsupported(text: String) -> CommandResult {
    failed("COMMAND_UNSUPPORTED", text)
}

/// The address of a source; a directory means its `string.md`.
async fn address(state: &DocumentState, context: &CommandContext, typed: &str) -> String {
    if uri::is_http(typed) {
        return typed.to_owned();
    }
    let path = paths::absolute(state, context, typed);
    match context.kind(&path).await {
        Ok(Some(EntryKind::Dir)) => paths::uri_of(&path.join("string.md")),
        _ => paths::uri_of(&path),
    }
}

struct Package {
    kind: PackageKind,
    name: String,
}

impl Package {
    fn new(document: &Document, source: &str, flag: Option<PackageKind>) -> Result<Package, CommandResult> {
        let front = document.frontmatter();
        let file = uri::decode(source.rsplit('/').next().unwrap_or_default());
        let raw = front.text("name").unwrap_or_else(|| file.trim_end_matches(".md").to_owned());
        let invalid = || unsupported(format!("Invalid package name: {raw}"));
        let name = packages::clean_name(&raw).ok_or_else(invalid)?;
        let declared = || front.text("type").and_then(|word| PackageKind::parse(&word));
        let unknown = || {
            unsupported(format!(
                "Cannot determine package type for \"{name}\".\nUse /install --app or /install --tool."
            ))
        };
        let kind = flag.or_else(declared).ok_or_else(unknown)?;
        Ok(Package { kind, name })
    }
}

/// The directory of a local `string.md`, which is a package with the files beside it.
fn package_directory(source: &str) -> Option<PathBuf> {
    let path = PathBuf::from(uri::to_path(source)?);
    (path.file_name()? == "string.md").then(|| path.parent().map(Path::to_owned))?
}

/// Writes `string.md`, and the Markdown files beside a local one. A file that is a link out of the directory is refused.
async fn store_files(
    context: &CommandContext,
    directory: &Path,
    source: &str,
    text: &str,
) -> Result<PathBuf, CommandResult> {
    let mut files = vec![("string.md".to_owned(), text.to_owned())];
    if let Some(parent) = package_directory(source).filter(|parent| parent != directory) {
        let entries = context.list(&parent).await.unwrap_or_default().entries;
        let is_wanted = |name: &str| name.ends_with(".md") && name != "string.md" && !name.starts_with('.');
        for entry in entries.iter().filter(|entry| !entry.is_dir && is_wanted(&entry.name)).take(MOST_FILES) {
            match context.read_inside(&parent, &parent.join(&entry.name)).await {
                Ok(text) => files.push((entry.name.clone(), text)),
                Err(OperationError::OutsideRoots(_)) => {
                    let reason = "it leads out of the package's directory";
                    return Err(unsupported(format!("Install failed: {}: {reason}", entry.name)));
                }
                Err(_unreadable) => {}
            }
        }
    }
    for (name, text) in &files {
        let path = directory.join(name);
        let file =
            WriteFile { path: &path, content: text.as_bytes(), creates_parents: true, is_private: false };
        let failure = |error| unsupported(format!("Install failed: {}: {error}", path.display()));
        context.write(file).await.map_err(failure)?;
    }
    Ok(directory.join("string.md"))
}
