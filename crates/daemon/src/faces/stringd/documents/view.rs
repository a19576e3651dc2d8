//! Views: a document or block with its includes, as the client receives it.

use std::sync::Arc;

use sfmd::include::{Expansion, IncludeSources, expand, has_includes};
use sfmd::render::{self, Rendered};
use sfmd::{block, uri};

use super::state::OpenDocument;
use super::{load, paths, work};
use crate::faces::stringd::commands::CommandContext;

/// What is shown of a document; `None` if it has no such block.
pub(super) async fn render(context: &CommandContext, open: &Arc<OpenDocument>) -> Option<Rendered> {
    let shown = open.clone();
    let size = open.document.body().len();
    let Some(id) = &open.block else {
        let expanded = match has_includes(open.document.body()) {
            true => Some(expanded(context, IncludingText::Body(open.clone())).await),
            false => None,
        };
        let size = expanded.as_ref().map_or(size, String::len);
        let render = move || render::document(&shown.document, expanded.as_deref());
        return Some(work(size, render).await);
    };
    let block = id.clone();
    if let Some(view) = work(size, move || render::block(&shown.document, &block)).await {
        return Some(view);
    }
    // The block of an include is listed among the document's blocks, so it can be shown alone.
    let includes = open.document.includes();
    let include = includes.iter().find(|include| include.name == *id && !include.path.is_empty())?;
    let line = format!("[!include:{}]({})", include.name, include.path);
    let text = expanded(context, IncludingText::Line(line, open.clone())).await;
    let shown = open.clone();
    Some(work(text.len(), move || render::part(&shown.document, &text)).await)
}

/// The text of a block for `/open`; includes count.
pub(super) fn has_block(open: &OpenDocument, id: &str) -> bool {
    let is_included =
        || open.document.includes().iter().any(|include| include.name == id && !include.path.is_empty());
    block::find(open.document.body(), id).is_some() || is_included()
}

/// A text with includes: the body of a document, or a line of it.
#[derive(Clone)]
enum IncludingText {
    Body(Arc<OpenDocument>),
    Line(String, Arc<OpenDocument>),
}

impl IncludingText {
    fn text(&self) -> &str {
        match self {
            IncludingText::Body(open) => open.document.body(),
            IncludingText::Line(line, _) => line,
        }
    }

    fn address(&self) -> &str {
        match self {
            IncludingText::Body(open) | IncludingText::Line(_, open) => &open.uri,
        }
    }
}

async fn expanded(context: &CommandContext, text: IncludingText) -> String {
    let mut sources = IncludeSources::new();
    let mut size = text.text().len();
    loop {
        let including = text.clone();
        let expand = move || (expand(including.text(), including.address(), &sources), sources);
        let expansion;
        (expansion, sources) = work(size, expand).await;
        match expansion {
            Expansion::Done(text) => return text,
            Expansion::Needs(needs) => {
                for needed in needs {
                    let source = source(context, &needed, text.address()).await;
                    size += source.as_ref().map_or(0, String::len);
                    sources.insert(needed, source);
                }
            }
        }
    }
}

/// An included document; it is below the directory of the document that is shown, links followed.
async fn source(context: &CommandContext, needed: &str, document: &str) -> Result<String, String> {
    let outside = || "outside the document's directory".to_owned();
    let directory = document.rsplit_once('/').map_or("", |(directory, _)| directory);
    let is_inside = needed.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
    if !is_inside || uri::decode(needed).contains("/../") {
        return Err(outside());
    }
    let directory = paths::directory_of(document);
    match load::text_inside(context, needed, directory.as_deref()).await {
        Ok(loaded) => Ok(loaded.text),
        Err(failure) if failure.code.as_deref() == Some("FILE_NOT_ALLOWED") => Err(outside()),
        Err(failure) => Err(failure.content.lines().next().unwrap_or_default().to_owned()),
    }
}
