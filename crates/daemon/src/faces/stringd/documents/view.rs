//! Views: a document or block with its includes, as the client receives it.

use sfmd::include::{Expansion, IncludeSources, expand, has_includes};
use sfmd::render::{self, Rendered};
use sfmd::{block, uri};

use super::state::OpenDocument;
use super::{load, paths};
use crate::faces::stringd::commands::CommandContext;

/// What is shown of a document; `None` if it has no such block.
pub(super) async fn render(context: &CommandContext, open: &OpenDocument) -> Option<Rendered> {
    let document = &open.document;
    let Some(id) = &open.block else {
        if !has_includes(document.body()) {
            return Some(render::document(document, None));
        }
        let expanded = expanded(context, document.body(), &open.uri).await;
        return Some(render::document(document, Some(&expanded)));
    };
    if let Some(view) = render::block(document, id) {
        return Some(view);
    }
    // The block of an include is listed among the document's blocks, so it can be shown alone.
    let include =
        document.includes().iter().find(|include| include.name == *id && !include.path.is_empty())?;
    let text = expanded(context, &format!("[!include:{}]({})", include.name, include.path), &open.uri).await;
    Some(render::part(document, &text))
}

/// The text of a block for `/open`; includes count.
pub(super) fn has_block(open: &OpenDocument, id: &str) -> bool {
    let is_included =
        || open.document.includes().iter().any(|include| include.name == id && !include.path.is_empty());
    block::find(open.document.body(), id).is_some() || is_included()
}

async fn expanded(context: &CommandContext, body: &str, address: &str) -> String {
    let mut sources = IncludeSources::new();
    loop {
        match expand(body, address, &sources) {
            Expansion::Done(text) => return text,
            Expansion::Needs(needs) => {
                for needed in needs {
                    let source = source(context, &needed, address).await;
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
