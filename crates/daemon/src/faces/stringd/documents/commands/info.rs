//! `/info`: the state of the topic, or where a shortcut leads.

use sfmd::uri;

use crate::faces::stringd::commands::CommandContext;
use crate::faces::stringd::convert::TopicType;
use crate::faces::stringd::documents::state::{DocumentState, OpenDocument};
use crate::faces::stringd::documents::{DocumentResult, failed, paths};

/// Describes the topic or a shortcut.
pub(in super::super) fn run(state: &DocumentState, context: &CommandContext, args: &str) -> DocumentResult {
    if let Some(id) = args.strip_prefix('@') {
        let href =
            state.shortcut(id).ok_or_else(|| failed("NOT_FOUND", format!("Shortcut not found: @{id}")))?;
        return Ok(format!("@{id} → {href}"));
    }
    let mut lines = InfoLines::default();
    let is_app = context.topic().kind() == TopicType::App;
    if is_app {
        lines.add("app", context.topic().as_str().trim_start_matches("app:"));
    }
    match &state.current {
        Some(open) => document(state, context, open, &mut lines),
        None => {
            lines.add("cwd", &paths::shown_directory(context, &state.cwd(context.home())));
            lines.add("file", "(none open)");
        }
    }
    lines.add("history", &format!("{} entries", state.history.len()));
    let variables: Vec<String> =
        state.variables.iter().map(|(name, value)| format!("{{{name}}}=\"{value}\"")).collect();
    lines.add("vars", &variables.join(", "));
    let mut text = format!("Session info\n---\n{}", lines.0.join("\n"));
    let warnings = state.current.iter().flat_map(|open| open.document.warnings());
    let warnings: Vec<String> = warnings.map(|warning| format!("\n  {warning}")).collect();
    if !warnings.is_empty() {
        text.push_str(&format!("\n\nWarnings:{}", warnings.concat()));
    }
    Ok(text)
}

fn document(state: &DocumentState, context: &CommandContext, open: &OpenDocument, lines: &mut InfoLines) {
    let document = &open.document;
    let kind = context.topic().kind();
    if kind == TopicType::App {
        lines.add("name", &document.frontmatter().text("name").unwrap_or_default());
        lines.add("version", document.frontmatter().textual("version").unwrap_or_default());
    }
    if kind == TopicType::Web || uri::is_http(&open.uri) {
        lines.add("url", &open.uri);
    } else if kind != TopicType::App {
        match uri::to_path(&open.uri) {
            Some(_) => {
                lines.add("file", &paths::shown(context, &open.uri));
                lines.add("cwd", &paths::shown_directory(context, &state.cwd(context.home())));
            }
            None => lines.add("uri", &open.uri),
        }
    }
    lines.add("title", &document.title().unwrap_or_default());
    lines.add("block", &open.block.as_ref().map(|block| format!("#{block}")).unwrap_or_default());
    lines.add("blocks", &document.blocks().join(", "));
    let menus: Vec<&str> = open.menus.iter().map(|menu| menu.name.as_str()).collect();
    lines.add("menus", &menus.join(", "));
    let mut shortcuts: Vec<String> = document.shortcuts().iter().map(|it| format!("@{}", it.id())).collect();
    if !state.auto.is_empty() {
        shortcuts.push(format!("+{} auto", state.auto.len()));
    }
    lines.add("shortcuts", &shortcuts.join(", "));
    let actions = document.actions().iter().map(|action| format!("{}({})", action.id, action.method.name()));
    lines.add("actions", &actions.collect::<Vec<_>>().join(", "));
    if open.html.is_some() {
        lines.add("source", "converted from HTML (use /source to view original)");
    }
}

/// Lines with a label of eleven columns; empty ones are left out.
#[derive(Default)]
struct InfoLines(Vec<String>);

impl InfoLines {
    fn add(&mut self, label: &str, text: &str) {
        if !text.is_empty() {
            self.0.push(format!("{:<11}{text}", format!("{label}:")));
        }
    }
}
