//! Expansions that start with `$`: variables, `${…}`, `$(…)`, `$((…))`.

use super::word::{Around, Dollar};
use super::{Parsed, Parser, Unparsable};
use crate::policy::words::Assignment;

impl Parser<'_> {
    /// Parses an expansion. Its commands are collected; its value is never known.
    pub(super) fn dollar(&mut self, in_quotes: bool) -> Parsed<Dollar> {
        self.bump();
        match self.peek() {
            Some(b'(') => {
                self.no_pending_heredoc()?;
                self.bump();
                if self.peek() == Some(b'(') {
                    self.bump();
                    self.arithmetic()?;
                } else {
                    self.nested_list()?;
                }
            }
            Some(b'{') => {
                self.bump();
                self.parameter(in_quotes)?;
            }
            Some(b'[') => return Err(Unparsable("old arithmetic is not analyzed")),
            Some(b'\'') if !in_quotes => self.ansi_quoted()?,
            // Translated text in some shells, a `$` and plain quotes in others; unknown in both cases.
            Some(b'"') if !in_quotes => {}
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                    self.bump();
                }
            }
            Some(b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => self.bump(),
            _ => return Ok(Dollar::Plain),
        }
        Ok(Dollar::Expansion)
    }

    /// `$'…'`: some shells decode it, others read plain quotes, so it must end at the same quote for both.
    fn ansi_quoted(&mut self) -> Parsed<()> {
        self.bump();
        let rest = &self.text[self.at..];
        let length = memchr::memchr(b'\'', rest).ok_or(Unparsable("a quote is not closed"))?;
        if rest[..length].ends_with(b"\\") {
            return Err(Unparsable("an escaped quote that shells read differently"));
        }
        if !self.heredocs.is_empty() && rest[..length].contains(&b'\n') {
            return Err(Unparsable("a quoted newline before a here-document"));
        }
        self.at += length + 1;
        Ok(())
    }

    /// `${…}` after the opening brace, including the substitutions in it.
    fn parameter(&mut self, in_quotes: bool) -> Parsed<()> {
        if self.depth >= super::MAX_DEPTH {
            return Err(Unparsable("it is nested too deeply"));
        }
        if matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'|')) {
            return Err(Unparsable("a command in braces is not analyzed"));
        }
        self.depth += 1;
        self.parameter_name();
        while let Some(byte) = self.peek() {
            match byte {
                b'}' => {
                    self.bump();
                    self.depth -= 1;
                    return Ok(());
                }
                b'\\' => self.at = (self.at + 2).min(self.text.len()),
                b'$' => self.dollar(in_quotes).map(|_| ())?,
                b'`' => self.backticks(if in_quotes { Around::HereDocument } else { Around::Nothing })?,
                b'"' => {
                    self.bump();
                    self.quoted_text(Some(b'"'))?;
                }
                b'\'' if in_quotes => return Err(Unparsable("a quote that shells read differently")),
                b'\'' => {
                    self.bump();
                    self.single_quoted()?;
                }
                b'<' | b'>' if self.peek_second() == Some(b'(') => {
                    return Err(Unparsable("a substitution inside of braces"));
                }
                b'@' if self.peek_second() == Some(b'P') => {
                    return Err(Unparsable("an expansion that runs the value of a variable"));
                }
                b'\n' if !self.heredocs.is_empty() => {
                    return Err(Unparsable("a quoted newline before a here-document"));
                }
                _ => self.bump(),
            }
        }
        Err(Unparsable("a brace is not closed"))
    }

    /// The name in `${…}`, and what follows it: `[…]` and `:…` are arithmetic, `=` and `:=` assign the variable, and
    /// `${!NAME}` uses the value of a variable as a name.
    fn parameter_name(&mut self) {
        if self.peek() == Some(b'!') {
            self.script.has_arithmetic = true;
            self.bump();
        } else if self.peek() == Some(b'#') && self.peek_second() != Some(b'}') {
            self.bump();
        }
        let start = self.at;
        if matches!(self.peek(), Some(b'@' | b'*')) {
            self.bump();
        } else {
            while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                self.bump();
            }
        }
        let name = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        let second = self.peek_second();
        match self.peek() {
            Some(b'=') => self.script.assigned.push(Assignment::in_shell(name)),
            Some(b':') if second == Some(b'=') => self.script.assigned.push(Assignment::in_shell(name)),
            Some(b':') if matches!(second, Some(b'-' | b'?' | b'+')) => {}
            Some(b':' | b'[') => {
                let rest = &self.text[self.at..];
                let end = rest.iter().position(|byte| matches!(byte, b']' | b'}')).unwrap_or(rest.len());
                let is_number = |byte: &u8| {
                    byte.is_ascii_digit() || matches!(byte, b'[' | b':' | b' ' | b'-' | b'@' | b'*')
                };
                self.script.has_arithmetic |= !rest[..end].iter().all(is_number);
            }
            _ => {}
        }
    }

    /// `$((…))` after both parentheses. Text that is not clearly arithmetic may be a subshell.
    fn arithmetic(&mut self) -> Parsed<()> {
        const AMBIGUOUS: Unparsable = Unparsable("arithmetic that could be a command");
        let mut depth = 0_usize;
        let (mut after_operand, mut spaced) = (false, false);
        while let Some(byte) = self.peek() {
            let operand = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
            if operand && after_operand && spaced {
                return Err(AMBIGUOUS);
            }
            self.script.has_arithmetic |= operand && !byte.is_ascii_digit();
            match byte {
                b'$' => self.dollar(true).map(|_| ())?,
                b'(' => {
                    depth += 1;
                    self.bump();
                }
                b')' if depth > 0 => {
                    depth -= 1;
                    self.bump();
                }
                b')' if self.peek_second() == Some(b')') => {
                    self.bump();
                    self.peek();
                    self.bump();
                    return Ok(());
                }
                b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'&' | b'|' | b'^' | b'~'
                | b'?' | b':' | b',' | b'#' | b'[' | b']' | b' ' | b'\t' => self.bump(),
                _ if operand => self.bump(),
                _ => return Err(AMBIGUOUS),
            }
            spaced = matches!(byte, b' ' | b'\t') && (after_operand || spaced);
            after_operand = operand || (after_operand && matches!(byte, b' ' | b'\t'));
        }
        Err(Unparsable("arithmetic is not closed"))
    }
}
