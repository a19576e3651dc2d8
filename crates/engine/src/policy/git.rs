//! Commands that `git` runs because of its settings, options and subcommands.

use super::analyze::{CommandAnalyzer, CommandKind};
use super::options::is_marked;
use super::words::Word;

/// Settings that run nothing, by prefix. Every other setting may run a command.
const HARMLESS_SETTINGS: &[&str] = &[
    "user.",
    "color.",
    "advice.",
    "init.defaultbranch",
    "core.quotepath",
    "core.autocrlf",
    "safe.directory",
];

/// Words after a subcommand that may make it run a command; without words, the subcommand always may.
const MAY_RUN: &[(&str, &[&str])] = &[
    ("filter-branch", &[]),
    ("remote-ext", &[]),
    ("send-email", &[]),
    ("instaweb", &[]),
    ("shell", &[]),
    ("difftool", &[]),
    ("mergetool", &[]),
    ("gui", &[]),
    ("hook", &[]),
    ("bisect", &["run"]),
    ("submodule", &["foreach", "-c", "--config", "--template"]),
    ("clone", &["-u", "--upload-pack", "-c", "--config", "--template"]),
    ("init", &["-c", "--config", "--template"]),
    ("fetch", &["--upload-pack"]),
    ("pull", &["--upload-pack"]),
    ("push", &["--receive-pack", "--exec"]),
    ("ls-remote", &["--upload-pack", "--exec"]),
    ("archive", &["--exec"]),
    ("fetch-pack", &["--upload-pack", "--exec"]),
    ("send-pack", &["--receive-pack", "--exec"]),
    ("grep", &["-O", "--open-files-in-pager"]),
];

impl CommandAnalyzer {
    /// Looks for commands that git runs. `words` are its arguments.
    pub(super) fn git(&mut self, words: &[Word]) -> CommandKind {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let Some(text) = word.literal() else {
                self.unseen("the options of git are only known at run time");
                break;
            };
            match text {
                "-c" => {
                    self.git_setting(words.get(at + 1));
                    at += 2;
                }
                "-C" | "--git-dir" | "--work-tree" | "--namespace" | "--super-prefix" => at += 2,
                _ if text.starts_with("--config-env") || text.starts_with("--exec-path=") => {
                    self.unseen("an option of git may run a command");
                    break;
                }
                _ if text.starts_with('-') => at += 1,
                subcommand => {
                    self.git_subcommand(subcommand, words.get(at + 1..).unwrap_or_default());
                    break;
                }
            }
        }
        CommandKind::Plain
    }

    fn git_subcommand(&mut self, subcommand: &str, words: &[Word]) {
        let is_among =
            |marks: &[&str]| words.iter().any(|word| marks.iter().any(|mark| is_marked(word, mark)));
        let may_run =
            |(name, marks): &(&str, &[&str])| *name == subcommand && (marks.is_empty() || is_among(marks));
        let is_remote_helper = |word: &Word| word.literal().is_some_and(|text| text.starts_with("ext::"));
        if MAY_RUN.iter().any(may_run) || words.iter().any(is_remote_helper) {
            self.unseen(format!("`git {subcommand}` may run a command"));
        }
        match subcommand {
            "rebase" => self.option_commands(words, &["-x", "--exec"]),
            "config" => self.git_config(words),
            _ => {}
        }
    }

    /// `git config`: reading runs nothing; writing may, except for one of the harmless settings.
    fn git_config(&mut self, words: &[Word]) {
        const READS: &[&str] =
            &["--get", "--list", "-l", "--unset", "--remove-section", "get", "list", "unset"];
        const SCOPES: &[&str] = &["--global", "--local", "--system", "--worktree", "--add", "set"];
        let reads = |text: &str| READS.iter().any(|read| text.starts_with(read));
        let is_scope = |word: &&Word| word.literal().is_some_and(|text| SCOPES.contains(&text));
        let mut operands = words.iter().filter(|word| !is_scope(word));
        let key = operands.next().and_then(Word::literal);
        let writes = operands.next().is_some();
        let is_read = words.iter().filter_map(Word::literal).any(reads);
        if writes && !is_read && !key.is_some_and(is_harmless_setting) {
            self.unseen("a setting of git may run a command");
        }
    }

    fn git_setting(&mut self, word: Option<&Word>) {
        let is_harmless = word.and_then(Word::literal).is_some_and(|setting| {
            let (key, value) = setting.split_once('=').unwrap_or((setting, "true"));
            let is_plain = matches!(value, "" | "cat" | "true" | "false" | ":" | "less");
            is_harmless_setting(key) || (is_plain && !key.to_ascii_lowercase().starts_with("alias."))
        });
        if !is_harmless {
            self.unseen("a setting of git may run a command");
        }
    }
}

fn is_harmless_setting(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    HARMLESS_SETTINGS.iter().any(|harmless| key.starts_with(harmless))
}
