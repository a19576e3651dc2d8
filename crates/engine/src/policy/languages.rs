//! Interpreters of other languages. `python3 script.py` is evaluated like any program; other forms may run code that
//! is not analyzed. A policy whose default allows evaluates both by name and arguments only.

use super::words::Word;

/// Whether this is the name of an interpreter, in any version.
pub(super) fn is_interpreter(name: &str) -> bool {
    let family = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || matches!(letter, '.' | '-'));
    #[rustfmt::skip]
    const FAMILIES: &[&str] = &[
        "python", "pypy", "ipython", "micropython", "perl", "ruby", "jruby", "irb", "crystal", "node", "nodejs", "tsx",
        "ts-node", "deno", "bun", "php", "lua", "luajit", "luau", "tclsh", "wish", "expect", "guile", "sbcl", "clisp",
        "racket", "scheme", "R", "Rscript", "octave", "julia", "gnuplot", "ghci", "ghc", "elixir", "iex", "groovy",
        "scala", "clojure", "clj", "bb", "osascript", "swift", "ocaml", "kotlin",
    ];
    FAMILIES.contains(&family)
}

/// Whether an interpreter with these arguments may run code that is not in a file. It does not if the first argument is
/// a file or a subcommand, or if the only argument asks for the version.
pub(super) fn may_run_code(words: &[Word]) -> bool {
    let Some(first) = words.first().and_then(Word::literal) else { return true };
    match first {
        "--version" | "-V" | "-v" | "--help" | "-h" => words.len() > 1,
        "eval" | "repl" => true,
        _ => first.starts_with('-') || is_stream(first),
    }
}

/// Whether a file name means standard input or another stream, whose content is not known before it runs.
pub(super) fn is_stream(file: &str) -> bool {
    file == "-" || file.starts_with("/dev/") || file.starts_with("/proc/")
}

/// Whether the arguments of an awk could make it run a command: by `system`, by a pipe, or by a function whose name
/// is only known when it runs.
pub(super) fn awk_may_run_code(words: &[Word]) -> bool {
    words.iter().any(|word| {
        let Some(text) = word.literal() else { return false };
        let has_pipe = text.replace("||", "").contains('|');
        let has_indirect_call =
            text.as_bytes().windows(2).any(|two| two[0] == b'@' && !two[1].is_ascii_digit());
        has_pipe || text.contains("system") || has_indirect_call || text.starts_with("-l") || is_stream(text)
    }) || words.first().is_none_or(|first| first.literal().is_none())
}
