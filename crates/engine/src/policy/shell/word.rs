//! Parses one word of shell text: quotes, expansions and substitutions.

use super::{Parsed, Parser, Unparsable};
use crate::policy::words::{Assignment, Word};

/// A word of shell text after parsing.
#[derive(Debug)]
pub(super) struct ShellToken {
    /// The known text after quote removal.
    pub(super) text: Vec<u8>,
    /// Without quotes, escapes and expansions: only such a word can be a keyword.
    pub(super) bare: bool,
    /// The variable that it assigns before a command.
    pub(super) assigns: Option<Assignment>,
    /// The word as an argument of a command.
    pub(super) word: Word,
}

impl ShellToken {
    /// Whether it is a descriptor number directly before a redirection.
    pub(super) fn is_io_number(&self, next: Option<u8>) -> bool {
        self.bare && self.text.iter().all(u8::is_ascii_digit) && matches!(next, Some(b'<' | b'>'))
    }

    /// Whether a redirection to it writes no file: a descriptor, the null device, or a standard stream.
    pub(super) fn is_harmless_target(&self) -> bool {
        let Some(text) = self.word.literal() else { return false };
        let descriptor = text.strip_suffix('-').unwrap_or(text);
        matches!(text, "/dev/null" | "/dev/stdout" | "/dev/stderr" | "-")
            || (!descriptor.is_empty() && descriptor.bytes().all(|byte| byte.is_ascii_digit()))
    }
}

/// Whether an unquoted byte ends a word.
pub(super) fn ends_word(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')' | b'<' | b'>')
}

/// A word while it is parsed.
struct Draft {
    text: Vec<u8>,
    bare: bool,
    /// Length of the known text, if not all is known.
    known: Option<usize>,
    /// Position of the first wildcard.
    globs: Option<usize>,
    /// Length of `NAME=` or `NAME+=` at the start.
    assignment: Option<usize>,
}

