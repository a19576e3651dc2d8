//! Paths on a target as a user in its working directory would write them, coloured on a terminal.

use std::io::IsTerminal as _;

use anstyle::{AnsiColor, Style};

use crate::app::App;
use crate::output;

const PATH: Style = AnsiColor::Magenta.on_default();

/// Shortens the paths of results.
#[derive(Debug)]
pub(crate) struct RelativePaths {
    directory: Option<String>,
    style: Style,
}

impl RelativePaths {
    /// Relative to the directory in which commands start: that of the target, or the first root of the session.
    pub(crate) fn new(app: &App, session: &client::Session) -> RelativePaths {
        let first = || session.open_result().workspace_roots.first().cloned();
        let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let style = match std::io::stdout().is_terminal() && !wants_none {
            true => PATH,
            false => Style::new(),
        };
        RelativePaths { directory: app.choice.cwd.clone().or_else(first), style }
    }

    /// The path for a line of output, escaped on a terminal. A path elsewhere stays absolute.
    pub(crate) fn show(&self, path: &str) -> String {
        let style = self.style;
        format!("{style}{}{style:#}", output::name(self.relative(path)))
    }

    fn relative<'a>(&self, path: &'a str) -> &'a str {
        let directory = self.directory.as_deref().map(|directory| directory.trim_end_matches('/'));
        let below = directory.and_then(|directory| path.strip_prefix(directory)?.strip_prefix('/'));
        below.filter(|below| !below.is_empty()).unwrap_or(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_the_directory_is_relative_and_another_is_not() {
        let paths =
            |directory: &str| RelativePaths { directory: Some(directory.to_owned()), style: Style::new() };
        for (directory, path, shown) in [
            ("/srv/app", "/srv/app/src/x", "src/x"),
            ("/srv/app/", "/srv/app/x", "x"),
            ("/srv/app", "/srv/apple/x", "/srv/apple/x"),
            ("/srv/app", "/srv/app", "/srv/app"),
            ("/", "/etc/x", "etc/x"),
        ] {
            assert_eq!(paths(directory).show(path), shown, "{path}");
        }
    }
}
