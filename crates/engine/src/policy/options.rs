//! Finds commands among the options and arguments of tools such as `tar` or `npx`.

use super::analyze::{CommandAnalyzer, CommandKind};
use super::languages;
use super::sed;
use super::words::Word;
use super::wrappers::Wrapper;

/// Limit on the arguments of a wrapper that are tried as the start of a command, not counting options. The rest are
/// arguments of that command.
const MAX_SOMEWHERE: usize = 32;

impl CommandAnalyzer {
    /// Analyzes the commands that a tool runs, and returns its own kind. `words` are its arguments.
    pub(super) fn tool(&mut self, tool: Wrapper, words: &[Word]) -> CommandKind {
        match tool {
            Wrapper::Takes(options) => {
                self.option_commands(words, options);
                CommandKind::Plain
            }
            Wrapper::Somewhere => {
                self.option_commands(words, &["-c", "--call"]);
                self.somewhere(words);
                CommandKind::Plain
            }
            Wrapper::AfterVerb => {
                const VERBS: &[&str] = &["run", "exec", "x", "dlx", "do", "stat", "record", "--"];
                let verb =
                    words.iter().position(|word| word.literal().is_some_and(|text| VERBS.contains(&text)));
                self.option_commands(words, &["-c", "--call", "--command"]);
                self.somewhere(verb.and_then(|verb| words.get(verb + 1..)).unwrap_or_default());
                CommandKind::Plain
            }
            Wrapper::Git => self.git(words),
            Wrapper::Awk => opaque_if(languages::awk_may_run_code(words)),
            Wrapper::Sed => opaque_if(sed::may_run_code(words)),
            Wrapper::Interpreter if languages::may_run_code(words) => CommandKind::Code,
            Wrapper::Interpreter => CommandKind::Plain,
            Wrapper::OpaqueWords(marks) => {
                let marked = |word: &Word| marks.iter().any(|mark| is_marked(word, mark));
                let is_setting = |word: &Word| word.literal() == Some("-o");
                let hidden = words.windows(2).any(|two| is_setting(&two[0]) && two[1].literal().is_none());
                opaque_if(hidden || words.iter().any(marked))
            }
            Wrapper::OpaqueWith(marks) => {
                let marked = |text: &str| marks.iter().any(|mark| text.contains(mark));
                let opaque = words.iter().any(|word| word.literal().is_none_or(marked));
                opaque_if(opaque)
            }
            // The other wrappers are handled by the caller.
            _ => CommandKind::Opaque,
        }
    }

    /// A command that a program runs with additional arguments.
    pub(super) fn option_command(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let uses_shell = self.parsed.uses_shell;
        self.script(&format!("{text} \"$x\""));
        self.parsed.uses_shell = uses_shell;
    }

    /// Commands that are the values of these options.
    pub(super) fn option_commands(&mut self, words: &[Word], options: &[&str]) {
        for (at, word) in words.iter().enumerate() {
            let (text, all) = word.beginning();
            let begun =
                |option: &&str| text.len() > 1 && (option.starts_with(text) || text.starts_with(*option));
            if !all && options.iter().any(begun) {
                self.unseen("the value of an option is a command that is only known at run time");
            }
            let Some(value) = options.iter().find_map(|option| option_value(text, option, at == 0)) else {
                continue;
            };
            match (value, words.get(at + 1)) {
                // tar removes quotes itself before it starts a shell.
                (Some(value), _) if text.contains("=exec=") && is_quoted(value) => {
                    self.unseen("the command of a checkpoint has quotes");
                }
                (None, Some(Word::Literal(value))) if value.starts_with("exec=") && is_quoted(value) => {
                    self.unseen("the command of a checkpoint has quotes");
                }
                (Some(value), _) => self.option_command(value),
                (None, Some(Word::Literal(value))) => {
                    self.option_command(value.strip_prefix("exec=").unwrap_or(value));
                }
                (None, Some(Word::Dynamic(_))) => {
                    self.unseen(format!("the command for {text} is only known at run time"))
                }
                (None, None) => {}
            }
        }
    }

    /// Every argument that is not an option may be the program of a command.
    fn somewhere(&mut self, words: &[Word]) {
        if self.trying {
            return;
        }
        let outer = std::mem::replace(&mut self.perhaps, true);
        self.trying = true;
        let is_option = |text: &str| text.starts_with('-') || text.contains('=');
        let starts = words.iter().enumerate().filter(|(_, word)| !word.literal().is_some_and(is_option));
        for (count, (at, word)) in starts.take(MAX_SOMEWHERE).enumerate() {
            match word.literal() {
                Some(_) => self.inner(words.get(at..).unwrap_or_default().to_vec()),
                None if count < 2 => self.unseen("the command to run is only known at run time"),
                None => {}
            }
        }
        (self.perhaps, self.trying) = (outer, false);
    }
}

fn is_quoted(text: &str) -> bool {
    text.contains(['\'', '"', '\\'])
}

fn opaque_if(is_opaque: bool) -> CommandKind {
    if is_opaque { CommandKind::Opaque } else { CommandKind::Plain }
}

/// Whether a word contains a mark in upper or lower case, or is the beginning of one with an unknown rest. If the mark is
/// an option, abbreviations and clusters of short options match too.
pub(super) fn is_marked(word: &Word, mark: &str) -> bool {
    let (text, all) = word.beginning();
    let lower = text.to_ascii_lowercase();
    let begun = !all && !text.is_empty() && mark.starts_with(&*lower);
    let long = || {
        let name = text.split('=').next().unwrap_or(text);
        name.len() > 2 && name.starts_with("--") && mark.starts_with(name)
    };
    let cluster = || match (mark.strip_prefix('-'), text.strip_prefix('-')) {
        (Some(letter), Some(cluster)) => {
            letter.len() == 1 && !cluster.starts_with('-') && cluster.contains(letter)
        }
        _ => false,
    };
    let is_letter = mark.len() == 2 && mark.starts_with('-');
    let holds = || text.contains(mark) || lower.contains(mark);
    begun || cluster() || (!is_letter && (holds() || long()))
}

/// The value that a word gives to an option: attached, or (`Some(None)`) the next word. Long options may be abbreviated
/// and joined with `=`. Short ones may be in a cluster, which needs no dash in the first word of some programs.
fn option_value<'w>(text: &'w str, option: &str, first: bool) -> Option<Option<&'w str>> {
    if option.starts_with("--") || option.len() > 2 {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let shortened = name.len() > 2 && option.starts_with(name);
        return (name == option || shortened)
            .then_some(value.map(|value| value.strip_prefix("exec=").unwrap_or(value)));
    }
    let letter = option.strip_prefix('-')?;
    let cluster = match text.strip_prefix('-') {
        Some(cluster) if !cluster.starts_with('-') => cluster,
        None if first && text.bytes().all(|byte| byte.is_ascii_alphabetic()) => {
            return text.contains(letter).then_some(None);
        }
        _ => return None,
    };
    let (_, value) = cluster.split_once(letter)?;
    Some((!value.is_empty()).then_some(value))
}
