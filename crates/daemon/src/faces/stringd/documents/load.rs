//! Loading of documents: files, pages, menus, and the sources beside a document.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sfmd::document::{Directive, Document};
use sfmd::menu::Menu;
use sfmd::{html, trinity, uri};

use super::state::OpenDocument;
use super::{failed, file_failure, work};
use crate::faces::stringd::commands::{CommandContext, CommandResult, EntryKind, HttpCall, WriteFile};
use crate::faces::stringd::errors::OperationError;

/// A text and the page that it was made from.
pub(super) struct LoadedText {
    pub(super) text: String,
    pub(super) html: Option<String>,
}

/// Loads a document with its menus.
pub(super) async fn document(context: &CommandContext, address: &str) -> Result<OpenDocument, CommandResult> {
    let loaded = text(context, address).await?;
    let size = loaded.text.len();
    let mut document = parsed(loaded.text).await;
    let mut menus: Vec<Menu> = Vec::new();
    for directive in document.menus() {
        menus.push(menu(context, address, directive).await?);
    }
    let link = move || {
        document.link(&menus);
        (document, menus)
    };
    let (document, menus) = work(size, link).await;
    Ok(OpenDocument { uri: address.to_owned(), document, menus, html: loaded.html, block: None })
}

/// The document of a text, parsed off the event loop if it is large.
pub(super) async fn parsed(text: String) -> Document {
    work(text.len(), || Document::parse(text)).await
}

/// A page as Markdown, with the page itself.
pub(super) async fn converted(html: String) -> (String, String) {
    work(html.len(), || (html::to_markdown(&html), html)).await
}

async fn menu(
    context: &CommandContext,
    document: &str,
    directive: &Directive,
) -> Result<Menu, CommandResult> {
    let resolved = uri::resolve(&directive.path, Some(document));
    let address = uri::split_fragment(&resolved).0;
    if address == document {
        let reason =
            format!("Circular reference: menu {} refers to the document itself: {address}", directive.name);
        return Err(failed("CIRCULAR_REFERENCE", reason));
    }
    match text(context, address).await {
        Ok(loaded) => {
            let (name, address, size) = (directive.name.clone(), address.to_owned(), loaded.text.len());
            let parse = move || Menu::parse(&name, &loaded.text, &address);
            Ok(work(size, parse).await)
        }
        Err(error) if error.code.as_deref() == Some("NOT_FOUND") => {
            Ok(Menu::parse(&directive.name, "", address))
        }
        Err(error) => Err(error),
    }
}

/// Loads the text at an address.
pub(super) async fn text(context: &CommandContext, address: &str) -> Result<LoadedText, CommandResult> {
    text_inside(context, address, None).await
}

/// Loads the text at an address; a file must lie in the directory, if there is one, links followed.
pub(super) async fn text_inside(
    context: &CommandContext,
    address: &str,
    directory: Option<&Path>,
) -> Result<LoadedText, CommandResult> {
    if uri::is_http(address) {
        return page(context, address).await;
    }
    let Some(path) = uri::to_path(address) else {
        return Err(failed("LOAD_ERROR", format!("Failed to read {address}: unsupported address")));
    };
    let path = PathBuf::from(path);
    let text = match directory {
        Some(directory) => context.read_inside(directory, &path).await,
        None => context.read(&path).await,
    };
    let text = text.map_err(|error| match error {
        OperationError::NotFound(_) => not_found(&path),
        error => {
            let shown = path.display().to_string();
            file_failure(&error, &shown, "LOAD_ERROR", &format!("Failed to read {shown}"))
        }
    })?;
    Ok(LoadedText { text: with_sources(context, &path, text).await?, html: None })
}

/// The failure for a file that does not exist.
pub(super) fn not_found(path: &Path) -> CommandResult {
    let hint = "Recovery: list the directory with /ls, or create the file with /write.";
    failed("NOT_FOUND", format!("File not found: {}\n{hint}", path.display()))
}

/// The text with blocks from the directory `FILE.source` beside it; missing sources are created empty.
async fn with_sources(context: &CommandContext, path: &Path, text: String) -> Result<String, CommandResult> {
    let is_markdown = path.extension().is_some_and(|extension| extension == "md");
    if !is_markdown || !text.contains("[!include:") {
        return Ok(text);
    }
    let directory = PathBuf::from(format!("{}.source", path.display()));
    if !matches!(context.kind(&directory).await, Ok(Some(EntryKind::Dir))) {
        return Ok(text);
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    let mut contents = BTreeMap::new();
    for source in trinity::sources(&text) {
        let file = match &source.path {
            Some(path) => parent.join(path),
            None => directory.join(format!("{}.md", source.id)),
        };
        let content = match context.read_inside(parent, &file).await {
            Ok(content) => content,
            Err(OperationError::NotFound(_)) => {
                let new = WriteFile { path: &file, content: b"", creates_parents: true, is_private: false };
                // A document in a read-only directory is still shown.
                drop(context.write(new).await);
                String::new()
            }
            Err(error) => {
                let shown = file.display().to_string();
                return Err(file_failure(&error, &shown, "LOAD_ERROR", &format!("Failed to read {shown}")));
            }
        };
        contents.insert(source, content);
    }
    Ok(trinity::compile(&text, &contents))
}

async fn page(context: &CommandContext, address: &str) -> Result<LoadedText, CommandResult> {
    let headers = vec![("Accept".to_owned(), "text/markdown, text/plain".to_owned())];
    let call = HttpCall { method: "GET".to_owned(), url: address.to_owned(), headers, body: None };
    let reply = context.http(call).await.map_err(|error| match error {
        OperationError::Denied(reason) => failed("POLICY_DENIED", reason),
        error => failed("LOAD_ERROR", format!("Network error fetching {address}: {error}")),
    })?;
    match reply.status {
        404 => Err(failed("NOT_FOUND", format!("Not found: {address}"))),
        200..300 if reply.content_type.contains("text/html") => {
            let (text, html) = converted(reply.body).await;
            Ok(LoadedText { text, html: Some(html) })
        }
        200..300 => Ok(LoadedText { text: reply.body, html: None }),
        status => Err(failed("LOAD_ERROR", format!("HTTP {status} fetching {address}"))),
    }
}
