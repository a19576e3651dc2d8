//! `/open`: a file, directory, page, block, shortcut or application.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sfmd::uri;

use super::{act, ls};
use crate::faces::stringd::commands::{CommandContext, CommandResult, EntryKind};
use crate::faces::stringd::convert::TopicType;
use crate::faces::stringd::documents::perform::{self, ActionCall};
use crate::faces::stringd::documents::state::{DocumentState, OpenDocument};
use crate::faces::stringd::documents::{
    DocumentResult, failed, file_failure, load, packages, paths, store, view,
};

const USAGE: &str = "Usage: /open <path | URL | #block | @shortcut | app:name>";

/// Opens a target and shows it.
pub(in super::super) async fn run(
    state: &mut DocumentState,
    context: &CommandContext,
    args: &str,
) -> DocumentResult {
    let target = match (args.is_empty(), app_name(context), state.uri()) {
        (false, ..) => args.to_owned(),
        (true, Some(app), _) => app,
        (true, None, Some(current)) => current.to_owned(),
        (true, None, None) => return Err(failed("INVALID_TARGET", USAGE)),
    };
    let (target, base) = match followed(state, &target)? {
        Some(href) => (href, state.uri().map(str::to_owned)),
        None => (target, None),
    };
    if let Some(action) = target.strip_prefix("act:") {
        return run_link(state, context, action).await;
    }
    let (path, block) = uri::split_fragment(&target);
    let block = block.filter(|block| !block.is_empty());
    if path.is_empty() {
        return show_block(state, context, block).await;
    }
    let address = match packages::address(context, path).await {
        Some(address) => address,
        None => resolved(state, context, path, base.as_deref()),
    };
    open_address(state, context, Opening { address, block, typed: args }).await
}

/// The name of an app topic.
pub(super) fn app_name(context: &CommandContext) -> Option<String> {
    (context.topic().kind() == TopicType::App).then(|| context.topic().as_str().to_owned())
}

/// Where an `@shortcut` leads, with its block.
fn followed(state: &DocumentState, target: &str) -> Result<Option<String>, CommandResult> {
    let Some(name) = target.strip_prefix('@') else { return Ok(None) };
    let (id, block) = uri::split_fragment(name);
    let missing = || failed("NOT_FOUND", format!("Shortcut not found: @{id}"));
    let href = state.shortcut(id).ok_or_else(missing)?;
    Ok(Some(match block {
        Some(block) => format!("{}#{block}", uri::split_fragment(&href).0),
        None => href,
    }))
}

/// Runs the action of an `act:` link; the document stays.
async fn run_link(state: &mut DocumentState, context: &CommandContext, link: &str) -> DocumentResult {
    let (id, query) = link.split_once('?').unwrap_or((link, ""));
    let Some(open) = state.current.clone() else {
        return Err(failed("INVALID_TARGET", "No document open. Use /open <uri> first."));
    };
    if id.is_empty() {
        return Err(failed("INVALID_TARGET", "Link act: is missing action id.\nUse: act:<id>?name=value"));
    }
    let action = open.document.action(id).ok_or_else(|| act::unknown(&open.document, id))?;
    perform::run(state, context, ActionCall { action, flags: uri::query(query), variables: &[] }).await
}

/// A target as an address: links of a document relative to it, typed paths relative to the topic's directory.
fn resolved(state: &DocumentState, context: &CommandContext, path: &str, base: Option<&str>) -> String {
    let is_absolute = uri::scheme(path).is_some();
    if base.is_none() && paths::home_relative(path).is_some() {
        return paths::uri_of(&paths::absolute(state, context, path));
    }
    let current = base.or(state.uri().filter(|_| state.directory.is_none()));
    match current {
        Some(current) if is_absolute || base.is_some() || uri::is_http(current) => {
            uri::resolve(path, Some(current))
        }
        _ if is_absolute => uri::resolve(path, None),
        _ => paths::uri_of(&paths::absolute(state, context, path)),
    }
}

struct Opening<'a> {
    address: String,
    block: Option<&'a str>,
    typed: &'a str,
}

