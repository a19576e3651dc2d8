//! Everything a command line may run, as far as it can be seen: its simple commands, and those inside wrappers.

use super::languages::is_stream;
use super::variables::{self, VariableEffect};
use super::words::{SimpleCommand, Word, base_name};
use super::wrappers::{self, WrappedCommand, Wrapper, WrapperOptions};
use super::{CommandLine, shell};

/// How much may be looked at for one decision, in bytes of text; a word counts as [`WORD_COST`]. Past it the line counts
/// as not seen: tricks that make the same text be looked at again and again end there.
const MAX_WORK: usize = 8 * 1024 * 1024;
const WORD_COST: usize = 16;
/// How often a wrapper may wrap a wrapper.
const MAX_DEPTH: usize = 32;

/// Options of shells that are one word also after a single dash.
#[rustfmt::skip]
const LONG_SHELL_OPTIONS: &[&str] = &[
    "norc", "noprofile", "posix", "login", "restricted", "verbose", "noediting", "debugger",
    "dump-strings", "rcfile", "init-file", "wordexp", "dump-po-strings", "noline-editing",
];

/// What a command line may run.
#[derive(Debug, Default)]
pub(super) struct ParsedCommands {
    /// Every command found, outer ones first.
    pub(super) commands: Vec<ParsedCommand>,
    /// Why something may run that was not found, if so.
    pub(super) unseen: Option<String>,
    /// Whether a shell interprets any of it.
    pub(super) uses_shell: bool,
    /// A variable that is changed and makes names mean other programs.
    pub(super) lookup_changed: Option<String>,
    /// Whether a command may run in another directory than the first one.
    pub(super) moves: bool,
}

/// One command found.
#[derive(Debug)]
pub(super) struct ParsedCommand {
    /// The program, always known, then its arguments.
    pub(super) words: Vec<Word>,
    /// Whether a redirection lets it write to a file.
    pub(super) writes: bool,
    /// What it does with its arguments.
    pub(super) kind: CommandKind,
    /// The `sudo` it runs under: an index into the commands.
    pub(super) under_sudo: Option<usize>,
}

/// What a command does with its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandKind {
    /// Whatever the program does.
    Plain,
    /// Runs another command, which was found and is judged on its own.
    Passes,
    /// Runs another command with other rights; its words start here.
    Sudo(usize),
    /// May run anything: only a rule that names the program can allow it.
    Opaque,
    /// Is given code in a language that is not looked into: judged by its name and arguments where the default allows,
    /// and elsewhere only a rule that names the program can allow it.
    Code,
    /// Is perhaps a command among the arguments of another: a rule can refuse it, and none needs to allow it.
    Perhaps,
}

impl ParsedCommand {
    /// The program's name as it was written.
    pub(super) fn program(&self) -> &str {
        self.words.first().and_then(Word::literal).unwrap_or_default()
    }

    /// The command as text, for people.
    pub(super) fn text(&self) -> String {
        let words: Vec<&str> = self.words.iter().take(6).map(|word| word.literal().unwrap_or("…")).collect();
        words.join(" ").chars().take(80).collect()
    }
}

/// Finds what a command line may run.
pub(super) fn analyze(line: &CommandLine<'_>) -> ParsedCommands {
    let mut looker = CommandAnalyzer {
        seen: ParsedCommands::default(),
        depth: 0,
        under_sudo: None,
        perhaps: false,
        trying: false,
        work: MAX_WORK,
    };
    match line {
        CommandLine::Argv(argv) => {
            let words: Vec<Word> = argv.iter().map(|word| Word::Literal(word.clone())).collect();
            looker.command(SimpleCommand { words, writes: false });
        }
        CommandLine::Shell { line, .. } => looker.script(line),
    }
    looker.seen
}

/// Looks into a command line.
pub(super) struct CommandAnalyzer {
    pub(super) seen: ParsedCommands,
    depth: usize,
    under_sudo: Option<usize>,
    /// Whether what is found only perhaps runs.
    pub(super) perhaps: bool,
    /// Whether every end of the words at hand is being tried already.
    pub(super) trying: bool,
    /// What is left of [`MAX_WORK`].
    work: usize,
}

impl CommandAnalyzer {
    pub(super) fn unseen(&mut self, why: impl Into<String>) {
        self.seen.unseen.get_or_insert_with(|| why.into());
    }

    pub(super) fn script(&mut self, text: &str) {
        self.seen.uses_shell = true;
        if self.depth >= MAX_DEPTH {
            return self.unseen("it is nested too deeply");
        }
        if !self.spend(text.len()) {
            return;
        }
        let trying = std::mem::take(&mut self.trying);
        match shell::parse(text) {
            Ok(script) => {
                self.depth += 1;
                script.assigned.iter().for_each(|(name, value)| self.assigned(name, value.as_deref()));
                script.commands.into_iter().for_each(|simple| self.command(simple));
                self.depth -= 1;
            }
            Err(shell::Unparsable(why)) => {
                self.unseen(format!("the shell text cannot be split with certainty: {why}"))
            }
        }
        self.trying = trying;
    }

