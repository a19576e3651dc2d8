//! Finds all commands that a command line may run: its simple commands and those inside wrappers such as `env`.

use super::languages::is_stream;
use super::words::{Assignment, SimpleCommand, Word, base_name};
use super::wrappers::{self, WrappedCommand, Wrapper, WrapperOptions};
use super::{CommandLine, shell};

/// Limit on the analysis of one command line, in bytes of text; a word counts as [`WORD_COST`]. Beyond it the line cannot
/// be analyzed: nested text may have to be read many times.
const MAX_WORK: usize = 8 * 1024 * 1024;
const WORD_COST: usize = 16;
/// Limit on nested wrappers.
const MAX_DEPTH: usize = 32;

/// Long options of shells, which are also accepted after a single dash.
#[rustfmt::skip]
const LONG_SHELL_OPTIONS: &[&str] = &[
    "norc", "noprofile", "posix", "login", "restricted", "verbose", "noediting", "debugger",
    "dump-strings", "rcfile", "init-file", "wordexp", "dump-po-strings", "noline-editing",
];

/// Commands that a command line may run.
#[derive(Debug, Default)]
pub(super) struct ParsedCommands {
    /// All commands found, outer ones first.
    pub(super) commands: Vec<ParsedCommand>,
    /// Why other commands may run too, if they may.
    pub(super) unseen: Option<String>,
    /// Whether a shell interprets a part of it.
    pub(super) uses_shell: bool,
    /// Variables that are set and not known to be harmless: they may change which program a name refers to, or what a
    /// program runs.
    pub(super) variables: Vec<String>,
    /// Whether a command may run in another directory than the line starts in.
    pub(super) moves: bool,
}

/// A command that may run.
#[derive(Debug)]
pub(super) struct ParsedCommand {
    /// The program, which is always known, then its arguments.
    pub(super) words: Vec<Word>,
    /// Whether its output is redirected to a file.
    pub(super) writes: bool,
    /// How it uses its arguments.
    pub(super) kind: CommandKind,
    /// Index of the `sudo` command that runs it.
    pub(super) under_sudo: Option<usize>,
}

/// How a command uses its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandKind {
    /// Runs no other command as far as known.
    Plain,
    /// Runs another command, which was found and is evaluated separately.
    Passes,
    /// Runs another command with other privileges; its words start at this index.
    Sudo(usize),
    /// May run any command: only a rule that names the program can allow it.
    Opaque,
    /// May run code that is not analyzed. If the default allows, it is evaluated by name and arguments; otherwise only a
    /// rule that names the program can allow it.
    Code,
    /// May be a command among the arguments of another: rules can refuse it, and none has to allow it.
    Perhaps,
}

impl ParsedCommand {
    /// Name of the program as in the command line.
    pub(super) fn program(&self) -> &str {
        self.words.first().and_then(Word::literal).unwrap_or_default()
    }

    /// The command as text for messages, cut to 80 characters.
    pub(super) fn text(&self) -> String {
        let words: Vec<&str> = self.words.iter().take(6).map(|word| word.literal().unwrap_or("…")).collect();
        words.join(" ").chars().take(80).collect()
    }
}

/// Finds the commands that a command line may run.
pub(super) fn analyze(line: &CommandLine<'_>, env: &[(String, Option<String>)]) -> ParsedCommands {
    let mut analyzer = CommandAnalyzer {
        parsed: ParsedCommands::default(),
        depth: 0,
        under_sudo: None,
        perhaps: false,
        trying: false,
        work: MAX_WORK,
    };
    for (name, value) in env {
        analyzer.assigned(&Assignment::exported(name, Some(value.clone().unwrap_or_default())));
    }
    match line {
        CommandLine::Argv(argv) => {
            let words: Vec<Word> = argv.iter().map(|word| Word::Literal(word.clone())).collect();
            analyzer.command(SimpleCommand { words, writes: false });
        }
        CommandLine::Shell { line, .. } => analyzer.script(line),
    }
    analyzer.parsed
}

/// State of the analysis of one command line.
pub(super) struct CommandAnalyzer {
    pub(super) parsed: ParsedCommands,
    depth: usize,
    under_sudo: Option<usize>,
    /// Whether commands found now are [`CommandKind::Perhaps`].
    pub(super) perhaps: bool,
    /// Whether each argument is already tried as the start of a command.
    pub(super) trying: bool,
    /// Remaining part of [`MAX_WORK`].
    work: usize,
}

