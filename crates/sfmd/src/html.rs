//! HTML to Markdown: the readable part of a page.

mod entities;
mod tokens;
mod writer;

use tokens::{HtmlToken, tokens};
use writer::MarkdownWriter;

/// Elements whose content is not shown.
const DROPPED: &[&str] =
    &["script", "style", "noscript", "iframe", "svg", "nav", "footer", "header", "aside", "head", "template"];

/// The main part of a page as Markdown.
pub fn to_markdown(html: &str) -> String {
    let all: Vec<HtmlToken<'_>> = tokens(html).collect();
    let part = ["main", "article", "body"].iter().find_map(|name| inside(&all, name)).unwrap_or(&all);
    let mut writer = MarkdownWriter::default();
    // Elements without an end cover nothing; each name is searched for once.
    let mut endless: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(token) = part.get(at) {
        at += 1;
        match token {
            HtmlToken::Text(text) => writer.text(text),
            HtmlToken::Open { name, .. } if DROPPED.contains(&name.as_str()) => {
                let end = Some(name).filter(|name| !endless.contains(&name.as_str()));
                match end.and_then(|name| end_of(part, at, name)) {
                    Some(end) => at = end + 1,
                    None if endless.len() < DROPPED.len() => endless.push(name),
                    None => {}
                }
            }
            HtmlToken::Open { name, attributes } => writer.open(name, attributes),
            HtmlToken::Close { name } => writer.close(name),
        }
    }
    collapsed(&writer.finish())
}

/// The tokens inside the first element with a name.
fn inside<'a, 'b>(all: &'b [HtmlToken<'a>], name: &str) -> Option<&'b [HtmlToken<'a>]> {
    let start = all.iter().position(|token| token.opens(name))? + 1;
    Some(&all[start..end_of(all, start, name).unwrap_or(all.len())])
}

/// The index of the tag that closes an element; elements of the same name are counted.
fn end_of(all: &[HtmlToken<'_>], start: usize, name: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (index, token) in all.iter().enumerate().skip(start) {
        if token.opens(name) {
            depth += 1;
        } else if matches!(token, HtmlToken::Close { name: closed } if closed == name) {
            if depth == 0 {
                return Some(index);
            }
            depth -= 1;
        }
    }
    None
}

/// At most one blank line in a row, outside of code, and no blanks around the text.
fn collapsed(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut feeds = 0;
    for c in text.trim().chars() {
        feeds = if c == '\n' { feeds + 1 } else { 0 };
        if feeds <= 2 {
            output.push(c);
        }
    }
    output
}

#[cfg(test)]
#[path = "html/tests.rs"]
mod tests;
