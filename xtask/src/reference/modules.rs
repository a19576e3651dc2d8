//! The list of modules: every source file of the workspace with the first sentence of its `//!` comment.

use std::fmt::Write as _;

use anyhow::Result;

use crate::tree::{File, Tree};

/// The path of the page.
pub(crate) const PAGE: &str = "docs/reference/modules.md";

/// Generates the text of the page.
pub(crate) fn page(tree: &Tree) -> Result<String> {
    let mut text = String::from(
        "# Modules\n\nWritten by `cargo xtask generate` from the first sentence of each source file; do not edit. The crates and \
         their dependencies: [ARCHITECTURE.md](../../ARCHITECTURE.md).\n",
    );
    let mut last = "";
    for file in tree.product_code() {
        let Some((package, path)) = file.path.split_once("/src/") else { continue };
        if package != last {
            write!(text, "\n## {package}\n\n| file in `{package}/src/` | purpose |\n|---|---|\n")?;
            last = package;
        }
        writeln!(text, "| `{path}` | {} |", first_sentence(file).replace('|', "\\|"))?;
    }
    Ok(text)
}

/// The first sentence of the comment at the top of a file.
fn first_sentence(file: &File) -> String {
    let lines = file.text.lines().map_while(|line| line.strip_prefix("//!"));
    let paragraph: Vec<&str> = lines.map(str::trim).take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    match paragraph.split_once(". ") {
        Some((sentence, _)) => format!("{sentence}."),
        None => paragraph,
    }
}
