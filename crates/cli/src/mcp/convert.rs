//! Converts tools and outcomes to MCP's types.

use rmcp::model::{
    CallToolResult, ContentBlock, JsonObject, Resource, ResourceContents, Tool, ToolAnnotations,
};
use serde_json::Value;

use crate::tools::{ContentPart, ToolOutcome, catalog, image, uri};

/// Converts a tool definition.
pub(super) fn tool(tool: &catalog::Tool) -> Tool {
    let annotations = ToolAnnotations::with_title(tool.title)
        .read_only(tool.hints.read_only)
        .destructive(tool.hints.destructive)
        .idempotent(tool.hints.idempotent)
        .open_world(tool.hints.open_world);
    Tool::new(tool.name, tool.description, object(tool.schema()))
        .with_title(tool.title)
        .with_annotations(annotations)
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

/// Converts the outcome of a tool.
pub(super) fn result(outcome: ToolOutcome) -> CallToolResult {
    let content = outcome.parts.into_iter().map(block).collect();
    let mut result = match outcome.is_error {
        true => CallToolResult::error(content),
        false => CallToolResult::success(content),
    };
    result.structured_content = outcome.structured;
    result
}

fn block(part: ContentPart) -> ContentBlock {
    match part {
        ContentPart::Text(text) => ContentBlock::text(text),
        ContentPart::Image { mime, bytes } => {
            ContentBlock::image(base64_simd::STANDARD.encode_to_string(bytes), mime)
        }
        ContentPart::Link { path, size } => {
            let link = Resource::new(uri::of(&path), uri::name(&path));
            ContentBlock::resource_link(match size {
                Some(size) => link.with_size(size),
                None => link,
            })
        }
    }
}

/// The contents of a file, as text if it is UTF-8.
pub(super) fn contents(uri: &str, bytes: Vec<u8>) -> ResourceContents {
    match String::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(error) => {
            let bytes = error.into_bytes();
            let mime = image::kind(&bytes).unwrap_or("application/octet-stream");
            ResourceContents::blob(base64_simd::STANDARD.encode_to_string(bytes), uri).with_mime_type(mime)
        }
    }
}
