//! Changes of configuration files: what is set, and how it is undone.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{member, table};
use crate::failure::Failure;

/// A value to set. An array is added to one that exists.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    pub(super) path: Vec<String>,
    pub(super) value: Value,
}

impl Setting {
    pub(super) fn new(path: &[&str], value: Value) -> Setting {
        Setting { path: path.iter().map(|name| (*name).to_owned()).collect(), value }
    }
}

/// A setting that was made, with what is needed to undo it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct AppliedSetting {
    file: PathBuf,
    path: Vec<String>,
    /// The value that was set; of an array, the items that were added.
    value: Value,
    /// The value before.
    previous: Option<Value>,
}

/// A configuration file: its text on disk, and the changed text.
#[derive(Debug, Clone)]
pub(super) struct ConfigFile {
    pub(super) file: PathBuf,
    pub(super) before: Option<String>,
    pub(super) after: String,
}

impl ConfigFile {
    /// Reads a file; a missing one is empty.
    pub(super) fn read(file: &Path) -> Result<ConfigFile, Failure> {
        let before = super::write::read(file)?;
        Ok(ConfigFile { file: file.to_owned(), after: before.clone().unwrap_or_default(), before })
    }

    /// Whether the text on disk differs.
    pub(super) fn is_changed(&self) -> bool {
        self.before.as_deref().unwrap_or_default() != self.after
    }

    /// Sets a value. Returns how to undo it, or `None` if the file has it already.
    pub(super) fn set(&mut self, setting: &Setting) -> Result<Option<AppliedSetting>, String> {
        let previous = self.get(&setting.path)?;
        let (whole, value) = match (&previous, &setting.value) {
            (Some(Value::Array(old)), Value::Array(new)) => {
                let added: Vec<Value> = new.iter().filter(|item| !old.contains(item)).cloned().collect();
                (Value::from([old.as_slice(), &added].concat()), Value::from(added))
            }
            (_, value) => (value.clone(), value.clone()),
        };
        if previous.as_ref() == Some(&whole) {
            return Ok(None);
        }
        self.put(&setting.path, Some(&whole))?;
        Ok(Some(AppliedSetting { file: self.file.clone(), path: setting.path.clone(), value, previous }))
    }

    /// Undoes a setting, unless it was changed since: of an array, the items that were added are removed.
    pub(super) fn undo(&mut self, applied: &AppliedSetting) -> Result<(), String> {
        let now = self.get(&applied.path)?;
        let restored = match (&now, &applied.value, &applied.previous) {
            (Some(Value::Array(now)), Value::Array(added), previous) => {
                let left: Vec<Value> = now.iter().filter(|item| !added.contains(item)).cloned().collect();
                (previous.is_some() || !left.is_empty()).then(|| Value::from(left))
            }
            (Some(now), value, previous) if now == value => previous.clone(),
            _ => return Ok(()),
        };
        self.put(&applied.path, restored.as_ref())
    }

    /// Sets or removes a value.
    pub(super) fn put(&mut self, path: &[String], value: Option<&Value>) -> Result<(), String> {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        self.after = match self.is_toml() {
            true => table::with(&self.after, &path, value)?,
            false => member::with(&self.after, &path, value)?,
        };
        Ok(())
    }

    fn get(&self, path: &[String]) -> Result<Option<Value>, String> {
        let values = match self.is_toml() {
            true => table::values(&self.after)?,
            false => member::values(&self.after)?,
        };
        let found = path.iter().try_fold(&values, |values, name| values.get(name));
        Ok(found.cloned())
    }

    fn is_toml(&self) -> bool {
        self.file.extension().is_some_and(|extension| extension == "toml")
    }
}

impl AppliedSetting {
    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// Whether it sets what a setting of a file sets.
    pub(super) fn is_of(&self, file: &Path, setting: &Setting) -> bool {
        self.file == file && self.path == setting.path
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(file: &str, text: &str) -> ConfigFile {
        ConfigFile { file: file.into(), before: Some(text.to_owned()), after: text.to_owned() }
    }

    #[test]
    fn a_setting_is_made_once_and_undone_without_a_trace() {
        for (file, text, path, value) in [
            ("a.json", "{\n  \"b\": 1\n}\n", &["permissions", "deny"][..], json!(["Bash", "Read"])),
            (
                "a.json",
                "{\n  \"permissions\": {\n    \"deny\": [\"Read\"]\n  }\n}\n",
                &["permissions", "deny"],
                json!(["Bash", "Read"]),
            ),
            (
                "a.json",
                "{\n  // mine\n  \"agent\": {\n    \"x\": 1\n  }\n}\n",
                &["agent", "profiles", "rex"],
                json!({ "name": "rex" }),
            ),
            ("a.toml", "# mine\nmodel = \"x\"\n", &["features", "shell_tool"], json!(false)),
            (
                "a.toml",
                "[features]\nother = true\nshell_tool = true\n",
                &["features", "shell_tool"],
                json!(false),
            ),
        ] {
            let (mut config, setting) = (config(file, text), Setting::new(path, value));
            let applied = config.set(&setting).unwrap().unwrap();
            assert!(config.is_changed(), "{text}");
            assert_eq!(config.set(&setting).unwrap(), None, "{text}");
            let (mut changed, kept) = (config.clone(), applied.clone());
            config.undo(&applied).unwrap();
            let (now, before) = (config.after.replace([' ', '\n'], ""), text.replace([' ', '\n'], ""));
            assert_eq!(now, before);
            changed.undo(&serde_json::from_value(json!(kept)).unwrap()).unwrap();
            assert_eq!(changed.after, config.after);
        }
    }

    #[test]
    fn what_the_user_changed_since_stays() {
        let mut file = config("a.json", "{}");
        let applied = file.set(&Setting::new(&["tools", "bash"], json!(false))).unwrap().unwrap();
        file.put(&["tools".to_owned(), "bash".to_owned()], Some(&json!(true))).unwrap();
        let text = file.after.clone();
        file.undo(&applied).unwrap();
        assert_eq!(file.after, text);
    }
}
