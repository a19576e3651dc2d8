//! Splits shell text into the simple commands that it may run. It finds every command that any POSIX shell may run, and
//! rejects text that shells may read differently as [`Unparsable`].

mod dollar;
mod redirect;
mod word;

use super::words::{Assignment, SimpleCommand, Word};
use redirect::Heredoc;

/// Limit on nested substitutions, subshells and groups.
const MAX_DEPTH: usize = 48;

/// Commands and assignments of a shell text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ShellScript {
    /// All simple commands, including those in substitutions, branches and functions.
    pub(super) commands: Vec<SimpleCommand>,
    /// Variables assigned anywhere in it.
    pub(super) assigned: Vec<Assignment>,
    /// Whether it evaluates arithmetic on a variable. Shells evaluate the value of the variable as an expression too,
    /// which may assign any other variable.
    pub(super) has_arithmetic: bool,
}

/// Why a text cannot be parsed with certainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unparsable(pub(super) &'static str);

type Parsed<T> = Result<T, Unparsable>;

/// Parses a shell text.
pub(super) fn parse(text: &str) -> Parsed<ShellScript> {
    let mut parser = Parser::new(text.as_bytes(), 0)?;
    match parser.list()? {
        Stop::End => {}
        Stop::Parenthesis => return Err(Unparsable("a closing parenthesis without its opening one")),
    }
    Ok(parser.script)
}

/// What ended a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    End,
    Parenthesis,
}

