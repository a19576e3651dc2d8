//! Patterns of rules: a glob for one argument, and a sequence of globs for a whole command.
//!
//! The globs are matched by hand rather than compiled: a policy has thousands of them, each is a few characters
//! long, and the daemon has to start in milliseconds.

use super::words::{Word, base_name};

/// A glob on one argument: `*` any text, `?` one character, `[a-z]` one of a set, `\` takes the next literally.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob {
    text: String,
    shape: Shape,
}

/// What a glob is made of: most are simple, and matched as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Its own text.
    Literal,
    /// A `*` and then a text.
    Ending,
    /// Anything else.
    Other,
}

impl Glob {
    /// A glob from its text. Every text is a valid glob; a `[` without its `]` stands for itself.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let is_plain = |text: &str| !text.contains(['*', '?', '[', '\\']);
        let shape = match text.strip_prefix('*') {
            Some(rest) if is_plain(rest) => Shape::Ending,
            None if is_plain(&text) => Shape::Literal,
            _ => Shape::Other,
        };
        Self { text, shape }
    }

    /// Whether it matches only its own text.
    pub fn is_literal(&self) -> bool {
        self.shape == Shape::Literal
    }

    /// The text it was made from.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether all of `text` matches.
    pub fn matches(&self, text: &str) -> bool {
        self.matches_bytes(text.as_bytes())
    }

    /// The same for what may be no text.
    pub(super) fn matches_bytes(&self, text: &[u8]) -> bool {
        let pattern = self.text.as_bytes();
        match self.shape {
            Shape::Literal => pattern == text,
            Shape::Ending => text.ends_with(pattern.get(1..).unwrap_or_default()),
            Shape::Other => glob(pattern, text),
        }
    }
}

/// Matches with one point to return to: a later `*` makes the earlier ones irrelevant.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
            continue;
        }
        if let Some(step) = one(&pattern[p..], text[t]) {
            p += step;
            t += 1;
            continue;
        }
        let Some((at, from)) = star else { return false };
        p = at + 1;
        t = from + 1;
        star = Some((at, t));
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

/// How many pattern bytes match this one byte, if any do. `?` and sets work on bytes, which is exact for ASCII.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'\\' => match pattern.get(1) {
            Some(&next) => (next == byte).then_some(2),
            None => (byte == b'\\').then_some(1),
        },
        b'[' => match set(&pattern[1..], byte) {
            Some((true, len)) => Some(len + 1),
            Some((false, _)) => None,
            None => (byte == b'[').then_some(1),
        },
        other => (other == byte).then_some(1),
    }
}

/// Whether a set holds the byte, and how long the set is with its closing bracket; nothing if it never closes.
fn set(pattern: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(pattern.first(), Some(b'!' | b'^'));
    let start = usize::from(negated);
    let end = pattern.iter().skip(start + 1).position(|&b| b == b']')? + start + 1;
    let members = &pattern[start..end];
    let mut found = false;
    let mut at = 0;
    while at < members.len() {
        if let (Some(b'-'), Some(&high)) = (members.get(at + 1), members.get(at + 2)) {
            found |= (members[at]..=high).contains(&byte);
            at += 3;
        } else {
            found |= members[at] == byte;
            at += 1;
        }
    }
    Some((found != negated, end + 1))
}

/// How surely a pattern matches a command, of which some words are only known when it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    /// Whatever the unknown words are, it does not match.
    No,
    /// It depends on the unknown words.
    Maybe,
    /// Whatever the unknown words are, it matches.
    Yes,
}

/// A whole command as globs: the program, then one per argument; a last `*` stands for any number of arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArgvPattern {
    program: Glob,
    arguments: Vec<Glob>,
    open_ended: bool,
}

impl ArgvPattern {
    /// A pattern from its elements; nothing when there are none.
    pub fn new(elements: &[String]) -> Option<Self> {
        let (program, arguments) = elements.split_first()?;
        let open_ended = elements.last().is_some_and(|last| last == "*");
        let fixed = if open_ended && !arguments.is_empty() { arguments.len() - 1 } else { arguments.len() };
        let arguments = arguments[..fixed].iter().map(Glob::new).collect();
        Some(Self { program: Glob::new(program), arguments, open_ended })
    }

    /// The base name of the program if the pattern names exactly one.
    pub fn program_name(&self) -> Option<&str> {
        self.program.is_literal().then(|| base_name(self.program.as_str()))
    }

    /// Whether it matches its program without arguments only.
    pub fn is_bare(&self) -> bool {
        self.arguments.is_empty() && !self.open_ended
    }

    /// Whether the program matches: by base name, and by the full path when the pattern has a slash.
    pub(super) fn program_matches(&self, program: &str) -> bool {
        if self.program.as_str().contains('/') {
            self.program.matches(program)
        } else {
            self.program.matches(base_name(program)) || self.program.matches(program)
        }
    }

    /// Whether the pattern leaves open in which directory the program lies.
    pub(super) fn trusts_any_directory(&self) -> bool {
        !self.program.as_str().contains('/')
    }

    /// How surely the arguments match.
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

    /// An unknown word may turn out to be no word, one, or many: after each word, which globs may be used up?
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
