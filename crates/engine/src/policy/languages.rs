//! Programs with a language of their own. A file of it is that file's business, like any program; code among the
//! arguments or on standard input may run anything, as far as it can be told from here. Agents write such code all day,
//! so a policy whose default allows takes it for a program like others, as it takes a file of it.

use super::words::Word;

/// How an interpreter takes its code.
#[derive(Debug)]
pub(super) struct Interpreter {
    /// Letters of short options that take code.
    code: &'static str,
    /// Letters of short options that take a value, attached or next.
    values: &'static str,
    /// Long options that take code, as prefixes.
    long_code: &'static [&'static str],
    /// Options after which a name stands instead of a file, such as `-m`.
    modules: &'static str,
    /// First words that only ask something or work on a project.
    harmless: &'static [&'static str],
}

const PLAIN: Interpreter =
    Interpreter { code: "e", values: "", long_code: &["--eval"], modules: "", harmless: &[] };

static PYTHON: Interpreter = Interpreter { code: "c", values: "WXQ", modules: "m", long_code: &[], ..PLAIN };
static PERL: Interpreter = Interpreter { code: "eEMmxd", values: "I", ..PLAIN };
static RUBY: Interpreter = Interpreter { values: "IrCKEWF", ..PLAIN };
static NODE: Interpreter = Interpreter {
    code: "epi",
    values: "rC",
    long_code: &["--eval", "--print", "--interactive", "--import", "--loader", "--experimental-loader"],
    harmless: &["--check", "-c", "--test", "--run"],
    ..PLAIN
};
static DENO: Interpreter = Interpreter {
    harmless: &[
        "test", "check", "fmt", "lint", "task", "cache", "info", "bench", "doc", "install", "add", "compile",
    ],
    ..PLAIN
};
static BUN: Interpreter = Interpreter {
    code: "ep",
    long_code: &["--eval", "--print"],
    harmless: &["run", "test", "install", "add", "remove", "build", "update", "link", "pm", "init", "create"],
    ..PLAIN
};
static PHP: Interpreter = Interpreter {
    code: "rBREa",
    values: "cdzfFSt",
    long_code: &["--run", "--process"],
    harmless: &["-l", "--syntax-check", "-m", "-i"],
    ..PLAIN
};
static LUA: Interpreter = Interpreter { values: "l", ..PLAIN };
static TCL: Interpreter = Interpreter { code: "c", ..PLAIN };
static STATISTICS: Interpreter = Interpreter { values: "f", long_code: &["--eval", "--expr"], ..PLAIN };

/// The interpreter of this name, whatever its version.
pub(super) fn find(name: &str) -> Option<&'static Interpreter> {
    let family = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '-'));
    Some(match family {
        "python" | "pypy" | "ipython" | "micropython" => &PYTHON,
        "perl" => &PERL,
        "ruby" | "jruby" | "irb" | "crystal" => &RUBY,
        "node" | "nodejs" | "tsx" | "ts-node" => &NODE,
        "deno" => &DENO,
        "bun" => &BUN,
        "php" => &PHP,
        "lua" | "luajit" | "luau" => &LUA,
        "tclsh" | "wish" | "expect" | "guile" | "sbcl" | "clisp" | "racket" | "scheme" => &TCL,
        "R" | "Rscript" | "octave" | "julia" | "gnuplot" | "ghci" | "ghc" | "elixir" | "iex" | "groovy"
        | "scala" | "clojure" | "clj" | "bb" | "osascript" | "swift" | "ocaml" | "kotlin" => &STATISTICS,
        _ => return None,
    })
}

impl Interpreter {
    /// Whether it is given code, or reads it from a stream. `words` are its arguments.
    pub(super) fn is_given_code(&self, words: &[Word]) -> bool {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let Some(text) = word.literal() else { return true };
            if asks(text) || self.harmless.contains(&text) {
                return false;
            }
            if text == "eval" || text == "repl" || text == "-" || is_stream(text) {
                return true;
            }
            let Some(flags) = text.strip_prefix('-') else { return false };
            if let Some(long) = text.strip_prefix("--") {
                if long.is_empty() {
                    return words
                        .get(at + 1)
                        .and_then(Word::literal)
                        .is_none_or(|file| is_stream(file) || file == "-");
                }
                if self.long_code.iter().any(|code| text.starts_with(code)) {
                    return true;
                }
                at += 1;
                continue;
            }
            match self.cluster(flags) {
                Cluster::Code => return true,
                Cluster::Module => return false,
                Cluster::Takes(taken) => at += taken,
            }
        }
        true
    }

    fn cluster(&self, flags: &str) -> Cluster {
        for (at, flag) in flags.char_indices() {
            if self.code.contains(flag) {
                return Cluster::Code;
            }
            if self.modules.contains(flag) {
                return Cluster::Module;
            }
            if self.values.contains(flag) {
                return Cluster::Takes(if at + flag.len_utf8() < flags.len() { 1 } else { 2 });
            }
        }
        Cluster::Takes(1)
    }
}

enum Cluster {
    Code,
    Module,
    Takes(usize),
}

fn asks(text: &str) -> bool {
    matches!(text, "--version" | "--help" | "-V" | "-v" | "-h" | "-VV" | "-version")
}

/// A file that is no file: what it will hold cannot be known.
pub(super) fn is_stream(file: &str) -> bool {
    file == "-" || file.starts_with("/dev/") || file.starts_with("/proc/")
}

/// Whether the arguments of an awk could make it run a command: by `system`, by a pipe, or by a function whose name
/// is only known when it runs.
pub(super) fn awk_runs(words: &[Word]) -> bool {
    words.iter().any(|word| {
        let Some(text) = word.literal() else { return false };
        let piped = text.replace("||", "").contains('|');
        let named = text.as_bytes().windows(2).any(|two| two[0] == b'@' && !two[1].is_ascii_digit());
        piped || text.contains("system") || named || text.starts_with("-l") || is_stream(text)
    }) || words.first().is_none_or(|first| first.literal().is_none())
}