/// A compound command that has not been closed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    If,
    Loop,
    Brace,
    Case,
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    /// Here-documents whose bodies start after the next newline.
    heredocs: Vec<Heredoc>,
    script: ShellScript,
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8], depth: usize) -> Parsed<Self> {
        if depth > MAX_DEPTH {
            return Err(Unparsable("it is nested too deeply"));
        }
        if text.contains(&0) {
            return Err(Unparsable("it contains a NUL"));
        }
        Ok(Self { text, at: 0, depth, heredocs: Vec::new(), script: ShellScript::default() })
    }

    /// The next byte, with line continuations removed as every shell does outside single quotes.
    fn peek(&mut self) -> Option<u8> {
        while self.text[self.at..].starts_with(b"\\\n") {
            self.at += 2;
        }
        self.text.get(self.at).copied()
    }

    /// The byte after the next one.
    fn peek_second(&mut self) -> Option<u8> {
        self.peek()?;
        let before = self.at;
        self.at += 1;
        let second = self.peek();
        self.at = before;
        second
    }

    fn bump(&mut self) {
        self.at += 1;
    }

    /// A list of commands up to the end or to a `)` that belongs to the caller, which is consumed.
    fn list(&mut self) -> Parsed<Stop> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            self.skip_blank();
            let Some(byte) = self.peek() else { break };
            match byte {
                b'\n' => self.newline()?,
                b';' => self.semicolon(&mut open)?,
                b'&' | b'|' => self.bump(),
                b')' => {
                    self.bump();
                    return self.closed(&open).map(|()| Stop::Parenthesis);
                }
                b'(' => self.subshell()?,
                _ => self.command(&mut open)?,
            }
        }
        self.closed(&open).map(|()| Stop::End)
    }

    /// Fails if a compound command is open or a here-document has no body.
    fn closed(&self, open: &[Open]) -> Parsed<()> {
        if !open.is_empty() {
            return Err(Unparsable("a compound command is not closed"));
        }
        if !self.heredocs.is_empty() {
            return Err(Unparsable("a here-document has no body"));
        }
        Ok(())
    }

    /// `;`, or the `;;`, `;&`, `;;&` that end a branch of `case`.
    fn semicolon(&mut self, open: &mut Vec<Open>) -> Parsed<()> {
        self.bump();
        if !matches!(self.peek(), Some(b';' | b'&')) {
            return Ok(());
        }
        while matches!(self.peek(), Some(b';' | b'&')) {
            self.bump();
        }
        if open.last() != Some(&Open::Case) {
            return Err(Unparsable("the end of a case branch outside of case"));
        }
        self.case_pattern(open)
    }

    fn subshell(&mut self) -> Parsed<()> {
        self.bump();
        if self.peek() == Some(b'(') {
            // Some shells evaluate arithmetic here, others start two subshells.
            return Err(Unparsable("arithmetic commands are not analyzed"));
        }
        self.nested_list()
    }

    /// A list that a `)` must end; the opening has been consumed.
    fn nested_list(&mut self) -> Parsed<()> {
        if self.depth >= MAX_DEPTH {
            return Err(Unparsable("it is nested too deeply"));
        }
        self.depth += 1;
        let stop = self.list()?;
        self.depth -= 1;
        match stop {
            Stop::Parenthesis => Ok(()),
            Stop::End => Err(Unparsable("an opening parenthesis without its closing one")),
        }
    }

    /// One simple command, or one keyword of a compound command.
    fn command(&mut self, open: &mut Vec<Open>) -> Parsed<()> {
        let mut words = Vec::new();
        let first_assignment = self.script.assigned.len();
        let mut writes = false;
        let mut untouched = true;
        let mut no_more_words = false;
        loop {
            self.skip_blank();
            match self.peek() {
                None | Some(b'\n' | b';' | b'|' | b')') => break,
                Some(b'&') if self.peek_second() == Some(b'>') => {
                    self.bump();
                    writes |= self.redirection()?;
                    no_more_words = true;
                }
                Some(b'&') => break,
                Some(b'<' | b'>') if self.peek_second() != Some(b'(') => writes |= self.redirection()?,
                Some(b'(') => return self.function_body(&words),
                Some(_) => {
                    let token = self.word()?;
                    if token.is_io_number(self.peek()) {
                        continue;
                    }
                    if token.text.starts_with(b"{") && matches!(self.peek(), Some(b'<' | b'>')) {
                        return Err(Unparsable("a redirection that sets a variable"));
                    }
                    if no_more_words {
                        // In shells without the operator `&>`, these words are a separate command.
                        return Err(Unparsable("words after a redirection with `&>`"));
                    }
                    if untouched && token.bare && self.keyword(&token.text, open)? {
                        return Ok(());
                    }
                    match token.assigns.filter(|_| words.is_empty()) {
                        Some(assigned) => self.script.assigned.push(assigned),
                        None => words.push(token.word),
                    }
                }
            }
            untouched = false;
        }
        if words.is_empty() && writes {
            words.push(Word::Literal(":".to_owned()));
        }
        if !words.is_empty() {
            // `NAME=value command`. Assignments in a substitution before the command are included, to no harm.
            for assignment in &mut self.script.assigned[first_assignment..] {
                assignment.is_exported = true;
            }
            self.script.commands.push(SimpleCommand { words, writes });
        }
        Ok(())
    }

    /// `name ()` starts a function; its body is parsed like any other command.
    fn function_body(&mut self, words: &[Word]) -> Parsed<()> {
        self.bump();
        self.skip_blank();
        if words.len() != 1 || self.peek() != Some(b')') {
            return Err(Unparsable("an unexpected parenthesis"));
        }
        self.bump();
        Ok(())
    }

    /// Handles a reserved word at the start of a command; returns whether it was one.
    fn keyword(&mut self, text: &[u8], open: &mut Vec<Open>) -> Parsed<bool> {
        match text {
            b"if" => open.push(Open::If),
            b"then" | b"elif" | b"else" => inside(open, Open::If)?,
            b"fi" => close(open, Open::If)?,
            b"while" | b"until" => open.push(Open::Loop),
            b"for" | b"select" => {
                open.push(Open::Loop);
                self.loop_words()?;
            }
            b"do" => inside(open, Open::Loop)?,
            b"done" => close(open, Open::Loop)?,
            b"{" => open.push(Open::Brace),
            b"}" => close(open, Open::Brace)?,
            b"case" => {
                open.push(Open::Case);
                self.case_head(open)?;
            }
            b"esac" => close(open, Open::Case)?,
            b"function" => self.function_head()?,
            b"!" => {}
            b"time" => {
                self.skip_time_options();
                // `time -f FORMAT command`: the program of that name, as in shells without the keyword.
                if self.peek() == Some(b'-') {
                    return Ok(false);
                }
            }
            b"coproc" => return Err(Unparsable("coprocesses are not analyzed")),
            _ => return Ok(false),
        }
        if open.len() > MAX_DEPTH {
            return Err(Unparsable("it is nested too deeply"));
        }
        Ok(true)
    }

    /// `for NAME in words`: the words may contain substitutions.
    fn loop_words(&mut self) -> Parsed<()> {
        self.skip_blank();
        if self.peek() == Some(b'(') {
            return Err(Unparsable("arithmetic commands are not analyzed"));
        }
        let name = self.word()?;
        self.script.assigned.push(Assignment::in_shell(String::from_utf8_lossy(&name.text)));
        self.skip_lines()?;
        if !self.next_is(b"in") {
            return Ok(());
        }
        self.at += 2;
        self.words_to_line_end()
    }

    fn words_to_line_end(&mut self) -> Parsed<()> {
        loop {
            self.skip_blank();
            match self.peek() {
                None | Some(b'\n' | b';') => return Ok(()),
                Some(b'&' | b'|' | b'(' | b')') => {
                    return Err(Unparsable("an operator among the words of a loop"));
                }
                Some(b'<' | b'>') if self.peek_second() != Some(b'(') => {
                    return Err(Unparsable("a redirection among the words of a loop"));
                }
                Some(_) => self.word().map(drop)?,
            }
        }
    }

    /// `case WORD in`, up to the body of the first branch.
    fn case_head(&mut self, open: &mut Vec<Open>) -> Parsed<()> {
        self.skip_blank();
        self.word()?;
        self.skip_lines()?;
        if !self.next_is(b"in") {
            return Err(Unparsable("case without in"));
        }
        self.at += 2;
        self.case_pattern(open)
    }

    /// `(a | b)` before a branch of `case`, or the `esac` that ends it.
    fn case_pattern(&mut self, open: &mut Vec<Open>) -> Parsed<()> {
        self.skip_lines()?;
        if self.next_is(b"esac") {
            self.at += 4;
            return close(open, Open::Case);
        }
        if self.peek() == Some(b'(') {
            self.bump();
        }
        loop {
            self.skip_blank();
            match self.peek() {
                Some(b')') => {
                    self.bump();
                    return Ok(());
                }
                Some(b'|') => self.bump(),
                None | Some(b'\n' | b';' | b'&' | b'(' | b'<' | b'>') => {
                    return Err(Unparsable("a case pattern without its parenthesis"));
                }
                Some(_) => self.word().map(drop)?,
            }
        }
    }

    /// `function NAME` with or without `()`.
    fn function_head(&mut self) -> Parsed<()> {
        self.skip_blank();
        self.word()?;
        self.skip_blank();
        if self.peek() == Some(b'(') && self.peek_second() == Some(b')') {
            self.bump();
            self.peek();
            self.bump();
        }
        Ok(())
    }

    fn skip_time_options(&mut self) {
        self.skip_blank();
        while self.next_is(b"-p") || self.next_is(b"--") {
            self.at += 2;
            self.skip_blank();
        }
    }

    /// Whether this unquoted word comes next.
    fn next_is(&mut self, word: &[u8]) -> bool {
        self.peek();
        let rest = &self.text[self.at..];
        rest.starts_with(word) && rest.get(word.len()).is_none_or(|&byte| word::ends_word(byte))
    }

    /// Skips spaces, tabs and a comment, but not newlines.
    fn skip_blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.bump();
        }
        if self.peek() == Some(b'#') {
            let rest = &self.text[self.at..];
            self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        }
    }

    fn skip_lines(&mut self) -> Parsed<()> {
        self.skip_blank();
        while self.peek() == Some(b'\n') {
            self.newline()?;
            self.skip_blank();
        }
        Ok(())
    }
}

/// Fails unless the innermost compound command is this one.
fn inside(open: &[Open], kind: Open) -> Parsed<()> {
    if open.last() == Some(&kind) {
        Ok(())
    } else {
        Err(Unparsable("a keyword outside of its compound command"))
    }
}

/// Closes the innermost compound command.
fn close(open: &mut Vec<Open>, kind: Open) -> Parsed<()> {
    inside(open, kind)?;
    open.pop();
    Ok(())
}

#[cfg(test)]
mod tests;