async fn open_address(
    state: &mut DocumentState,
    context: &CommandContext,
    opening: Opening<'_>,
) -> DocumentResult {
    let mut address = opening.address;
    if let Some(path) = uri::to_path(&address) {
        let path = PathBuf::from(path);
        let text = format!("Failed to read {}", path.display());
        match context.kind(&path).await {
            Ok(Some(EntryKind::Dir)) => {
                let package = path.join("string.md");
                if !matches!(context.kind(&package).await, Ok(Some(EntryKind::File))) {
                    return open_directory(state, context, &path).await;
                }
                address = paths::uri_of(&package);
            }
            Ok(Some(_)) => {}
            Ok(None) => return Err(load::not_found(&path)),
            Err(error) => return Err(file_failure(&error, opening.typed, "LOAD_ERROR", &text)),
        }
    }
    let mut open = load::document(context, &address).await?;
    if let Some(block) = opening.block {
        if !view::has_block(&open, block) {
            return Err(missing_block(context, &open, block));
        }
        open.block = Some(block.to_owned());
    }
    state.show(Arc::new(open));
    present(state, context, "Opened").await
}

async fn open_directory(state: &mut DocumentState, context: &CommandContext, path: &Path) -> DocumentResult {
    let listing = ls::listing(context, path, &path.to_string_lossy()).await?;
    state.directory = Some(path.to_owned());
    Ok(listing)
}

/// A block of the current document; the history does not change.
async fn show_block(
    state: &mut DocumentState,
    context: &CommandContext,
    block: Option<&str>,
) -> DocumentResult {
    let (Some(open), Some(block)) = (state.current.clone(), block) else {
        return Err(failed("INVALID_TARGET", USAGE));
    };
    if !view::has_block(&open, block) {
        return Err(missing_block(context, &open, block));
    }
    state.current = Some(Arc::new(OpenDocument { block: Some(block.to_owned()), ..(*open).clone() }));
    present(state, context, "Opened").await
}

fn missing_block(context: &CommandContext, open: &OpenDocument, block: &str) -> CommandResult {
    let known = match open.document.blocks() {
        [] => "This document has no blocks.".to_owned(),
        blocks => format!("Available blocks: {}", blocks.join(", ")),
    };
    failed(
        "BLOCK_NOT_FOUND",
        format!("Block not found: #{block} in {}\n{known}", paths::shown(context, &open.uri)),
    )
}

/// The current document under a word, with missing variables and the output of its default action.
pub(super) async fn present(
    state: &mut DocumentState,
    context: &CommandContext,
    word: &str,
) -> DocumentResult {
    let Some(open) = state.current.clone() else { return Err(super::super::no_document()) };
    let rendered = view::render(context, &open).await.unwrap_or_default();
    let block = open.block.as_ref().map(|block| format!("#{block}")).unwrap_or_default();
    let mut text = format!("{word} {}{block}\n---\n{}", paths::shown(context, &open.uri), rendered.text);
    state.auto = rendered.auto;
    text.push_str(&missing_variables(context, &open).await);
    let default = open.document.frontmatter().text("default").filter(|_| open.block.is_none());
    if let Some(action) = default.and_then(|id| open.document.action(&id)) {
        let call = ActionCall { action, flags: Vec::new(), variables: &[] };
        if let Ok(output) = perform::run(state, context, call).await {
            text.push_str(&format!("\n\n---\n\n{output}"));
        }
    }
    Ok(text)
}

/// A note about variables that the document requires and that are not set.
async fn missing_variables(context: &CommandContext, open: &OpenDocument) -> String {
    let required = open.document.frontmatter().requires();
    if required.is_empty() {
        return String::new();
    }
    let known = store::variables(context).await;
    let is_missing =
        |name: &&String| !known.iter().any(|(set, _)| set == *name) && context.variable(name).is_none();
    let missing: Vec<String> = required.iter().filter(is_missing).map(|name| format!("${name}")).collect();
    match missing.first() {
        Some(first) => format!(
            "\n\n[!] Missing required environment variable(s): {}\nSet with: /set {first} = \"value\"",
            missing.join(", ")
        ),
        None => String::new(),
    }
}
