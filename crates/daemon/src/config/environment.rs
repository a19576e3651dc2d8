//! `[environment]`: the environment of commands.

use engine::policy::{Environment, Glob};

use super::section::{ConfigError, Section};

pub(super) fn read(section: Section<'_, '_>) -> Result<Environment, ConfigError> {
    let environment = Environment {
        remove: section.texts("remove")?.into_iter().map(Glob::new).collect(),
        keep: section.texts("keep")?.into_iter().map(Glob::new).collect(),
        remove_secrets: section.boolean("remove_secrets")?.unwrap_or(true),
        set: section.text_map("set")?,
    };
    section.finish();
    Ok(environment)
}
