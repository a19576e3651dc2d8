//! `/nav`: menus, the shortcuts of the page, and a draft for a new menu.

use sfmd::scaffold;

use crate::faces::stringd::documents::state::{DocumentState, OpenDocument};
use crate::faces::stringd::documents::{DocumentResult, failed};

/// Shows what an argument names; all menus without one.
pub(in super::super) fn run(state: &DocumentState, args: &str) -> DocumentResult {
    let Some(open) = &state.current else {
        return Err(failed("INVALID_TARGET", "No document is open in this session.\nUse /open <uri> first."));
    };
    match args {
        "" => Ok(menus(open)),
        "page" => Ok(page(state, open)),
        "scaffold" | "create" | "bootstrap" => Ok(draft(open)),
        name => {
            let name = name.trim_start_matches('@');
            let menu = open.menus.iter().find(|menu| menu.name == name);
            let menu = menu.ok_or_else(|| failed("NOT_FOUND", format!("Menu not found: {name}")))?;
            Ok(match menu.entries.is_empty() {
                true => format!("Menu {name} is empty."),
                false => format!("Menu: {name}\n---\n{}", menu.listing()),
            })
        }
    }
}

fn menus(open: &OpenDocument) -> String {
    if open.menus.is_empty() {
        return "This document names no menus. A menu is a file of shortcuts that a document refers to.\nTry: /nav scaffold".to_owned();
    }
    let lines: Vec<String> = open.menus.iter().map(|menu| menu.summary()).collect();
    let hint = "use: /nav <name> to show menu · /open @menu.id to follow link";
    format!("Menus\n---\n{}\n\n{hint}", lines.join("\n"))
}

fn page(state: &DocumentState, open: &OpenDocument) -> String {
    let line = |id: &str, href: &str| format!("  @{id} → {href}\n");
    let own: String = open.document.shortcuts().iter().map(|it| line(it.id(), it.href())).collect();
    let auto: String = state.auto.iter().map(|it| line(it.id, it.href)).collect();
    let mut text = String::new();
    for (title, lines) in [("Shortcuts:", own), ("Auto:", auto)] {
        if !lines.is_empty() {
            text.push_str(&format!("{title}\n{lines}\n"));
        }
    }
    match text.is_empty() {
        true => "No shortcuts on this page.".to_owned(),
        false => text + "use: /open @id",
    }
}

fn draft(open: &OpenDocument) -> String {
    let lines = scaffold::lines(&open.document);
    if lines.is_empty() {
        return "No links found on this page. Add links to it first, or write a menu file by hand."
            .to_owned();
    }
    format!(
        "Nav Scaffold\n---\nSave this as nav/main.md beside the document:\n\n```markdown\n{}\n```\n\nThen refer to it in the document:\n\n[!nav:main](./nav/main.md)",
        lines.join("\n")
    )
}
