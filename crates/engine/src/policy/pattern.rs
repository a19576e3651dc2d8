//! Patterns of rules: a glob for one argument, and a sequence of globs for a whole command.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::OnceLock;

use globset::{GlobBuilder, GlobMatcher};

use super::words::{Word, base_name};

/// A glob on one argument: `*` any text, `?` one byte, `[a-z]` one of a set, `\` takes the next character literally.
#[derive(Clone)]
pub struct Glob {
    text: String,
    shape: Shape,
    /// Compiled when it is first used: a policy may have thousands of globs, and most are simple.
    matcher: OnceLock<Option<GlobMatcher>>,
}

/// Globs that need no compiled matcher, and the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Text without wildcards.
    Literal,
    /// One `*`, then text without wildcards.
    Ending,
    /// One `*` between texts without wildcards.
    Around,
    /// All other globs.
    Other,
}

impl Glob {
    /// Accepts every text; a `[` without its `]` matches itself.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let is_plain = |text: &str| !text.contains(['*', '?', '[', '\\']);
        let shape = match text.strip_prefix('*') {
            Some(rest) if is_plain(rest) => Shape::Ending,
            None if is_plain(&text) => Shape::Literal,
            _ if text.split_once('*').is_some_and(|(start, end)| is_plain(start) && is_plain(end)) => {
                Shape::Around
            }
            _ => Shape::Other,
        };
        Self { text, shape, matcher: OnceLock::new() }
    }

    /// Whether it has no wildcards and matches only its own text.
    pub fn is_literal(&self) -> bool {
        self.shape == Shape::Literal
    }

    /// The text it was created from.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the glob matches all of `text`.
    pub fn matches(&self, text: &str) -> bool {
        self.matches_bytes(text.as_bytes())
    }

    /// Like [`Glob::matches`], for file names that are not UTF-8.
    pub(super) fn matches_bytes(&self, text: &[u8]) -> bool {
        let pattern = self.text.as_bytes();
        match self.shape {
            Shape::Literal => pattern == text,
            Shape::Ending => text.ends_with(pattern.get(1..).unwrap_or_default()),
            Shape::Around => {
                let star = memchr::memchr(b'*', pattern).unwrap_or_default();
                let rest = text.strip_prefix(&pattern[..star]);
                rest.is_some_and(|rest| rest.ends_with(&pattern[star + 1..]))
            }
            Shape::Other => {
                let matcher = self.matcher.get_or_init(|| compile(&self.text));
                matcher.as_ref().is_some_and(|matcher| matcher.is_match(OsStr::from_bytes(text)))
            }
        }
    }
}

/// Fingerprints of rules, which stored grants refer to, are made from this text: it must not depend on the matcher.
impl fmt::Debug for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = if self.shape == Shape::Around { Shape::Other } else { self.shape };
        f.debug_struct("Glob").field("text", &self.text).field("shape", &shape).finish()
    }
}

impl PartialEq for Glob {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Glob {}

/// `None` for a glob that matches nothing, such as one with the range `[z-a]`.
fn compile(text: &str) -> Option<GlobMatcher> {
    let glob = GlobBuilder::new(&translate(text)).backslash_escape(true).build();
    Some(glob.ok()?.compile_matcher())
}

/// The glob as `globset` spells it: braces are ordinary text here, `**` is `*`, and every text is valid.
fn translate(text: &str) -> String {
    let (mut translated, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let mut end = first.len_utf8();
        match first {
            '*' => {
                translated.push('*');
                end = rest.len() - rest.trim_start_matches('*').len();
            }
            '\\' => {
                let next = rest.chars().nth(1).unwrap_or('\\');
                translated.extend(['\\', next]);
                end = (end + next.len_utf8()).min(rest.len());
            }
            '[' => match set_end(rest) {
                Some(set) => {
                    translated.push_str(rest.get(..set).unwrap_or_default());
                    end = set;
                }
                None => translated.push_str("\\["),
            },
            '{' | '}' => translated.extend(['\\', first]),
            _ => translated.push(first),
        }
        rest = rest.get(end..).unwrap_or_default();
    }
    translated
}

/// Where the set ends that `text` begins with. A `]` directly after `[`, `[!` or `[^` is a member of the set.
fn set_end(text: &str) -> Option<usize> {
    let is_negated = text.starts_with("[!") || text.starts_with("[^");
    let first_member = if is_negated { 2 } else { 1 };
    text.char_indices().skip(first_member + 1).find(|(_, letter)| *letter == ']').map(|(at, _)| at + 1)
}

/// How surely a pattern matches a command with words that are only known at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    /// It does not match, whatever the unknown words are.
    No,
    /// It depends on the unknown words.
    Maybe,
    /// It matches, whatever the unknown words are.
    Yes,
}

/// Globs on the program and on each argument; a last `*` matches any number of arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgvPattern {
    program: Glob,
    arguments: Vec<Glob>,
    open_ended: bool,
}

impl ArgvPattern {
    /// `None` if there are no elements.
    pub fn new(elements: &[String]) -> Option<Self> {
        let (program, arguments) = elements.split_first()?;
        let open_ended = elements.last().is_some_and(|last| last == "*");
        let fixed = if open_ended && !arguments.is_empty() { arguments.len() - 1 } else { arguments.len() };
        let arguments = arguments[..fixed].iter().map(Glob::new).collect();
        Some(Self { program: Glob::new(program), arguments, open_ended })
    }

