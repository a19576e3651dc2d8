//! Finds the variables that a command line sets.

use super::analyze::CommandAnalyzer;
use super::variables::{self, VariableEffect};
use super::words::{Assignment, Word};

impl CommandAnalyzer {
    /// Adds a variable that is not known to be harmless.
    pub(super) fn changes(&mut self, name: &str) {
        if !self.parsed.variables.iter().any(|known| known == name) {
            self.parsed.variables.push(name.to_owned());
        }
    }

    pub(super) fn assigned(&mut self, assignment: &Assignment) {
        let (name, value) = (assignment.name.as_str(), assignment.value.as_deref());
        match (variables::effect(name, value), value) {
            (VariableEffect::None, _) => {}
            (VariableEffect::Code, _) => self.unseen(format!("{name} is set, and its value is run as code")),
            (VariableEffect::Command, Some(value)) => self.option_command(value),
            (VariableEffect::Command, None) => {
                self.unseen(format!("{name} is set to a command that is only known at run time"))
            }
            (VariableEffect::Lookup, _) => {}
        }
        if !variables::is_harmless(assignment) {
            self.changes(name);
        }
    }

    /// `export`, `declare` and the like. The options `-i` and `-n` evaluate the value as arithmetic or as a name.
    pub(super) fn declare(&mut self, words: &[Word]) {
        let options =
            || words[1..].iter().filter_map(Word::literal).filter(|text| text.starts_with(['-', '+']));
        let is_exported = matches!(words[0].literal(), Some("export"))
            || options().any(|text| text.starts_with('-') && text.contains('x'));
        if options().any(|text| text.contains(['i', 'n'])) {
            self.changes("a variable, through its declaration");
        }
        for word in &words[1..] {
            match word.literal() {
                Some(text) if text.starts_with(['-', '+']) => {}
                Some(text) if text.contains('[') => self.changes("a variable, through an index"),
                Some(text) => {
                    let (name, value) = text.split_once('=').unwrap_or((text, ""));
                    let (name, value) = (name.trim_end_matches('+').to_owned(), Some(value.to_owned()));
                    self.assigned(&Assignment { name, value, is_exported });
                }
                // `export "$X"` may set any variable.
                None => self.changes("a variable that is only known at run time"),
            }
        }
    }

    /// Builtins that set the variables named in their arguments. Every name in an argument counts.
    pub(super) fn assigning_builtin(&mut self, words: &[Word]) {
        let program = words[0].literal().unwrap_or_default();
        let arguments = &words[1..];
        let has = |option: &str| arguments.iter().any(|word| word.beginning().0.starts_with(option));
        if matches!(program, "mapfile" | "readarray") && has("-C") {
            self.unseen(format!("{program} runs its callback"));
        }
        let counts = match program {
            "printf" => has("-v"),
            "wait" => has("-p"),
            // `set -a` exports every variable that is set later.
            "set" => {
                let is_all =
                    |text: &str| text == "allexport" || (text.starts_with('-') && text[1..].contains('a'));
                let options = arguments.iter().take_while(|word| word.literal() != Some("--"));
                if options
                    .clone()
                    .any(|word| word.literal().is_none_or(|text| is_all(text) && !text.starts_with("--")))
                {
                    self.changes("every variable, through set -a");
                }
                false
            }
            _ => true,
        };
        if !counts {
            return;
        }
        for word in arguments {
            let Some(text) = word.literal() else {
                self.changes("a variable that is only known at run time");
                continue;
            };
            if text.contains('[') || program == "let" {
                self.changes("a variable, through arithmetic");
            }
            // `-vNAME` and `-aNAME` attach the name to the option.
            let text = if text.starts_with('-') { text.get(2..).unwrap_or_default() } else { text };
            for name in
                text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|name| !name.is_empty())
            {
                self.assigned(&Assignment::in_shell(name));
            }
        }
    }

    /// `[[`, `[` and `test`: `-v` and `-R` evaluate an index, and the numeric operators of `[[` arithmetic.
    pub(super) fn test(&mut self, words: &[Word]) {
        const NUMERIC: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge"];
        let evaluates = words[0].literal() == Some("[[");
        let is_number =
            |text: &str| text.trim_start_matches(['-', '+']).bytes().all(|byte| byte.is_ascii_digit());
        for (at, word) in words.iter().enumerate().skip(1) {
            let Some(operator) = word.literal() else { continue };
            let operands = match operator {
                _ if NUMERIC.contains(&operator) => [words.get(at - 1), words.get(at + 1)],
                "-v" | "-R" => [None, words.get(at + 1)],
                _ => continue,
            };
            let is_plain = |operand: &Word| match operand.literal() {
                Some(text) if operator.len() == 2 => !text.contains('['),
                Some(text) => is_number(text),
                None => operator.len() == 3 && !evaluates,
            };
            if !operands.into_iter().flatten().all(is_plain) {
                self.changes("a variable, through arithmetic");
            }
        }
    }
}
