//! Redirections and here-documents.

use super::word::ShellToken;
use super::{Parsed, Parser, Unparsable};

/// A here-document whose body has not been read yet.
#[derive(Debug)]
pub(super) struct Heredoc {
    delimiter: Vec<u8>,
    /// `<<-`: tabs at the start of lines are removed.
    strips_tabs: bool,
    /// The delimiter is not quoted, so that substitutions in the body are expanded.
    expands: bool,
}

impl Parser<'_> {
    /// Parses one redirection; returns whether it may write to a file.
    pub(super) fn redirection(&mut self) -> Parsed<bool> {
        let output = self.peek() == Some(b'>');
        self.bump();
        let mut writes = output;
        match (output, self.peek()) {
            (false, Some(b'<')) => {
                self.bump();
                return self.here().map(|()| false);
            }
            (false, Some(b'>')) => {
                self.bump();
                writes = true;
            }
            (true, Some(b'>' | b'|' | b'&')) | (false, Some(b'&')) => self.bump(),
            _ => {}
        }
        let target = self.target()?;
        Ok(writes && !target.is_harmless_target())
    }

    /// Parses the delimiter after `<<`.
    fn here(&mut self) -> Parsed<()> {
        if self.peek() == Some(b'<') {
            self.bump();
            return self.target().map(drop);
        }
        let strips_tabs = self.peek() == Some(b'-');
        if strips_tabs {
            self.bump();
        }
        self.skip_blank();
        let raw = self.at;
        let token = self.target()?;
        let source = &self.text[raw..self.at];
        if source.iter().any(|byte| matches!(byte, b'$' | b'`' | b'\n')) || token.text.is_empty() {
            return Err(Unparsable("the end of a here-document is not a plain word"));
        }
        let expands = !source.iter().any(|byte| matches!(byte, b'\'' | b'"' | b'\\'));
        self.heredocs.push(Heredoc { delimiter: token.text, strips_tabs, expands });
        Ok(())
    }

    fn target(&mut self) -> Parsed<ShellToken> {
        self.skip_blank();
        match self.peek() {
            Some(b'<' | b'>') if self.peek_second() == Some(b'(') => self.word(),
            None | Some(b'\n' | b';' | b'|' | b'&' | b'(' | b')' | b'<' | b'>') => {
                Err(Unparsable("a redirection without its target"))
            }
            Some(_) => self.word(),
        }
    }

    /// A newline, and the bodies of the here-documents of the line.
    pub(super) fn newline(&mut self) -> Parsed<()> {
        self.bump();
        for heredoc in std::mem::take(&mut self.heredocs) {
            self.body(&heredoc)?;
        }
        Ok(())
    }

    fn body(&mut self, heredoc: &Heredoc) -> Parsed<()> {
        let start = self.at;
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let mut line = &rest[..length];
            while let (true, Some((b'\t', after))) = (heredoc.strips_tabs, line.split_first()) {
                line = after;
            }
            let end = self.at;
            self.at = (self.at + length + 1).min(self.text.len());
            if line == heredoc.delimiter {
                let body = &self.text[start..end];
                return if heredoc.expands { self.expand_body(body) } else { Ok(()) };
            }
            if heredoc.expands && line.ends_with(b"\\") {
                return Err(Unparsable("a here-document with joined lines"));
            }
        }
        Err(Unparsable("a here-document without its end"))
    }

    /// Parses the substitutions in the body of a here-document.
    fn expand_body(&mut self, body: &[u8]) -> Parsed<()> {
        let mut inner = Parser::new(body, self.depth + 1)?;
        inner.quoted_text(None)?;
        self.script.commands.append(&mut inner.script.commands);
        self.script.assigned.append(&mut inner.script.assigned);
        Ok(())
    }
}
