//! Files that all topics of a user share: variables and packages. Each use reads them again; each change replaces one.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{failed, file_failure};
use crate::faces::stringd::commands::{CommandContext, CommandResult, WriteFile};
use crate::faces::stringd::errors::OperationError;

/// Where a persistent variable is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum VariableScope {
    Global,
    App(String),
    Configuration(String, String),
}

impl VariableScope {
    /// The most specific scope of a topic.
    pub(super) fn of(context: &CommandContext) -> VariableScope {
        let Some(names) = context.topic().as_str().strip_prefix("app:") else { return VariableScope::Global };
        let mut names = names.split(':').map(str::to_owned);
        match (names.next(), names.next()) {
            (Some(app), Some(configuration)) => VariableScope::Configuration(app, configuration),
            (Some(app), None) => VariableScope::App(app),
            _ => VariableScope::Global,
        }
    }

    /// The name that `/set` prints.
    pub(super) fn label(&self) -> String {
        match self {
            VariableScope::Global => "global".to_owned(),
            VariableScope::App(app) => app.clone(),
            VariableScope::Configuration(app, configuration) => format!("{app}:{configuration}"),
        }
    }

    /// This scope and those around it, the widest first.
    fn cascade(&self) -> Vec<VariableScope> {
        match self {
            VariableScope::Global => vec![VariableScope::Global],
            VariableScope::App(_) => vec![VariableScope::Global, self.clone()],
            VariableScope::Configuration(app, _) => {
                vec![VariableScope::Global, VariableScope::App(app.clone()), self.clone()]
            }
        }
    }

    /// The file below the home.
    fn file(&self) -> PathBuf {
        match self {
            VariableScope::Global => PathBuf::from("config.json"),
            VariableScope::App(app) => PathBuf::from(format!("apps/{app}/env.json")),
            VariableScope::Configuration(app, name) => PathBuf::from(format!("apps/{app}/{name}/env.json")),
        }
    }
}

/// The persistent variables that a topic sees, sorted by name.
pub(super) async fn variables(context: &CommandContext) -> Vec<(String, String)> {
    let mut merged = Map::new();
    for scope in VariableScope::of(context).cascade() {
        let mut found = read(context, &scope.file()).await;
        if scope == VariableScope::Global {
            found = match found.remove("env") {
                Some(Value::Object(env)) => env,
                _ => Map::new(),
            };
        }
        merged.extend(found);
    }
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    merged.into_iter().map(|(name, value)| (name, text(value))).collect()
}

/// Sets a persistent variable in the topic's most specific scope.
pub(super) async fn set_variable(
    context: &CommandContext,
    name: &str,
    value: &str,
) -> Result<(), CommandResult> {
    let _change = context.change_stores().await;
    let scope = VariableScope::of(context);
    let mut all = read_to_change(context, &scope.file()).await?;
    let entry = (name.to_owned(), Value::String(value.to_owned()));
    match scope {
        VariableScope::Global => {
            let env = all.entry("env").or_insert_with(|| Value::Object(Map::new()));
            match env {
                Value::Object(env) => drop(env.insert(entry.0, entry.1)),
                other => *other = Value::Object(Map::from_iter([entry])),
            }
        }
        _ => drop(all.insert(entry.0, entry.1)),
    }
    write(context, &scope.file(), all).await
}

/// The registered packages of a kind (`apps` or `tools`) with their addresses.
pub(super) async fn registered(context: &CommandContext, kind: &str, name: &str) -> Option<String> {
    let config = read(context, Path::new("config.json")).await;
    config.get(kind)?.get(name)?.as_str().map(str::to_owned)
}

/// Registers a package, or removes it without an address; false if there was nothing to remove.
pub(super) async fn register(
    context: &CommandContext,
    kind: &str,
    name: &str,
    address: Option<&str>,
) -> Result<bool, CommandResult> {
    let _change = context.change_stores().await;
    let file = PathBuf::from("config.json");
    let mut config = read_to_change(context, &file).await?;
    let entries = config.entry(kind).or_insert_with(|| Value::Object(Map::new()));
    if !entries.is_object() {
        *entries = Value::Object(Map::new());
    }
    let Value::Object(entries) = entries else { return Ok(false) };
    match address {
        Some(address) => drop(entries.insert(name.to_owned(), Value::String(address.to_owned()))),
        None if entries.remove(name).is_none() => return Ok(false),
        None => {}
    }
    write(context, &file, config).await?;
    Ok(true)
}

/// The object in a file, empty if it cannot be read.
async fn read(context: &CommandContext, file: &Path) -> Map<String, Value> {
    load(context, file).await.unwrap_or_default()
}

/// The object in a file that is about to be replaced: a file that cannot be read must not be lost.
async fn read_to_change(context: &CommandContext, file: &Path) -> Result<Map<String, Value>, CommandResult> {
    let shown = file.display().to_string();
    let failure = |error: OperationError| file_failure(&error, &shown, "INTERNAL_ERROR", "Write failed");
    load(context, file).await.map_err(failure)
}

/// The older layout below `.string/` is read if the file does not exist.
async fn load(context: &CommandContext, file: &Path) -> Result<Map<String, Value>, OperationError> {
    for path in [context.home().join(file), context.home().join(".string").join(file)] {
        match context.read(&path).await {
            Ok(text) => {
                let invalid = |_| OperationError::Failed(format!("{} is not a JSON object", path.display()));
                return serde_json::from_str(&text).map_err(invalid);
            }
            Err(OperationError::NotFound(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Map::new())
}

async fn write(
    context: &CommandContext,
    file: &Path,
    object: Map<String, Value>,
) -> Result<(), CommandResult> {
    let failure = |error: serde_json::Error| failed("INTERNAL_ERROR", error.to_string());
    let mut text = serde_json::to_string_pretty(&Value::Object(object)).map_err(failure)?;
    text.push('\n');
    let path = context.home().join(file);
    let new = WriteFile { path: &path, content: text.as_bytes(), creates_parents: true, is_private: true };
    let shown = file.display().to_string();
    context.write(new).await.map_err(|error| file_failure(&error, &shown, "INTERNAL_ERROR", "Write failed"))
}
