//! Prints the demonstration: headings, commands and their output.

use std::io::IsTerminal as _;

use anstyle::{AnsiColor, Style};

use crate::failure::Failure;
use crate::output;

const HEADING: Style = Style::new().bold();
const COMMAND: Style = AnsiColor::Cyan.on_default();
const FAINT: Style = Style::new().dimmed();

/// The output of the demonstration, coloured only on a terminal.
#[derive(Debug)]
pub(super) struct Screen {
    has_colours: bool,
}

impl Screen {
    pub(super) fn new() -> Screen {
        let wants_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Screen { has_colours: std::io::stdout().is_terminal() && !wants_none }
    }

    /// Prints the heading of a step.
    pub(super) fn heading(&self, text: &str) -> Result<(), Failure> {
        output::line("")?;
        self.styled(HEADING, text)
    }

    /// Prints a command as the user would type it.
    pub(super) fn command(&self, line: &str) -> Result<(), Failure> {
        self.styled(COMMAND, &format!("  $ {line}"))
    }

    /// Prints the output of a program.
    pub(super) fn wrote(&self, text: &str) -> Result<(), Failure> {
        text.lines().try_for_each(|line| output::line(format_args!("    {line}")))
    }

    /// Prints a comment between the commands.
    pub(super) fn say(&self, text: &str) -> Result<(), Failure> {
        self.styled(FAINT, &format!("  {text}"))
    }

    /// Prints a prompt without a line end.
    pub(super) fn prompt(&self, text: &str) -> Result<(), Failure> {
        output::print(&format!("\n{text}"))
    }

    fn styled(&self, style: Style, text: &str) -> Result<(), Failure> {
        let style = if self.has_colours { style } else { Style::new() };
        output::styled_line(style, text)
    }
}
