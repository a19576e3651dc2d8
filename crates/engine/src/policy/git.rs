//! Git: it runs what its settings and some of its options say.

use super::analyze::{CommandAnalyzer, CommandKind};
use super::words::Word;

/// Settings that run nothing, by how they begin. Of every other it is not known here.
#[rustfmt::skip]
const HARMLESS: &[&str] = &[
    "user.", "author.", "committer.", "color.", "advice.", "init.defaultbranch", "core.quotepath", "core.autocrlf",
    "core.eol", "core.filemode", "core.longpaths", "core.ignorecase", "core.symlinks", "core.abbrev",
    "core.compression", "core.bare", "commit.gpgsign", "tag.gpgsign", "push.", "pull.", "fetch.", "rebase.", "gc.",
    "merge.conflictstyle", "merge.ff", "branch.", "status.", "log.", "column.", "safe.directory", "http.sslverify",
    "http.postbuffer", "http.lowspeed", "http.version", "http.proxy", "http.extraheader", "diff.algorithm",
    "diff.renames", "diff.colormoved", "feature.", "index.", "pack.", "transfer.", "checkout.", "clone.",
    "submodule.recurse", "maintenance.auto", "protocol.version", "lfs.", "rerere.", "i18n.", "format.pretty",
];
/// Subcommands that run what is not among their words.
const OPAQUE: &[&str] = &[
    "filter-branch",
    "remote-ext",
    "send-email",
    "instaweb",
    "shell",
    "difftool",
    "mergetool",
    "gui",
    "hook",
];
/// Options of subcommands whose value is a command.
const TAKES: &[(&str, &[&str])] = &[
    ("rebase", &["-x", "--exec"]),
    ("clone", &["-u", "--upload-pack"]),
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
    /// Looks at what git is told to run. `words` are its arguments.
    pub(super) fn git(&mut self, words: &[Word]) -> CommandKind {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let Some(text) = word.literal() else {
                self.unseen("the options of git are only known when it runs");
                return CommandKind::Plain;
            };
            match text {
                "-c" => {
                    self.git_setting(words.get(at + 1));
                    at += 2;
                }
                "-C" | "--git-dir" | "--work-tree" | "--namespace" | "--super-prefix" => at += 2,
                _ if text.starts_with("--config-env") || text.starts_with("--exec-path=") => {
                    self.unseen("an option of git may run a command");
                    return CommandKind::Plain;
                }
                _ if text.starts_with('-') => at += 1,
                _ => break,
            }
        }
        if let Some((Word::Literal(subcommand), rest)) = words.get(at..).and_then(<[Word]>::split_first) {
            self.git_subcommand(subcommand, rest);
        }
        CommandKind::Plain
    }

    fn git_subcommand(&mut self, subcommand: &str, words: &[Word]) {
        if OPAQUE.contains(&subcommand) {
            self.unseen(format!("`git {subcommand}` may run anything"));
        }
        if words.iter().filter_map(Word::literal).any(|text| text.starts_with("ext::")) {
            self.unseen("an address of git runs a command");
        }
        for (_, options) in TAKES.iter().filter(|(name, _)| *name == subcommand) {
            self.option_commands(words, options);
        }
        let first = words.iter().position(|word| word.literal().is_some_and(|text| !text.starts_with('-')));
        let after = |at: usize| words.get(at + 1..).unwrap_or_default();
        match (subcommand, first.and_then(|at| Some((at, words.get(at)?.literal()?)))) {
            ("bisect", Some((at, "run"))) => self.inner(after(at).to_vec()),
            ("submodule", Some((at, "foreach"))) => {
                let options = after(at)
                    .iter()
                    .take_while(|word| word.literal().is_some_and(|text| text.starts_with('-')));
                let skip = options.count();
                self.joined(after(at).get(skip..).unwrap_or_default());
            }
            ("config", _) => self.git_config(words),
            ("clone" | "init" | "submodule", _) => self.git_clone_settings(words),
            _ => {}
        }
    }

    /// `git config`: reading is free, writing counts as the setting it writes.
    fn git_config(&mut self, words: &[Word]) {
        let asks = |text: &str| {
            ["--get", "--list", "-l", "--unset", "--remove-section", "get", "list", "unset"]
                .iter()
                .any(|ask| text.starts_with(ask))
        };
        if words.iter().filter_map(Word::literal).any(asks) {
            return;
        }
        let operands: Vec<&Word> = words
            .iter()
            .filter(|word| word.literal().is_none_or(|text| !text.starts_with('-') && text != "set"))
            .collect();
        if operands.len() > 1 && !operands.iter().filter_map(|word| word.literal()).any(is_harmless_key) {
            self.unseen("a setting of git may run a command");
        }
    }

    fn git_clone_settings(&mut self, words: &[Word]) {
        for (at, word) in words.iter().enumerate() {
            match word.literal() {
                Some("-c" | "--config") => self.git_setting(words.get(at + 1)),
                Some(text) if text.starts_with("--config=") => {
                    let value = text.strip_prefix("--config=").unwrap_or_default();
                    self.git_setting(Some(&Word::Literal(value.to_owned())));
                }
                Some(text) if text.starts_with("--template") => {
                    self.unseen("a template of git may hold commands")
                }
                _ => {}
            }
        }
    }

    fn git_setting(&mut self, word: Option<&Word>) {
        let harmless = word.and_then(Word::literal).is_some_and(|setting| {
            let (key, value) = setting.split_once('=').unwrap_or((setting, "true"));
            let plain = matches!(value, "" | "cat" | "true" | "false" | ":" | "less");
            is_harmless_key(key) || (plain && !key.to_ascii_lowercase().starts_with("alias."))
        });
        if !harmless {
            self.unseen("a setting of git may run a command");
        }
    }
}

fn is_harmless_key(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    HARMLESS.iter().any(|harmless| key.starts_with(harmless))
}