impl CommandAnalyzer {
    pub(super) fn unseen(&mut self, why: impl Into<String>) {
        self.parsed.unseen.get_or_insert_with(|| why.into());
    }

    pub(super) fn script(&mut self, text: &str) {
        self.parsed.uses_shell = true;
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
                script.assigned.iter().for_each(|assignment| self.assigned(assignment));
                if script.has_arithmetic {
                    self.changes("a variable, through arithmetic");
                }
                script.commands.into_iter().for_each(|simple| self.command(simple));
                self.depth -= 1;
            }
            Err(shell::Unparsable(why)) => {
                self.unseen(format!("the shell text cannot be parsed with certainty: {why}"))
            }
        }
        self.trying = trying;
    }

    /// Subtracts from the remaining work; returns false if there is not enough.
    fn spend(&mut self, work: usize) -> bool {
        match self.work.checked_sub(work) {
            Some(left) => {
                self.work = left;
                true
            }
            None => {
                self.work = 0;
                self.unseen("it is too long to be analyzed");
                false
            }
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
            return self.unseen("the name of a program is only known at run time");
        };
        let wrapper = wrappers::find(base_name(program));
        let has_options =
            simple.words.iter().any(|word| word.literal().is_none_or(|text| text.starts_with('-')));
        self.parsed.moves |= wrappers::moves(base_name(program), has_options);
        let at = self.parsed.commands.len();
        let SimpleCommand { words, writes } = simple;
        let under_sudo = self.under_sudo;
        let perhaps = self.perhaps;
        let kind = if perhaps { CommandKind::Perhaps } else { CommandKind::Plain };
        self.parsed.commands.push(ParsedCommand { words: words.clone(), writes, kind, under_sudo });
        let Some(wrapper) = wrapper else { return };
        self.depth += 1;
        let kind = self.analyze_wrapper(wrapper, &words, at);
        self.depth -= 1;
        self.parsed.commands[at].kind =
            if perhaps && kind == CommandKind::Plain { CommandKind::Perhaps } else { kind };
        self.under_sudo = under_sudo;
    }

    /// Analyzes the command that a wrapper runs, and returns the kind of the wrapper itself.
    fn analyze_wrapper(&mut self, wrapper: Wrapper, words: &[Word], at: usize) -> CommandKind {
        match wrapper {
            Wrapper::Pass(options) => match self.wrapped_start(options, words) {
                Some(start) => {
                    self.inner(words[start..].to_vec());
                    CommandKind::Passes
                }
                None => CommandKind::Plain,
            },
            Wrapper::Sudo(options) => match self.wrapped_start(options, words) {
                Some(start) => {
                    self.under_sudo = Some(at);
                    self.inner(words[start..].to_vec());
                    CommandKind::Sudo(start)
                }
                None => CommandKind::Plain,
            },
            Wrapper::Xargs(options) => match self.wrapped_start(options, words) {
                Some(start) => {
                    self.inner(with_unknown_words(&words[..start], &words[start..]));
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
                self.declare(words);
                CommandKind::Plain
            }
            Wrapper::Assigns => {
                self.assigning_builtin(words);
                CommandKind::Plain
            }
            Wrapper::Test => {
                self.test(words);
                CommandKind::Plain
            }
            Wrapper::Flock(options) => self.flock(options, words),
            Wrapper::Opaque => CommandKind::Opaque,
            tool => self.tool(tool, &words[1..]),
        }
    }

    /// `flock FILE command…`, or `flock FILE -c text`.
    fn flock(&mut self, options: &WrapperOptions, words: &[Word]) -> CommandKind {
        let Some(start) = self.wrapped_start(options, words) else { return CommandKind::Plain };
        match (words[start].literal(), words.get(start + 1)) {
            (Some("-c" | "--command"), Some(Word::Literal(text))) => self.script(text),
            (Some("-c" | "--command"), _) => self.unseen("the text of a shell is only known at run time"),
            _ => self.inner(words[start..].to_vec()),
        }
        CommandKind::Passes
    }

    /// Index of the first word of the wrapped command, if there is one.
    fn wrapped_start(&mut self, options: &WrapperOptions, words: &[Word]) -> Option<usize> {
        match options.inner(words) {
            WrappedCommand::At(start, assigned) => {
                for (name, value) in assigned {
                    self.assigned(&Assignment::exported(name, Some(value)));
                }
                Some(start)
            }
            WrappedCommand::Nothing => None,
            WrappedCommand::Unclear => {
                let name = words.first().and_then(Word::literal).unwrap_or_default();
                self.unseen(format!("the options of {name} are not recognised"));
                None
            }
        }
    }

    pub(super) fn inner(&mut self, words: Vec<Word>) {
        self.command(SimpleCommand { words, writes: false });
    }

    /// A shell: the text of `-c` is analyzed, a script file is not, and standard input may hold any command.
    fn shell(&mut self, words: &[Word]) -> CommandKind {
        let mut at = 1;
        let mut takes_text = false;
        while let Some(word) = words.get(at) {
            let Some(text) = word.literal() else {
                self.parsed.uses_shell = true;
                self.unseen("the arguments of a shell are only known at run time");
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
            // Each `o` and `O` takes the name of an option from the next word.
            at += 1 + flags.matches(['o', 'O']).count();
        }
        let operand = words.get(at);
        if takes_text {
            self.parsed.uses_shell = true;
            match operand {
                Some(Word::Literal(text)) => self.script(text),
                Some(Word::Dynamic(_)) => self.unseen("the text of a shell is only known at run time"),
                None => return CommandKind::Opaque,
            }
            return CommandKind::Passes;
        }
        match operand {
            Some(Word::Literal(file)) if !is_stream(file) => CommandKind::Plain,
            _ => {
                self.parsed.uses_shell = true;
                CommandKind::Opaque
            }
        }
    }

    pub(super) fn joined(&mut self, words: &[Word]) {
        let texts: Option<Vec<&str>> = words.iter().map(Word::literal).collect();
        match texts {
            Some(texts) => self.script(texts.join(" ").trim_start_matches("-- ")),
            None => self.unseen("the text of eval is only known at run time"),
        }
    }

    fn trap(&mut self, words: &[Word]) {
        match words.iter().find(|word| word.literal() != Some("--")) {
            Some(Word::Literal(text)) if text == "-" || text.starts_with("-l") || text.starts_with("-p") => {}
            Some(Word::Literal(text)) => self.script(text),
            Some(Word::Dynamic(_)) => self.unseen("the text of trap is only known at run time"),
            None => {}
        }
    }

    /// Commands after `-exec`, `-execdir`, `-ok` and `-okdir`; `{}` becomes an unknown word.
    fn find(&mut self, words: &[Word]) {
        let mut rest = words;
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if !matches!(word.literal(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
                continue;
            }
            // Checked before the words are copied, which would be quadratic for a long list of `-exec`.
            if self.work == 0 {
                return;
            }
            self.parsed.moves |= matches!(word.literal(), Some("-execdir" | "-okdir"));
            let end =
                after.iter().position(|word| matches!(word.literal(), Some(";"))).unwrap_or(after.len());
            let inner = after[..end].iter().map(|word| match word.literal() {
                Some(text) if !text.contains("{}") => word.clone(),
                _ => Word::unknown(),
            });
            let inner = inner.collect();
            self.inner(inner);
            // A `+` may end the command earlier, so the rest is searched for another `-exec`.
        }
    }
}

/// The command of `xargs`, with unknown words in place of the replacement text and at the end.
fn with_unknown_words(options: &[Word], inner: &[Word]) -> Vec<Word> {
    let texts: Vec<&str> = options.iter().filter_map(Word::literal).collect();
    let placeholder = texts.iter().enumerate().skip(1).find_map(|(at, text)| {
        if let Some(long) = text.strip_prefix("--replace") {
            return Some(long.strip_prefix('=').unwrap_or("{}"));
        }
        let (_, value) = text.strip_prefix('-')?.split_once(['I', 'i'])?;
        let next = texts.get(at + 1).copied().filter(|_| text.contains('I')).unwrap_or("{}");
        Some(if value.is_empty() { next } else { value })
    });
    let known = |word: &Word| match word.literal() {
        Some(text) if placeholder.is_some_and(|placeholder| text.contains(placeholder)) => Word::unknown(),
        _ => word.clone(),
    };
    let mut words: Vec<Word> = inner.iter().map(known).collect();
    words.push(Word::unknown());
    words
}
