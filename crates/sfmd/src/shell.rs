//! The quoting of a shell command at each place of its template, so that a value stays one word wherever it is inserted.

use crate::quote;

/// Why a value is refused after a construct that this reader does not follow.
const CANNOT_BE_QUOTED: &str = "stands in a part of the command that cannot be quoted";

/// Where a place of a command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShellContext {
    /// Inside `( )` or `$( )`.
    Parentheses,
    /// Inside `name=( )`. An operator there is an error, after which bash runs the next line of a value.
    List,
    Single,
    Double,
    /// Inside `$' '`.
    AnsiC,
    Comment,
    Backquotes,
    /// Inside `(( ))` or `$(( ))`, and each pair of parentheses there.
    Arithmetic,
    /// Inside `$[ ]`, `name[ ]` and a pattern: bash may evaluate each as arithmetic.
    Brackets,
    /// Inside `[[ ]]`, where an operator such as `-eq` evaluates its operands as arithmetic.
    Conditional,
    /// Inside `${ }`.
    Braces,
}

/// What directly precedes the next character, where that changes its meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Preceding {
    #[default]
    Other,
    /// A `$` that is neither escaped nor the second of `$$`.
    Dollar,
    /// `$name`.
    Variable,
    /// The parenthesis that opened the context.
    Parenthesis,
    /// The `${` that opened the context.
    Brace,
    /// A `[` at the start of a word.
    Bracket,
    /// So many `<`.
    Less(u8),
    /// A value of digits only.
    Number,
}

/// Follows the text of a command from left to right.
///
/// A construct whose extent is not certain makes every later value an error, so a mistake here never exposes a value.
#[derive(Debug, Default)]
pub(crate) struct ShellText {
    text: String,
    contexts: Vec<ShellContext>,
    preceding: Preceding,
    /// Where the current word starts.
    word: usize,
    is_escaped: bool,
    /// A construct was found whose extent this reader does not follow.
    is_uncertain: bool,
}

impl ShellText {
    /// Adds text that the shell interprets.
    pub(crate) fn literal(&mut self, text: &str) {
        for c in text.chars() {
            let ends_word = self.follow(c);
            self.text.push(c);
            if ends_word {
                self.word = self.text.len();
            }
        }
    }

