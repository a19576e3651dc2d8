//! The tool definitions in the formats of model providers.

use serde_json::{Value, json};

use super::catalog::{ALL, Tool};
use crate::args::ToolFormat;

/// All tools in one format.
pub fn all(format: ToolFormat) -> Value {
    ALL.iter().map(|tool| one(tool, format)).collect()
}

fn one(tool: &Tool, format: ToolFormat) -> Value {
    let (name, description, schema) = (tool.name, tool.description, tool.schema());
    match format {
        ToolFormat::Openai => json!({
            "type": "function",
            "function": { "name": name, "description": description, "parameters": schema },
        }),
        ToolFormat::Anthropic => {
            json!({ "name": name, "description": description, "input_schema": schema })
        }
        ToolFormat::JsonSchema => json!({
            "name": name,
            "description": description,
            "inputSchema": schema,
            "annotations": tool.annotations(),
        }),
    }
}
