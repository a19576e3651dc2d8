//! Packages: applications and tools that a user installed.

use std::path::PathBuf;

use sfmd::document::Document;

use super::{load, store};
use crate::faces::stringd::commands::{CommandContext, CommandResult};

/// The kinds of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PackageKind {
    App,
    Tool,
}

impl PackageKind {
    /// The word in commands and in frontmatter.
    pub(super) fn name(self) -> &'static str {
        match self {
            PackageKind::App => "app",
            PackageKind::Tool => "tool",
        }
    }

    /// The key in the user's configuration.
    pub(super) fn key(self) -> &'static str {
        match self {
            PackageKind::App => "apps",
            PackageKind::Tool => "tools",
        }
    }

    /// The kind that a word names.
    pub(super) fn parse(word: &str) -> Option<PackageKind> {
        [PackageKind::App, PackageKind::Tool].into_iter().find(|kind| kind.name() == word)
    }
}

/// The address of the package that a target names: `app:NAME`, `tool:NAME` or a bare name of an application.
pub(super) async fn address(context: &CommandContext, target: &str) -> Option<String> {
    let (kind, name) = match target.split_once(':') {
        Some((kind, rest)) => (PackageKind::parse(kind)?, rest.split(':').next()?),
        None if target.contains(['/', '.']) => return None,
        None => (PackageKind::App, target),
    };
    store::registered(context, kind.key(), name).await
}

/// The directory of a package.
pub(super) fn directory(context: &CommandContext, name: &str) -> PathBuf {
    context.home().join("packages").join(name)
}

/// A package name with every other character replaced; `None` if nothing is left.
pub(super) fn clean_name(name: &str) -> Option<String> {
    let replaced = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '-' };
    let name: String = name.chars().map(replaced).collect();
    let name = name.trim_matches('-');
    (!name.is_empty()).then(|| name.to_owned())
}

/// A tool's document: in the user's tools, the daemon's user's tools, by its name in frontmatter, or installed.
pub(super) async fn tool(context: &CommandContext, name: &str) -> Result<Option<Document>, CommandResult> {
    let tools = context.home().join("tools");
    let mut candidates = vec![tools.join(format!("{name}.md"))];
    candidates.extend(context.daemon_home().map(|home| home.join(format!(".string/tools/{name}.md"))));
    for path in candidates {
        if let Ok(text) = context.read(&path).await {
            return Ok(Some(load::parsed(text).await));
        }
    }
    let mut entries = context.list(&tools).await.unwrap_or_default().entries;
    entries.retain(|entry| !entry.is_dir && entry.name.ends_with(".md"));
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    for entry in entries {
        if let Ok(text) = context.read(&tools.join(&entry.name)).await {
            let document = load::parsed(text).await;
            if document.frontmatter().text("name").as_deref() == Some(name) {
                return Ok(Some(document));
            }
        }
    }
    match store::registered(context, PackageKind::Tool.key(), name).await {
        Some(address) => Ok(Some(load::parsed(load::text(context, &address).await?.text).await)),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_directory_of_packages() {
        let table = [
            ("../../etc", Some("etc")),
            ("a b/c", Some("a-b-c")),
            ("..", None),
            ("", None),
            ("-x-", Some("x")),
        ];
        for (name, expected) in table {
            assert_eq!(clean_name(name).as_deref(), expected, "{name}");
        }
    }
}
