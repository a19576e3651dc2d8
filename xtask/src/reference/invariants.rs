//! The invariants of ARCHITECTURE.md and the tests that hold them.
//!
//! A row `| [7](docs/reference/invariants.md#7) | sentence |` of ARCHITECTURE.md states an invariant. A test that holds it
//! has a doc comment with [`MARKER`] and the number.

use std::fmt::Write as _;

use anyhow::Result;

use crate::tree::{File, Tree};

/// The generated page with the tests of each invariant.
pub(crate) const PAGE: &str = "docs/reference/invariants.md";
const DOCUMENT: &str = "ARCHITECTURE.md";
const MARKER: &str = "/// ARCHITECTURE.md, invariant ";

/// One row of the table in ARCHITECTURE.md.
#[derive(Debug)]
pub(crate) struct Invariant<'a> {
    pub(crate) number: u32,
    pub(crate) sentence: &'a str,
    /// `ARCHITECTURE.md:line`
    pub(crate) place: String,
}

/// A doc comment that names an invariant.
#[derive(Debug)]
pub(crate) struct InvariantMarker<'a> {
    pub(crate) number: Option<u32>,
    pub(crate) file: &'a File,
    pub(crate) line: usize,
    /// The test below the comment; `None` if the item is not a test.
    pub(crate) test: Option<&'a str>,
}

/// Every invariant, in the order of the document.
pub(crate) fn invariants(tree: &Tree) -> Vec<Invariant<'_>> {
    let Some(document) = tree.file(DOCUMENT) else { return Vec::new() };
    let rows = document.lines().filter_map(|(line, text)| {
        let (number, rest) = text.strip_prefix("| [")?.split_once("](")?;
        let sentence = rest.strip_prefix(PAGE)?.split_once(" | ")?.1.strip_suffix(" |")?;
        Some(Invariant { number: number.parse().ok()?, sentence, place: format!("{DOCUMENT}:{line}") })
    });
    rows.collect()
}

/// Every comment that names an invariant, with the test it belongs to.
pub(crate) fn markers(tree: &Tree) -> Vec<InvariantMarker<'_>> {
    let mut markers = Vec::new();
    for file in tree.rust("") {
        let (mut pending, mut is_test) = (Vec::new(), false);
        for (line, text) in file.lines().map(|(line, text)| (line, text.trim_start())) {
            if let Some(number) = text.strip_prefix(MARKER) {
                let number = number.trim_end().trim_end_matches('.').parse().ok();
                pending.push(InvariantMarker { number, file, line, test: None });
            } else if text.starts_with("#[test]") || text.starts_with("#[tokio::test") {
                is_test = true;
            } else if let Some((_, rest)) = text.split_once("fn ").filter(|_| !text.starts_with("//")) {
                let test = rest.split('(').next().filter(|_| is_test);
                markers.extend(pending.drain(..).map(|marker| InvariantMarker { test, ..marker }));
                is_test = false;
            }
        }
        markers.append(&mut pending);
    }
    markers
}

/// Generates the text of the page.
pub(crate) fn page(tree: &Tree) -> Result<String> {
    let mut text = String::from(
        "# Invariants and their tests\n\nWritten by `cargo xtask generate` from `ARCHITECTURE.md` and the doc comments of the \
         tests; do not edit.\nA test that holds invariant 7 has the doc comment `ARCHITECTURE.md, invariant 7.`\n",
    );
    let markers = markers(tree);
    for invariant in invariants(tree) {
        write!(text, "\n## {}\n\n{}\n\n", invariant.number, invariant.sentence)?;
        for marker in markers.iter().filter(|marker| marker.number == Some(invariant.number)) {
            if let Some(test) = marker.test {
                writeln!(text, "- `{test}` in `{}`", marker.file.path)?;
            }
        }
    }
    Ok(text)
}