    /// Adds a value that the shell must not interpret.
    pub(crate) fn value(&mut self, value: &str) -> Result<(), &'static str> {
        if value.contains('\0') {
            return Err("contains a NUL character");
        }
        let is_escaped = std::mem::take(&mut self.is_escaped);
        let preceding = std::mem::take(&mut self.preceding);
        if self.is_uncertain || preceding == Preceding::Less(2) {
            return Err(CANNOT_BE_QUOTED);
        }
        match preceding {
            Preceding::Dollar => return Err("follows a $ in the command"),
            Preceding::Bracket if self.contexts.last() == Some(&ShellContext::List) => {
                self.contexts.push(ShellContext::Brackets);
            }
            _ => {}
        }
        let plain = quote::shell(value);
        let is_bare = *plain == *value && !value.is_empty();
        self.check_nesting(value, is_bare)?;
        if is_bare {
            self.bare(value, preceding);
            return Ok(());
        }
        if is_escaped {
            return Err("follows a backslash in the command");
        }
        self.quoted(value, &plain)
    }

    /// The command so far.
    pub(crate) fn finish(self) -> String {
        self.text
    }

    /// Refuses what bash would evaluate even if it were quoted. The output of a command counts too, so the whole nesting does.
    fn check_nesting(&self, value: &str, is_bare: bool) -> Result<(), &'static str> {
        use ShellContext::*;
        let is_inside = |contexts: &[ShellContext]| self.contexts.iter().any(|it| contexts.contains(it));
        let is_name = || value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if is_inside(&[Arithmetic, Brackets]) && !is_integer(value) {
            return Err("stands in arithmetic or a subscript and is not an integer");
        }
        if is_inside(&[Braces]) && !(is_bare && is_name()) {
            return Err("stands in ${ }, where it cannot be quoted");
        }
        if is_inside(&[Conditional]) && (!is_bare || value.contains('=')) {
            return Err("stands in [[ ]], where it could be evaluated; write [ ] in the document");
        }
        Ok(())
    }

    /// Adds a value that means nothing to the shell on its own.
    fn bare(&mut self, value: &str, preceding: Preceding) {
        let is_unquoted = self.is_unquoted();
        if preceding == Preceding::Variable {
            // Otherwise the value would become a part of the name.
            self.text.push_str(if self.contexts.last() == Some(&ShellContext::Double) {
                "\"\""
            } else {
                "''"
            });
        }
        let is_list = value.contains(',') || value.contains("..");
        if is_unquoted && is_list && self.text[self.word..].contains('{') {
            // Otherwise the value would become several words of a brace expansion.
            self.text.push_str(&format!("'{value}'"));
            return;
        }
        self.text.push_str(value);
        if is_unquoted && value.bytes().all(|byte| byte.is_ascii_digit()) {
            self.preceding = Preceding::Number;
        }
    }

    fn quoted(&mut self, value: &str, plain: &str) -> Result<(), &'static str> {
        use ShellContext::*;
        match self.contexts.last() {
            None | Some(Parentheses | List | Conditional | Arithmetic | Brackets | Braces) => {
                self.text.push_str(plain);
            }
            Some(Single) => self.text.push_str(&value.replace('\'', r"'\''")),
            // The quotes stay visible, as authors of documents know it.
            Some(Double) => {
                self.text.push('\'');
                self.escape(value, &['"', '\\', '$', '`']);
                self.text.push('\'');
            }
            Some(AnsiC) => self.escape(value, &['\\', '\'']),
            Some(Comment) => {}
            Some(Backquotes) => return Err("stands in backquotes; write $( ) in the document"),
        }
        Ok(())
    }

    fn escape(&mut self, value: &str, special: &[char]) {
        for c in value.chars() {
            if special.contains(&c) {
                self.text.push('\\');
            }
            self.text.push(c);
        }
    }

    /// Updates the state for a character that is added next; returns whether a new word starts behind it.
    fn follow(&mut self, c: char) -> bool {
        use ShellContext::*;
        let preceding = std::mem::take(&mut self.preceding);
        self.is_uncertain |= preceding == Preceding::Less(2) && c != '<';
        if std::mem::take(&mut self.is_escaped) {
            return c == '\n' && self.joins_lines(preceding);
        }
        if preceding == Preceding::Number && matches!(c, '<' | '>') {
            // Otherwise the value would become the number of a descriptor.
            self.text.push_str("''");
        }
        match self.contexts.last() {
            Some(Single) if c == '\'' => self.leave(),
            Some(AnsiC) if c == '\'' => self.leave(),
            Some(Comment) if c == '\n' => {
                self.leave();
                return true;
            }
            Some(Backquotes) if c == '`' => self.leave(),
            Some(AnsiC | Backquotes) => self.is_escaped = c == '\\',
            Some(Single | Comment) => {}
            Some(Double) if c == '"' => self.leave(),
            Some(Double) => {
                return self.expands(c, preceding) && preceding == Preceding::Dollar && c == '(';
            }
            Some(Braces) => self.follow_braces(c, preceding),
            Some(Arithmetic) => return self.follow_arithmetic(c, preceding),
            Some(Brackets) => return self.follow_brackets(c, preceding),
            None | Some(Parentheses | List | Conditional) => return self.follow_command(c, preceding),
        }
        false
    }

    /// A backslash at the end of a line. It joins tokens as if it were not there; between words it is a blank.
    fn joins_lines(&mut self, preceding: Preceding) -> bool {
        let is_between_words = self.is_unquoted() && self.text.len() == self.word + 1;
        let is_text = self.contexts.last() == Some(&ShellContext::Double) && preceding == Preceding::Other;
        self.is_uncertain |= !is_between_words && !is_text;
        is_between_words
    }

    /// Handles what is special also in double quotes; returns whether the character was.
    fn expands(&mut self, c: char, preceding: Preceding) -> bool {
        use ShellContext::*;
        match (preceding, c) {
            (_, '\\') => {
                self.is_escaped = true;
                self.preceding = preceding;
            }
            (_, '`') => self.contexts.push(Backquotes),
            // `$$` is complete.
            (Preceding::Dollar, '$') => {}
            (_, '$') => self.preceding = Preceding::Dollar,
            (Preceding::Dollar, '(') => self.enter(Parentheses, Preceding::Parenthesis),
            (Preceding::Dollar, '{') => self.enter(Braces, Preceding::Brace),
            (Preceding::Dollar, '[') => self.contexts.push(Brackets),
            (Preceding::Dollar | Preceding::Variable, c) if is_name_char(c) => {
                self.preceding = Preceding::Variable;
            }
            _ => return false,
        }
        true
    }

    fn follow_command(&mut self, c: char, preceding: Preceding) -> bool {
        use ShellContext::*;
        let word = &self.text[self.word..];
        let ends_word = matches!(c, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')');
        // A pattern of `case` may have a closing parenthesis without an opening one.
        self.is_uncertain |= ends_word && word == "case" && !self.contexts.is_empty();
        self.is_uncertain |= self.contexts.last() == Some(&List)
            && preceding != Preceding::Dollar
            && matches!(c, ';' | '&' | '|' | '<' | '>' | '(');
        match (preceding, c) {
            (Preceding::Bracket, '[') => self.contexts.push(Conditional),
            // Elsewhere it is a pattern, whose text can be quoted.
            (Preceding::Bracket, c) if !ends_word && self.contexts.last() == Some(&List) => {
                self.contexts.push(Brackets);
                return self.follow_brackets(c, preceding);
            }
            (Preceding::Parenthesis, '(') => {
                self.leave();
                self.contexts.extend([Arithmetic, Arithmetic]);
            }
            (Preceding::Dollar, '\'') => self.contexts.push(AnsiC),
            (_, '\'') => self.contexts.push(Single),
            (_, '"') => self.contexts.push(Double),
            (_, '[') if word.is_empty() => self.preceding = Preceding::Bracket,
            (Preceding::Other | Preceding::Number, '[') if word.chars().all(is_name_char) => {
                self.contexts.push(Brackets);
            }
            (_, ']') if word == "]" && self.contexts.last() == Some(&Conditional) => self.leave(),
            (_, '#') if word.is_empty() => self.comment(),
            (Preceding::Less(count), '<') => {
                self.preceding = Preceding::Less(count + 1);
                self.is_uncertain |= count > 2;
            }
            (_, '<') => self.preceding = Preceding::Less(1),
            _ if self.expands(c, preceding) => {}
            (_, '(') if self.text.ends_with('=') => self.contexts.push(List),
            (_, '(') => self.enter(Parentheses, Preceding::Parenthesis),
            (_, ')') if matches!(self.contexts.last(), Some(Parentheses | List)) => self.leave(),
            _ => {}
        }
        ends_word
    }

    /// A `#` at the start of a word. Behind `)`, and in patterns and lists, it may also be text.
    fn comment(&mut self) {
        self.is_uncertain |= !self.contexts.is_empty() || self.text.ends_with([')', '<', '>']);
        self.contexts.push(ShellContext::Comment);
    }

    /// Nested subshells may look like arithmetic, so what differs there makes the rest uncertain.
    fn follow_arithmetic(&mut self, c: char, preceding: Preceding) -> bool {
        use ShellContext::*;
        let word = &self.text[self.word..];
        self.is_uncertain |= matches!(c, '\'' | '"' | '\n') || c == '#' && word.is_empty();
        self.is_uncertain |= matches!(c, ' ' | '\t' | ';' | '&' | '|') && word == "case";
        if c == ')' {
            self.leave();
            let is_end = self.contexts.last() != Some(&Arithmetic);
            self.is_uncertain |= is_end && !self.text.ends_with(')');
        } else if !self.expands(c, preceding) && c == '(' {
            self.contexts.push(Arithmetic);
        }
        matches!(c, ' ' | '\t' | ';' | '&' | '|' | '(' | ')')
    }

    /// Brackets may also be text, so what differs there makes the rest uncertain.
    fn follow_brackets(&mut self, c: char, preceding: Preceding) -> bool {
        let is_substitution = self.expands(c, preceding);
        match c {
            ']' => self.leave(),
            '[' if !is_substitution => self.contexts.push(ShellContext::Brackets),
            '(' | ')' if is_substitution => return true,
            '\'' | '"' | '#' | '<' | '>' | ';' | '&' | '|' | '(' | ')' | '{' | '}' | '\n'
                if !is_substitution =>
            {
                self.is_uncertain = true;
            }
            _ => {}
        }
        false
    }

    fn follow_braces(&mut self, c: char, preceding: Preceding) {
        use ShellContext::*;
        // `${ command; }` contains commands.
        self.is_uncertain |= preceding == Preceding::Brace && matches!(c, ' ' | '\t' | '\n' | '|');
        let around = self.contexts.iter().rev().find(|it| **it != Braces);
        let is_quoted = matches!(around, Some(Double | Arithmetic | Brackets));
        match c {
            '}' => self.leave(),
            '[' if preceding != Preceding::Dollar => self.contexts.push(Brackets),
            // Whether these are quotes depends on the operator.
            '\'' | '"' if is_quoted => self.is_uncertain = true,
            '\'' if preceding == Preceding::Dollar => self.contexts.push(AnsiC),
            '\'' => self.contexts.push(Single),
            '"' => self.contexts.push(Double),
            c => {
                self.expands(c, preceding);
            }
        }
    }

    fn enter(&mut self, context: ShellContext, preceding: Preceding) {
        self.contexts.push(context);
        self.preceding = preceding;
    }

    fn leave(&mut self) {
        self.contexts.pop();
    }

    fn is_unquoted(&self) -> bool {
        use ShellContext::{Conditional, List, Parentheses};
        matches!(self.contexts.last(), None | Some(Parentheses | List | Conditional))
    }
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_integer(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
#[path = "shell/tests.rs"]
mod tests;