    /// Takes from what may be looked at; says whether there was enough.
    fn spend(&mut self, work: usize) -> bool {
        match self.work.checked_sub(work) {
            Some(left) => {
                self.work = left;
                true
            }
            None => {
                self.work = 0;
                self.unseen("it is too long to be looked into");
                false
            }
        }
    }

    fn assigned(&mut self, name: &str, value: Option<&str>) {
        match (variables::effect(name, value), value) {
            (VariableEffect::None, _) => {}
            (VariableEffect::Code, _) => self.unseen(format!("{name} is set, and what it holds is run")),
            (VariableEffect::Command, Some(value)) => self.option_command(value),
            (VariableEffect::Command, None) => {
                self.unseen(format!("{name} is set to a command only known when it runs"))
            }
            (VariableEffect::Lookup, _) => {}
        }
        if variables::effect(name, value) != VariableEffect::None {
            self.seen.lookup_changed.get_or_insert_with(|| name.to_owned());
        }
    }

    fn command(&mut self, simple: SimpleCommand) {
        if self.depth >= MAX_DEPTH {
            return self.unseen("it is nested too deeply");
        }
        if !self.spend(simple.words.len().saturating_mul(WORD_COST)) {
            return;
        }
        let Some(first) = simple.words.first() else { return };
        let Some(program) = first.literal() else {
            return self.unseen("the name of a program is only known when it runs");
        };
        let wrapper = wrappers::find(base_name(program));
        let has_options =
            simple.words.iter().any(|word| word.literal().is_none_or(|text| text.starts_with('-')));
        self.seen.moves |= wrappers::moves(base_name(program), has_options);
        let at = self.seen.commands.len();
        let SimpleCommand { words, writes } = simple;
        let under_sudo = self.under_sudo;
        let perhaps = self.perhaps;
        let kind = if perhaps { CommandKind::Perhaps } else { CommandKind::Plain };
        self.seen.commands.push(ParsedCommand { words: words.clone(), writes, kind, under_sudo });
        let Some(wrapper) = wrapper else { return };
        self.depth += 1;
        let kind = self.through(wrapper, &words, at);
        self.depth -= 1;
        self.seen.commands[at].kind =
            if perhaps && kind == CommandKind::Plain { CommandKind::Perhaps } else { kind };
        self.under_sudo = under_sudo;
    }

    /// Looks at what a wrapper runs, and says what kind of command the wrapper itself is.
    fn through(&mut self, wrapper: Wrapper, words: &[Word], at: usize) -> CommandKind {
        match wrapper {
            Wrapper::Pass(options) => match self.pass(options, words) {
                Some(start) => {
                    self.inner(words[start..].to_vec());
                    CommandKind::Passes
                }
                None => CommandKind::Plain,
            },
            Wrapper::Sudo(options) => match self.pass(options, words) {
                Some(start) => {
                    self.under_sudo = Some(at);
                    self.inner(words[start..].to_vec());
                    CommandKind::Sudo(start)
                }
                None => CommandKind::Plain,
            },
            Wrapper::Xargs(options) => match self.pass(options, words) {
                Some(start) => {
                    self.inner(replaced(&words[..start], &words[start..]));
                    CommandKind::Passes
                }
                None => CommandKind::Plain,
            },
            Wrapper::Shell => self.shell(words),
            Wrapper::Eval => {
                self.joined(&words[1..]);
                CommandKind::Passes
            }
            Wrapper::Trap => {
                self.trap(&words[1..]);
                CommandKind::Plain
            }
            Wrapper::Find => {
                self.find(&words[1..]);
                CommandKind::Plain
            }
            Wrapper::Source => match words.get(1).and_then(Word::literal) {
                Some(file) if !is_stream(file) => CommandKind::Plain,
                _ => CommandKind::Opaque,
            },
            Wrapper::Declare => {
                self.declare(&words[1..]);
                CommandKind::Plain
            }
            Wrapper::Opaque => CommandKind::Opaque,
            tool => self.tool(tool, &words[1..]),
        }
    }

    /// Where the command wrapped by these words begins, if there is one.
    fn pass(&mut self, options: &WrapperOptions, words: &[Word]) -> Option<usize> {
        match options.inner(words) {
            WrappedCommand::At(start, assigned) => {
                assigned.iter().for_each(|(name, value)| self.assigned(name, Some(value)));
                Some(start)
            }
            WrappedCommand::Nothing => None,
            WrappedCommand::Unclear => {
                let name = words.first().and_then(Word::literal).unwrap_or_default();
                self.unseen(format!("the options of {name} are not understood"));
                None
            }
        }
    }