impl Parser<'_> {
    /// Parses the next word; fails if there is none.
    pub(super) fn word(&mut self) -> Parsed<ShellToken> {
        let mut draft = Draft { text: Vec::new(), bare: true, known: None, globs: None, assignment: None };
        let start = self.at;
        while let Some(byte) = self.peek() {
            if matches!(byte, b'<' | b'>') && self.peek_second() == Some(b'(') {
                self.process_substitution()?;
                draft.mark_unknown();
                continue;
            }
            if byte == b'(' && draft.assignment == Some(draft.text.len()) {
                self.array()?;
                continue;
            }
            if ends_word(byte) {
                break;
            }
            self.piece(byte, &mut draft)?;
        }
        if self.at == start {
            return Err(Unparsable("a word is missing"));
        }
        draft.finish()
    }

    /// Parses one piece of a word.
    fn piece(&mut self, byte: u8, draft: &mut Draft) -> Parsed<()> {
        match byte {
            b'\\' => {
                draft.bare = false;
                self.bump();
                // Some shells drop a backslash at the end, some keep it.
                let next = self.text.get(self.at).copied();
                draft.text.push(next.ok_or(Unparsable("a backslash at the end"))?);
                self.bump();
                self.at = self.at.min(self.text.len());
            }
            b'\'' => {
                draft.bare = false;
                self.bump();
                draft.text.extend_from_slice(self.single_quoted()?);
            }
            b'"' => {
                draft.bare = false;
                self.bump();
                let (text, known) = self.quoted_text(Some(b'"'))?;
                let before = draft.text.len();
                draft.known = draft.known.or(known.map(|known| before + known));
                draft.text.extend(text);
            }
            b'`' => {
                self.backticks(Around::Nothing)?;
                draft.mark_unknown();
            }
            b'$' => match self.dollar(false)? {
                Dollar::Expansion => draft.mark_unknown(),
                Dollar::Plain => draft.text.push(b'$'),
            },
            b'{' => self.brace(draft),
            _ => {
                let leads = draft.text.is_empty() && matches!(byte, b'~' | b'=');
                if leads {
                    draft.mark_unknown();
                }
                if matches!(byte, b'*' | b'?' | b'[') {
                    draft.globs.get_or_insert(draft.text.len());
                }
                self.bump();
                draft.text.push(byte);
                if byte == b'=' && draft.bare && draft.assignment.is_none() && is_name(&draft.text) {
                    draft.assignment = Some(draft.text.len());
                }
            }
        }
        Ok(())
    }

    /// `{}` and a single `{` are literal; anything else may be a brace expansion.
    fn brace(&mut self, draft: &mut Draft) {
        let pair = self.peek_second() == Some(b'}');
        let alone = draft.text.is_empty() && self.peek_second().is_none_or(ends_word);
        if !pair && !alone {
            draft.mark_unknown();
        }
        self.peek();
        self.bump();
        draft.text.push(b'{');
    }

    /// The text up to the closing single quote, after the opening one.
    pub(super) fn single_quoted(&mut self) -> Parsed<&[u8]> {
        let start = self.at;
        let length = memchr::memchr(b'\'', &self.text[start..]).ok_or(Unparsable("a quote is not closed"))?;
        self.at = start + length + 1;
        let text = &self.text[start..start + length];
        self.no_newline_before_heredoc(text)?;
        Ok(text)
    }

    /// Text in which only `\`, `$` and backticks are special, up to the closing byte or to the end. The second value is the
    /// length of the known text, if not all is known.
    pub(super) fn quoted_text(&mut self, close: Option<u8>) -> Parsed<(Vec<u8>, Option<usize>)> {
        let (mut text, mut known) = (Vec::new(), None);
        while let Some(byte) = self.peek() {
            match byte {
                _ if Some(byte) == close => {
                    self.bump();
                    return Ok((text, known));
                }
                b'\\' => {
                    self.bump();
                    match self.text.get(self.at).copied() {
                        Some(next @ (b'$' | b'`' | b'"' | b'\\')) => {
                            self.bump();
                            text.push(next);
                        }
                        _ => text.push(b'\\'),
                    }
                }
                b'`' => {
                    let around = if close.is_some() { Around::Quotes } else { Around::HereDocument };
                    self.backticks(around)?;
                    known.get_or_insert(text.len());
                }
                b'$' => match self.dollar(true)? {
                    Dollar::Expansion => {
                        known.get_or_insert(text.len());
                    }
                    Dollar::Plain => text.push(b'$'),
                },
                _ => {
                    self.bump();
                    self.no_newline_before_heredoc(&[byte])?;
                    text.push(byte);
                }
            }
        }
        if close.is_some() { Err(Unparsable("a quote is not closed")) } else { Ok((text, known)) }
    }

    /// Shells disagree on where a here-document starts after a quoted newline or a substitution.
    fn no_newline_before_heredoc(&self, text: &[u8]) -> Parsed<()> {
        if !self.heredocs.is_empty() && text.contains(&b'\n') {
            return Err(Unparsable("a quoted newline before a here-document"));
        }
        Ok(())
    }

    /// `` `…` ``: the text between them, unescaped once, is shell text.
    pub(super) fn backticks(&mut self, around: Around) -> Parsed<()> {
        self.no_pending_heredoc()?;
        self.bump();
        let mut inner = Vec::new();
        loop {
            match self.text.get(self.at).copied() {
                None => return Err(Unparsable("a backtick is not closed")),
                Some(b'`') => break,
                Some(b'\\') => match self.text.get(self.at + 1).copied() {
                    Some(b'"') if around == Around::HereDocument => {
                        return Err(Unparsable("a quoted quote between backticks in a here-document"));
                    }
                    Some(next)
                        if matches!(next, b'`' | b'$' | b'\\')
                            || (around == Around::Quotes && next == b'"') =>
                    {
                        inner.push(next);
                        self.at += 2;
                    }
                    // Shells join the lines before or after they parse the text, with different results.
                    Some(b'\n') => return Err(Unparsable("a quoted newline between backticks")),
                    _ => {
                        inner.push(b'\\');
                        self.at += 1;
                    }
                },
                Some(byte) => {
                    inner.push(byte);
                    self.at += 1;
                }
            }
        }
        self.bump();
        let mut parser = Parser::new(&inner, self.depth + 1)?;
        if parser.list()? == super::Stop::Parenthesis {
            return Err(Unparsable("a closing parenthesis without its opening one"));
        }
        self.script.commands.append(&mut parser.script.commands);
        self.script.assigned.append(&mut parser.script.assigned);
        self.script.has_arithmetic |= parser.script.has_arithmetic;
        Ok(())
    }

    pub(super) fn no_pending_heredoc(&self) -> Parsed<()> {
        if self.heredocs.is_empty() {
            Ok(())
        } else {
            Err(Unparsable("a substitution before a here-document"))
        }
    }

    /// `<(…)` and `>(…)`.
    fn process_substitution(&mut self) -> Parsed<()> {
        self.no_pending_heredoc()?;
        self.bump();
        self.peek();
        self.bump();
        self.nested_list()
    }

    /// `NAME=(words)`: the words may contain substitutions.
    fn array(&mut self) -> Parsed<()> {
        self.bump();
        loop {
            self.skip_lines()?;
            match self.peek() {
                Some(b')') => {
                    self.bump();
                    return Ok(());
                }
                None | Some(b';' | b'&' | b'|' | b'(') => return Err(Unparsable("an array is not closed")),
                Some(b'<' | b'>') if self.peek_second() != Some(b'(') => {
                    return Err(Unparsable("a redirection in an array"));
                }
                Some(byte) => {
                    // `[index]=value`: the index is arithmetic.
                    self.script.has_arithmetic |= byte == b'[';
                    self.word()?;
                }
            }
        }
    }
}

