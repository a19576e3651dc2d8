//! InstallRecord: the settings that `rex mcp install --only` made, so that `rex mcp uninstall` undoes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::change::{AppliedSetting, Setting};
use super::write;
use crate::failure::Failure;

/// The settings of each installation, by the client, the file and the name of its server.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct InstallRecord {
    #[serde(default)]
    installed: BTreeMap<String, Vec<AppliedSetting>>,
}

impl InstallRecord {
    /// Reads the record; without a file it is empty.
    pub(super) fn read() -> Result<InstallRecord, Failure> {
        let file = file()?;
        let Some(text) = write::read(&file)? else { return Ok(InstallRecord::default()) };
        serde_json::from_str(&text).map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", file.display()))
                .hint("remove the file; the settings in it are then undone by hand")
        })
    }

    /// Adds the settings that an installation made, and those that it wants in a file and other installations made. Whether
    /// the record is changed.
    pub(super) fn add(
        &mut self,
        key: String,
        (file, wanted): (&Path, &[Setting]),
        applied: Vec<AppliedSetting>,
    ) -> bool {
        let is_wanted = |made: &&AppliedSetting| wanted.iter().any(|setting| made.is_of(file, setting));
        let shared: Vec<_> = self.installed.values().flatten().filter(is_wanted).cloned().collect();
        let mut settings = self.installed.remove(&key).unwrap_or_default();
        let before = settings.len();
        for setting in shared.into_iter().chain(applied) {
            if !settings.contains(&setting) {
                settings.push(setting);
            }
        }
        let is_changed = settings.len() > before;
        if !settings.is_empty() {
            self.installed.insert(key, settings);
        }
        is_changed
    }

    /// Whether an installation has this setting.
    pub(super) fn contains(&self, setting: &AppliedSetting) -> bool {
        self.installed.values().any(|settings| settings.contains(setting))
    }

    /// Takes the settings of an installation out, the newest first.
    pub(super) fn take(&mut self, key: &str) -> Vec<AppliedSetting> {
        let mut settings = self.installed.remove(key).unwrap_or_default();
        settings.reverse();
        settings
    }

    /// Writes the record to its file.
    pub(super) fn write(&self) -> Result<(), Failure> {
        // The record is plain data and always serializes.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        write::replace(&file()?, &format!("{text}\n"))
    }
}

fn file() -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")));
    state
        .map(|state| state.join("rex/mcp-install.json"))
        .ok_or_else(|| Failure::new("no directory for the record: neither XDG_STATE_HOME nor HOME is set"))
}