    pub(super) fn inner(&mut self, words: Vec<Word>) {
        self.command(SimpleCommand { words, writes: false });
    }

    /// A shell: its `-c` text is looked into; a script file is that file's business; standard input is unseen.
    fn shell(&mut self, words: &[Word]) -> CommandKind {
        let mut at = 1;
        let mut takes_text = false;
        while let Some(word) = words.get(at) {
            let Some(text) = word.literal() else {
                self.seen.uses_shell = true;
                self.unseen("the arguments of a shell are only known when it runs");
                return CommandKind::Opaque;
            };
            if text == "--" || text == "-" {
                at += 1;
                break;
            }
            let Some(flags) = text.strip_prefix(['-', '+']) else { break };
            let long = flags.trim_start_matches('-');
            if flags.starts_with('-') || LONG_SHELL_OPTIONS.contains(&long) {
                at += if matches!(long, "rcfile" | "init-file") { 2 } else { 1 };
                continue;
            }
            takes_text |= text.starts_with('-') && flags.contains('c');
            // Each `o` and `O` takes the name of an option as the next word.
            at += 1 + flags.matches(['o', 'O']).count();
        }
        let operand = words.get(at);
        if takes_text {
            self.seen.uses_shell = true;
            match operand {
                Some(Word::Literal(text)) => self.script(text),
                Some(Word::Dynamic(_)) => self.unseen("the text of a shell is only known when it runs"),
                None => return CommandKind::Opaque,
            }
            return CommandKind::Passes;
        }
        match operand {
            Some(Word::Literal(file)) if !is_stream(file) => CommandKind::Plain,
            _ => {
                self.seen.uses_shell = true;
                CommandKind::Opaque
            }
        }
    }

    pub(super) fn joined(&mut self, words: &[Word]) {
        let texts: Option<Vec<&str>> = words.iter().map(Word::literal).collect();
        match texts {
            Some(texts) => self.script(texts.join(" ").trim_start_matches("-- ")),
            None => self.unseen("the text of eval is only known when it runs"),
        }
    }

    fn trap(&mut self, words: &[Word]) {
        match words.iter().find(|word| word.literal() != Some("--")) {
            Some(Word::Literal(text)) if text == "-" || text.starts_with("-l") || text.starts_with("-p") => {}
            Some(Word::Literal(text)) => self.script(text),
            Some(Word::Dynamic(_)) => self.unseen("the text of trap is only known when it runs"),
            None => {}
        }
    }

    /// Commands after `-exec` and its kin; `{}` becomes a name that is not known yet.
    fn find(&mut self, words: &[Word]) {
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if !matches!(word.literal(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
                continue;
            }
            // Checked before the words are copied, so that many of them end as soon as the work is spent.
            if self.work == 0 {
                return;
            }
            self.seen.moves |= matches!(word.literal(), Some("-execdir" | "-okdir"));
            let end =
                after.iter().position(|word| matches!(word.literal(), Some(";"))).unwrap_or(after.len());
            let inner = after[..end].iter().map(|word| match word.literal() {
                Some(text) if !text.contains("{}") => word.clone(),
                _ => Word::unknown(),
            });
            let inner = inner.collect();
            self.inner(inner);
            // A `+` may end it sooner, so what follows is looked at again for another `-exec`.
        }
    }

    fn declare(&mut self, words: &[Word]) {
        for word in words {
            let assigned = word.literal().map(|text| match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, Some("")),
            });
            match assigned {
                Some((name, value)) => self.assigned(name.trim_end_matches('+'), value),
                // `export "$X"` may set any variable.
                None => {
                    self.seen.lookup_changed.get_or_insert_with(|| "a variable".to_owned());
                }
            }
        }
    }
}

/// The command of `xargs`: words arrive where the replacement stands, or at the end.
fn replaced(options: &[Word], inner: &[Word]) -> Vec<Word> {
    let texts: Vec<&str> = options.iter().filter_map(Word::literal).collect();
    let mark = texts.iter().enumerate().skip(1).find_map(|(at, text)| {
        if let Some(long) = text.strip_prefix("--replace") {
            return Some(long.strip_prefix('=').unwrap_or("{}"));
        }
        let (_, value) = text.strip_prefix('-')?.split_once(['I', 'i'])?;
        let next = texts.get(at + 1).copied().filter(|_| text.contains('I')).unwrap_or("{}");
        Some(if value.is_empty() { next } else { value })
    });
    let known = |word: &Word| match word.literal() {
        Some(text) if mark.is_some_and(|mark| text.contains(mark)) => Word::unknown(),
        _ => word.clone(),
    };
    let mut words: Vec<Word> = inner.iter().map(known).collect();
    words.push(Word::unknown());
    words
}
