//! Screen: where the conversation is shown, in colours if it is a terminal.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Result;
use serde_json::Value;

/// Where nobody says how wide the terminal is.
const USUAL_WIDTH: usize = 110;
/// What stands for the long name of the workspace on the screen.
pub(crate) const WORKSPACE: &str = "WORKSPACE";
/// Members that are the same in every line, or that only a program wants to know.
const NOT_SHOWN: &[&str] =
    &["session_id", "event_id", "cursor", "seq", "capabilities", "limits", "before", "after"];

/// Where the conversation is shown.
pub(crate) struct Screen {
    colours: bool,
    width: usize,
    pub(crate) workspace: String,
}

const BOLD: &str = "1";
const SENT: &str = "36";
const DONE: &str = "32";
const FAILED: &str = "33";
const QUIET: &str = "2";

impl Screen {
    pub(crate) fn open() -> Screen {
        let objected = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_terminal = io::stdout().is_terminal();
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col >= 40);
        let width = size.map_or(USUAL_WIDTH, |size| usize::from(size.ws_col));
        Screen { colours: is_terminal && !objected, width, workspace: String::new() }
    }

    pub(crate) fn sent(&mut self, method: &str, params: &Value) -> Result<()> {
        self.line(SENT, &format!("  → {method} {}", shortened(params)))
    }

    pub(crate) fn received(&mut self, line: &Value) -> Result<()> {
        if let Some(method) = line["method"].as_str() {
            return self.line(QUIET, &format!("  ← {method} {}", shortened(&line["params"])));
        }
        match line.get("error") {
            Some(error) => self.line(FAILED, &format!("  ← error {error}")),
            None => self.line(DONE, &format!("  ← {}", shortened(&line["result"]))),
        }
    }

    pub(crate) fn heading(&mut self, text: &str) -> Result<()> {
        self.whole("")?;
        self.line(BOLD, text)
    }

    pub(crate) fn note(&mut self, text: &str) -> Result<()> {
        self.line(DONE, &format!("  {text}"))
    }

    pub(crate) fn plain(&mut self, text: &str) -> Result<()> {
        self.line("", text)
    }

    /// A line as it is, because it is there to be copied.
    pub(crate) fn whole(&mut self, text: &str) -> Result<()> {
        Ok(writeln!(io::stdout(), "{text}")?)
    }

    /// A line, no wider than the terminal.
    fn line(&mut self, colour: &str, text: &str) -> Result<()> {
        let mut shown = text.to_owned();
        if !self.workspace.is_empty() {
            shown = shown.replace(&self.workspace, WORKSPACE);
        }
        if shown.chars().count() > self.width {
            shown = shown.chars().take(self.width - 1).chain(['…']).collect();
        }
        match self.colours && !colour.is_empty() {
            true => writeln!(io::stdout(), "\x1b[{colour}m{shown}\x1b[0m")?,
            false => writeln!(io::stdout(), "{shown}")?,
        }
        Ok(())
    }
}

/// What differs from line to line.
fn shortened(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let shown = members
                .iter()
                .filter(|(name, value)| !NOT_SHOWN.contains(&name.as_str()) && !value.is_null());
            Value::Object(shown.map(|(name, value)| (name.clone(), shortened(value))).collect())
        }
        Value::Array(items) => items.iter().map(shortened).collect(),
        other => other.clone(),
    }
}
