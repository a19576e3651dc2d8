//! Index of command rules: finds the few rules that can match a command.

use std::collections::HashMap;

use super::rule::{Matcher, Rule};
use super::words::{Word, base_name};

/// Command rules by a word that all their commands have.
#[derive(Debug, Clone, Default)]
pub(super) struct CommandIndex {
    /// Rules that name one program, by its base name.
    by_program: HashMap<String, Vec<usize>>,
    /// Rules on any program whose first argument has no wildcards, by that argument.
    by_argument: HashMap<String, Vec<usize>>,
    /// Rules that may match any command.
    rest: Vec<usize>,
}

impl CommandIndex {
    /// Adds a rule on commands.
    pub(super) fn add(&mut self, rule: &Rule, at: usize) {
        let first = match &rule.matcher {
            Matcher::Argv(pattern) => pattern.first_argument(),
            Matcher::Class(_) | Matcher::Paths { .. } => None,
        };
        match (rule.program_name(), first) {
            (Some(name), _) => self.by_program.entry(name.to_owned()).or_default().push(at),
            (None, Some(first)) => self.by_argument.entry(first.to_owned()).or_default().push(at),
            (None, None) => self.rest.push(at),
        }
    }

    /// Rules that could match a command, in order. Options before the first argument may be left out when a rule is matched,
    /// so that every word may be the first argument; a word that is not known may be any.
    pub(super) fn candidates(&self, program: &str, arguments: &[Word]) -> Vec<usize> {
        let mut found = self.rest.clone();
        found.extend(self.by_program.get(base_name(program)).into_iter().flatten());
        if arguments.iter().any(|word| word.literal().is_none()) {
            found.extend(self.by_argument.values().flatten());
        } else if !self.by_argument.is_empty() {
            let words = arguments.iter().filter_map(Word::literal);
            found.extend(words.filter_map(|word| self.by_argument.get(word)).flatten());
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::tests::{policy, rule, shell};
    use super::*;

    #[test]
    fn rules_on_any_program_are_found_by_their_first_argument() {
        let rules = (0..1_000).map(|n| rule(Verdict::Deny, &["*", &format!("--flag{n}"), "*"])).collect();
        let many = policy(Verdict::Allow, rules);
        let words =
            |texts: &[&str]| texts.iter().map(|text| Word::Literal((*text).to_owned())).collect::<Vec<_>>();
        assert_eq!(many.candidates("cargo", &words(&["test", "--workspace"])).count(), 0);
        assert_eq!(many.candidates("cargo", &words(&["-v", "--flag7", "--flag7"])).count(), 1);
        assert_eq!(many.candidates("cargo", &[Word::unknown()]).count(), 1_000);
        for (line, expected) in [
            ("cargo --flag7", Verdict::Deny),
            ("cargo -v --flag7 x", Verdict::Deny),
            ("cargo \"$ANY\"", Verdict::Deny),
            ("cargo test --flag7", Verdict::Allow),
            ("cargo --flag1000", Verdict::Allow),
        ] {
            assert_eq!(shell(&many, line), expected, "{line}");
        }
    }
}
