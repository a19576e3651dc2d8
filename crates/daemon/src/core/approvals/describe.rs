//! An operation as JSON for approvers, the same in every protocol.

use std::path::Path;

use engine::approval::{Diff, FileAction, Operation};
use engine::process::Program;
use serde_json::{Value, json};

/// The operation, complete and not redacted.
pub fn operation(shown: &Operation) -> Value {
    match shown {
        Operation::Run { program, cwd, env, input, has_terminal, is_detached } => {
            let env: serde_json::Map<String, Value> =
                env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            let mut operation = json!({
                "kind": "run", "cwd": text(cwd), "env": env, "stdin_bytes": input.bytes,
                "pty": has_terminal, "detach": is_detached,
            });
            if input.bytes > 0 {
                operation["stdin"] = json!(input.text);
                operation["stdin_cut_bytes"] = json!(input.cut_bytes);
            }
            match program {
                Program::Argv(argv) => operation["argv"] = json!(argv),
                Program::Shell { line, login } => {
                    operation["command"] = json!(line);
                    operation["login"] = json!(login);
                }
            }
            operation
        }
        Operation::Files { action, paths, diff, is_recursive, overwrites } => {
            let paths: Vec<String> = paths.iter().map(|path| text(path)).collect();
            let mut operation = json!({ "kind": action.name(), "paths": paths });
            if matches!(action, FileAction::Remove | FileAction::Copy) {
                operation["recursive"] = json!(is_recursive);
            }
            if matches!(action, FileAction::Rename | FileAction::Copy) {
                operation["overwrite"] = json!(overwrites);
            }
            if let Some(Diff { text, cut_bytes }) = diff {
                operation["diff"] = json!(text);
                operation["diff_cut_bytes"] = json!(cut_bytes);
            }
            operation
        }
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
