//! Markdown from tags and text.

use super::entities::decoded;
use super::tokens::attribute;

/// Writes Markdown while tags open and close.
#[derive(Debug, Default)]
pub(super) struct MarkdownWriter {
    output: String,
    /// The links whose end is not reached: where their label starts, and their address.
    links: Vec<(usize, Option<String>)>,
    lists: Vec<Option<u32>>,
    quotes: usize,
    /// Whether white space is kept: inside `pre`.
    preformatted: usize,
    /// Cells of the row, while a table is open.
    cells: usize,
    is_first_row: bool,
    has_pending_blank: bool,
}

/// Lists and quotes within each other that are indented; deeper ones are not indented further.
const DEEPEST: usize = 16;

impl MarkdownWriter {
    /// Adds a text between two tags.
    pub(super) fn text(&mut self, text: &str) {
        let text = decoded(text);
        if self.preformatted > 0 {
            return self.output.push_str(&text);
        }
        for c in text.chars() {
            if c.is_ascii_whitespace() {
                self.has_pending_blank = true;
                continue;
            }
            self.flush_blank();
            if (self.output.ends_with('\n') || self.output.is_empty()) && self.quotes > 0 {
                self.prefix();
            }
            self.output.push(c);
        }
    }

    /// Adds the start of an element.
    pub(super) fn open(&mut self, name: &str, attributes: &str) {
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.paragraph();
                let rank = name.bytes().last().map_or(1, |digit| usize::from(digit - b'0'));
                self.raw(&format!("{} ", "#".repeat(rank)));
            }
            "p" | "div" | "section" | "table" | "dl" | "figure" | "form" | "main" | "article" => {
                self.is_first_row = name == "table" || self.is_first_row;
                self.paragraph();
            }
            "br" => self.line(),
            "hr" => {
                self.paragraph();
                self.raw("---");
                self.paragraph();
            }
            "ul" | "ol" => self.open_list(name == "ol"),
            "li" => self.open_item(),
            "blockquote" => {
                self.paragraph();
                self.quotes += 1;
            }
            "pre" => {
                self.paragraph();
                self.preformatted += 1;
                self.raw("```\n");
            }
            "code" | "kbd" | "samp" if self.preformatted == 0 => self.mark("`"),
            "strong" | "b" => self.mark("**"),
            "em" | "i" => self.mark("*"),
            "a" => {
                // Links do not contain links.
                self.close_link();
                self.flush_blank();
                let href = attribute(attributes, "href").map(|href| decoded(href.trim()).into_owned());
                let start = self.output.len();
                self.output.push_str(if href.is_some() { "[" } else { "" });
                self.links.push((start, href));
            }
            "img" => self.image(attributes),
            "tr" | "dt" | "dd" => {
                self.line();
                self.cells = 0;
            }
            "td" | "th" => {
                self.raw("| ");
                self.cells += 1;
            }
            _ => {}
        }
    }

    /// Adds the end of an element.
    pub(super) fn close(&mut self, name: &str) {
        match name {
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "p" | "div" | "section" | "table" | "dl" | "figure"
            | "form" => {
                self.paragraph();
            }
            "ul" | "ol" => {
                self.lists.pop();
                match self.lists.is_empty() {
                    true => self.paragraph(),
                    false => self.line(),
                }
            }
            "blockquote" => {
                self.paragraph();
                self.quotes = self.quotes.saturating_sub(1);
            }
            "pre" if self.preformatted > 0 => {
                self.preformatted -= 1;
                let feed = if self.output.ends_with('\n') { "" } else { "\n" };
                self.raw(&format!("{feed}```"));
                self.paragraph();
            }
            "code" | "kbd" | "samp" if self.preformatted == 0 => self.end_mark("`"),
            "strong" | "b" => self.end_mark("**"),
            "em" | "i" => self.end_mark("*"),
            "a" => self.close_link(),
            "td" | "th" => self.raw(" "),
            "tr" => self.close_row(),
            _ => {}
        }
    }

    /// The Markdown so far.
    pub(super) fn finish(mut self) -> String {
        while !self.links.is_empty() {
            self.close_link();
        }
        if self.preformatted > 0 {
            self.output.push_str("\n```");
        }
        self.output
    }

    fn open_list(&mut self, is_numbered: bool) {
        match self.lists.is_empty() {
            true => self.paragraph(),
            false => self.line(),
        }
        self.lists.push(is_numbered.then_some(1));
    }

    fn open_item(&mut self) {
        self.line();
        let indent = " ".repeat(4 * self.lists.len().saturating_sub(1).min(DEEPEST));
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "*   ".to_owned(),
        };
        self.raw(&format!("{indent}{mark}"));
    }

    fn close_link(&mut self) {
        let Some((start, Some(href))) = self.links.pop() else { return };
        // A link without a label shows nothing.
        if self.output[start + 1..].trim().is_empty() {
            self.output.truncate(start);
            return;
        }
        let label = self.output.split_off(start + 1).replace('\n', " ");
        self.output.push_str(label.trim());
        self.output.push_str(&format!("]({href})"));
    }

    fn image(&mut self, attributes: &str) {
        if let Some(source) = attribute(attributes, "src").filter(|source| !source.starts_with("data:")) {
            let alt = attribute(attributes, "alt").unwrap_or_default().replace(['[', ']', '\n'], " ");
            self.raw(&format!("![{}]({})", decoded(&alt), decoded(source)));
        }
    }

    fn close_row(&mut self) {
        if self.cells > 0 {
            self.raw("|");
            if std::mem::take(&mut self.is_first_row) {
                let rule = format!("\n{}|", "| --- ".repeat(self.cells.min(256)));
                self.raw(&rule);
            }
        }
        self.cells = 0;
        self.line();
    }

    fn mark(&mut self, mark: &str) {
        self.raw(mark);
    }

    /// The end of marked text; a blank before it moves behind it, and a mark without text is removed.
    fn end_mark(&mut self, mark: &str) {
        let has_blank = std::mem::take(&mut self.has_pending_blank);
        match self.output.ends_with(mark) && !self.output.ends_with(&format!("{mark}{mark}")) {
            true => self.output.truncate(self.output.len() - mark.len()),
            false => self.output.push_str(mark),
        }
        self.has_pending_blank = has_blank;
    }

    /// Adds text that is not escaped, at the start of a line with the marks of its quotes.
    fn raw(&mut self, text: &str) {
        self.flush_blank();
        if (self.output.ends_with('\n') || self.output.is_empty()) && self.quotes > 0 {
            self.prefix();
        }
        self.output.push_str(text);
    }

    fn prefix(&mut self) {
        self.output.push_str(&"> ".repeat(self.quotes.min(DEEPEST)));
    }

    fn flush_blank(&mut self) {
        let is_start = self.output.is_empty() || self.output.ends_with(['\n', ' ', '[']);
        if std::mem::take(&mut self.has_pending_blank) && !is_start {
            self.output.push(' ');
        }
    }

    fn line(&mut self) {
        self.has_pending_blank = false;
        if self.preformatted > 0 || (!self.output.is_empty() && !self.output.ends_with('\n')) {
            self.output.push('\n');
        }
    }

    fn paragraph(&mut self) {
        self.has_pending_blank = false;
        // Inside a list item, a paragraph does not leave the item.
        if !self.lists.is_empty() && self.output.ends_with(' ') {
            return;
        }
        let feeds = self.output.bytes().rev().take(2).take_while(|byte| *byte == b'\n').count();
        if !self.output.is_empty() && self.preformatted == 0 {
            self.output.push_str(&"\n".repeat(2 - feeds));
        }
    }
}