/// The context of backticks, which determines the meaning of a backslash between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Around {
    Nothing,
    Quotes,
    HereDocument,
}

/// Whether a `$` starts an expansion.
pub(super) enum Dollar {
    Expansion,
    Plain,
}

impl Draft {
    /// Marks the rest of the word as unknown.
    fn mark_unknown(&mut self) {
        self.known.get_or_insert(self.text.len());
    }

    fn finish(self) -> Parsed<ShellToken> {
        let text = self.text;
        // The test commands `[` and `[[` are not wildcards.
        let globs = self.globs.filter(|_| text != b"[" && text != b"[[");
        let known = [self.known, globs].into_iter().flatten().min();
        let dynamic = known.is_some();
        if hides_substitution(&text) {
            return Err(Unparsable("a substitution hidden in an index"));
        }
        let assigns = self.assignment.map(|end| {
            let name = text[..end].strip_suffix(b"=").unwrap_or_default();
            let appends = name.ends_with(b"+");
            let name = String::from_utf8_lossy(name.strip_suffix(b"+").unwrap_or(name)).into_owned();
            let value = (!dynamic && !appends).then(|| String::from_utf8_lossy(&text[end..]).into_owned());
            Assignment { name, value, is_exported: false }
        });
        let decoded = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let word = match known {
            Some(known) => Word::Dynamic(decoded(text.get(..known).unwrap_or_default())),
            None => Word::Literal(decoded(&text)),
        };
        Ok(ShellToken { bare: self.bare && !dynamic, assigns, word, text })
    }
}

/// `NAME=` or `NAME+=`.
fn is_name(text: &[u8]) -> bool {
    let name = text.strip_suffix(b"=").unwrap_or(text);
    let name = name.strip_suffix(b"+").unwrap_or(name);
    name.first().is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_')
        && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `name[$(command)]`: a shell that evaluates the text as arithmetic runs the command, even if it is quoted.
fn hides_substitution(text: &[u8]) -> bool {
    memchr::memchr_iter(b'[', text).any(|at| {
        let named = at > 0 && (text[at - 1].is_ascii_alphanumeric() || text[at - 1] == b'_');
        let rest = &text[at + 1..];
        let index = &rest[..memchr::memchr(b']', rest).unwrap_or(rest.len())];
        named && (index.contains(&b'`') || memchr::memmem::find(index, b"$(").is_some())
    })
}
