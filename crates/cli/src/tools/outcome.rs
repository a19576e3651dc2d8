//! ToolOutcome: the result of a tool, independent of the protocol.

use client::Error;
use serde_json::{Value, json};

use super::arguments::BadArguments;
use super::truncate;
use crate::failure::Failure;

/// The maximum size of a text for a model: 50,000 bytes. Claude Code moves results above about 25,000 tokens to a file.
pub const MAX_TEXT_BYTES: usize = 50_000;
/// The maximum number of lines of a text for a model: 1,900. OpenCode drops the lines after 2,000, and with them the next
/// call.
pub const MAX_TEXT_LINES: usize = 1_900;

/// The result of a tool.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutcome {
    /// The content for the model, in order.
    pub parts: Vec<ContentPart>,
    /// The structured result for programs.
    pub structured: Option<Value>,
    /// Whether the call failed.
    pub is_error: bool,
}

/// One part of the content.
#[derive(Debug, Clone, PartialEq)]
pub enum ContentPart {
    /// Text.
    Text(String),
    /// An image.
    Image {
        /// The media type, such as `image/png`.
        mime: &'static str,
        /// The contents of the file.
        bytes: Vec<u8>,
    },
    /// A file that can be read as a resource.
    Link {
        /// The absolute path on the target.
        path: String,
        /// The size of the file, if known.
        size: Option<u64>,
    },
}

impl ToolOutcome {
    /// An outcome with one text.
    pub fn text(text: impl Into<String>) -> ToolOutcome {
        ToolOutcome { parts: vec![ContentPart::Text(text.into())], ..ToolOutcome::default() }
    }

    /// A failed outcome: what failed and why, then a hint.
    pub fn failed(text: impl Into<String>) -> ToolOutcome {
        ToolOutcome { is_error: true, ..ToolOutcome::text(text) }
    }

    /// Adds the structured result.
    #[must_use]
    pub fn with(self, structured: Value) -> ToolOutcome {
        ToolOutcome { structured: Some(structured), ..self }
    }

    /// Adds a link to a file.
    #[must_use]
    pub fn and_link(mut self, path: impl Into<String>, size: Option<u64>) -> ToolOutcome {
        self.parts.push(ContentPart::Link { path: path.into(), size });
        self
    }

    /// Adds a line to its last text.
    pub(super) fn add_line(&mut self, line: &str) {
        if let Some(ContentPart::Text(text)) = self.parts.last_mut() {
            text.push('\n');
            text.push_str(line);
        }
    }

    /// Inserts a line into its first text: below the first line if that is a status in brackets, otherwise before it.
    pub(super) fn insert_line(&mut self, line: &str) {
        let Some(ContentPart::Text(text)) = self.parts.first_mut() else { return };
        let first = text.split_inclusive('\n').next().unwrap_or_default();
        match first.starts_with('[') && first.ends_with("]\n") {
            true => text.insert_str(first.len(), &format!("{line}\n")),
            false => text.insert_str(0, &format!("{line}\n")),
        }
    }

    /// The text, and images, without the structured result and the links, which clients give to a model instead of the text.
    #[must_use]
    pub fn text_only(mut self) -> ToolOutcome {
        self.structured = None;
        self.parts.retain(|part| !matches!(part, ContentPart::Link { .. }));
        self
    }

    /// Cuts texts that exceed the limits in the middle. Tools that can return much cut it themselves, and explain how to get
    /// the rest.
    #[must_use]
    pub fn within_limits(mut self) -> ToolOutcome {
        for part in &mut self.parts {
            if let ContentPart::Text(text) = part {
                limit(text);
            }
        }
        self
    }

    /// All text parts, joined by line ends.
    pub fn text_content(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            ContentPart::Text(text) => Some(text.as_str()),
            ContentPart::Image { .. } | ContentPart::Link { .. } => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }

    /// The result that `rex call --json` prints, in MCP's form.
    pub fn to_json(&self) -> Value {
        let content: Vec<Value> = self.parts.iter().map(ContentPart::to_json).collect();
        let mut shown = json!({ "content": content, "isError": self.is_error });
        if let Some(structured) = &self.structured {
            shown["structuredContent"] = structured.clone();
        }
        shown
    }
}

/// Cuts the middle of a text that exceeds the limits.
fn limit(text: &mut String) {
    const NOTE_BYTES: usize = 100;
    let is_long =
        |text: &str| text.len() > MAX_TEXT_BYTES || truncate::lines(text.as_bytes()) > MAX_TEXT_LINES;
    if !is_long(text) {
        return;
    }
    let bytes = text.as_bytes();
    let (most, lines) = ((MAX_TEXT_BYTES - NOTE_BYTES) / 2, MAX_TEXT_LINES / 2 - 2);
    let head = truncate::end_of_head(bytes, most).min(truncate::end_of_lines(bytes, lines));
    let tail = truncate::start_of_tail(bytes, most).max(truncate::start_of_lines(bytes, lines)).max(head);
    let note = format!("\n[{} bytes omitted here]\n", tail - head);
    text.replace_range(head..tail, &note);
}

impl ContentPart {
    fn to_json(&self) -> Value {
        match self {
            ContentPart::Text(text) => json!({ "type": "text", "text": text }),
            ContentPart::Image { mime, bytes } => {
                let data = base64_simd::STANDARD.encode_to_string(bytes);
                json!({ "type": "image", "mimeType": mime, "data": data })
            }
            ContentPart::Link { path, size } => {
                let mut link = json!({
                    "type": "resource_link",
                    "uri": super::uri::of(path),
                    "name": super::uri::name(path),
                });
                if let Some(size) = size {
                    link["size"] = json!(size);
                }
                link
            }
        }
    }
}

impl From<Failure> for ToolOutcome {
    fn from(failure: Failure) -> ToolOutcome {
        let text = match &failure.hint {
            // Further lines of a message from a target cannot look like a hint.
            Some(hint) => format!("{}\nhint: {hint}", failure.message.replace('\n', "\n  ")),
            None => failure.message.clone(),
        };
        let structured = failure.to_json();
        ToolOutcome::failed(text).with(structured)
    }
}

impl From<Error> for ToolOutcome {
    fn from(error: Error) -> ToolOutcome {
        ToolOutcome::from(Failure::from(error))
    }
}

impl From<BadArguments> for ToolOutcome {
    fn from(error: BadArguments) -> ToolOutcome {
        ToolOutcome::failed(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_inserted_below_the_status() {
        for (text, expected) in [
            ("[exit code 0]\nout", "[exit code 0]\n[new]\nout"),
            ("[id].tsx:1: x\n", "[new]\n[id].tsx:1: x\n"),
            ("cannot read x", "[new]\ncannot read x"),
            ("", "[new]\n"),
        ] {
            let mut outcome = ToolOutcome::text(text);
            outcome.insert_line("[new]");
            assert_eq!(outcome.text_content(), expected);
        }
    }

    #[test]
    fn no_text_exceeds_the_limits_of_clients() {
        for text in
            ["✓".repeat(50_000), "x\n".repeat(5_000), "\n".repeat(60_000), "long line\n".repeat(9_000)]
        {
            let cut = ToolOutcome::text(text.clone()).within_limits().text_content();
            assert!(cut.len() <= MAX_TEXT_BYTES && cut.lines().count() <= MAX_TEXT_LINES, "{}", cut.len());
            assert!(cut.contains(" bytes omitted here]"), "{cut:.200}");
            assert!(
                cut.starts_with(text.get(..9).unwrap()) && cut.ends_with(text.get(text.len() - 9..).unwrap())
            );
        }
        let fits = "line\n".repeat(1_900);
        assert_eq!(ToolOutcome::text(fits.clone()).within_limits().text_content(), fits);
    }
}