    /// Base name of the program if the pattern has no wildcard in it.
    pub fn program_name(&self) -> Option<&str> {
        self.program.is_literal().then(|| base_name(self.program.as_str()))
    }

    /// The first argument if the pattern has one without wildcards.
    pub(super) fn first_argument(&self) -> Option<&str> {
        self.arguments.first().filter(|glob| glob.is_literal()).map(Glob::as_str)
    }

    /// Whether it matches only the program without arguments.
    pub fn is_bare(&self) -> bool {
        self.arguments.is_empty() && !self.open_ended
    }

    /// Whether the program matches: by full path if the pattern has a slash, otherwise by base name or as given.
    pub(super) fn program_matches(&self, program: &str) -> bool {
        if self.program.as_str().contains('/') {
            self.program.matches(program)
        } else {
            self.program.matches(base_name(program)) || self.program.matches(program)
        }
    }

    /// Whether the pattern does not name the directory of the program.
    pub(super) fn trusts_any_directory(&self) -> bool {
        !self.program.as_str().contains('/')
    }

    /// Whether the arguments match, may match or do not match.
    pub(super) fn arguments_match(&self, words: &[Word]) -> Match {
        if self.surely(words) {
            Match::Yes
        } else if words.iter().any(|word| word.literal().is_none()) && self.possibly(words) {
            Match::Maybe
        } else {
            Match::No
        }
    }

    fn surely(&self, words: &[Word]) -> bool {
        let enough = if self.open_ended {
            words.len() >= self.arguments.len()
        } else {
            words.len() == self.arguments.len()
        };
        enough
            && self
                .arguments
                .iter()
                .zip(words)
                .all(|(glob, word)| word.literal().is_some_and(|w| glob.matches(w)))
    }

    /// Dynamic programming over the number of globs that the words so far may match: an unknown word may be no word, one or
    /// many.
    fn possibly(&self, words: &[Word]) -> bool {
        let count = self.arguments.len();
        let mut used = vec![false; count + 1];
        used[0] = true;
        for word in words {
            let mut next = vec![false; count + 1];
            for at in (0..=count).filter(|&at| used[at]) {
                match word.literal() {
                    None => next[at..].fill(true),
                    Some(text) if at < count => next[at + 1] |= self.arguments[at].matches(text),
                    Some(_) => next[count] |= self.open_ended,
                }
            }
            used = next;
        }
        used[count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: &[&str]) -> Vec<Word> {
        texts
            .iter()
            .map(|text| if *text == "$" { Word::unknown() } else { Word::Literal((*text).to_owned()) })
            .collect()
    }

    fn pattern(elements: &[&str]) -> ArgvPattern {
        ArgvPattern::new(&elements.iter().map(|e| (*e).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn globs_match_as_a_shell_would() {
        let table: &[(&str, &str, bool)] = &[
            ("push", "push", true),
            ("push", "pushy", false),
            ("*", "", true),
            ("*", "a/b", true),
            ("--force*", "--force-with-lease", true),
            ("*force*", "--no-force-x", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[", "[", true),
            (r"\*", "*", true),
            (r"\*", "x", false),
            ("*a*b*c", "xaxbxc", true),
            ("*a*b*c", "xaxbx", false),
            ("a**b", "a/x/b", true),
            ("**/b", "b", false),
            ("{}*", "{}x", true),
            ("{a,b}*", "ax", false),
            ("[]x]*", "]y", true),
            ("[!]]*", "]y", false),
            ("[{,}]?", "{x", true),
            ("[*", "[x", true),
            ("*[", "x[", true),
            ("?\\", "x\\", true),
            ("[z-a]*", "m", false),
            ("*é?", "xé1", true),
        ];
        for (glob, text, expected) in table {
            assert_eq!(Glob::new(*glob).matches(text), *expected, "{glob} on {text}");
        }
    }

    #[test]
    fn a_last_star_takes_any_number_of_arguments() {
        let push = pattern(&["git", "push", "*"]);
        assert_eq!(push.arguments_match(&words(&["push"])), Match::Yes);
        assert_eq!(push.arguments_match(&words(&["push", "a", "b"])), Match::Yes);
        assert_eq!(push.arguments_match(&words(&["pull"])), Match::No);
        assert_eq!(pattern(&["git"]).arguments_match(&words(&["push"])), Match::No);
        assert_eq!(pattern(&["*"]).arguments_match(&words(&["x", "y"])), Match::Yes);
    }

    #[test]
    fn an_unknown_word_may_be_none_one_or_many() {
        let push = pattern(&["git", "push", "--force"]);
        assert_eq!(push.arguments_match(&words(&["$"])), Match::Maybe);
        assert_eq!(push.arguments_match(&words(&["push", "$", "--force"])), Match::Maybe);
        assert_eq!(push.arguments_match(&words(&["push", "$", "$"])), Match::Maybe);
        assert_eq!(push.arguments_match(&words(&["status", "$"])), Match::No);
        assert_eq!(pattern(&["ls", "*"]).arguments_match(&words(&["$"])), Match::Yes);
    }

    #[test]
    fn a_program_is_matched_by_base_name_or_by_path() {
        assert!(pattern(&["rm", "*"]).program_matches("/bin/rm"));
        assert!(pattern(&["rm", "*"]).program_matches("../../bin/rm"));
        assert!(!pattern(&["/bin/rm", "*"]).program_matches("rm"));
        assert!(pattern(&["/bin/*", "*"]).program_matches("/bin/rm"));
    }
}
