//! JSON as people write it, with comments and commas at the end, read with the place of each thing in the text.

use std::ops::Range;

use serde_json::{Map, Value};

/// How deep values may lie in each other.
const DEEPEST: usize = 128;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
    /// The members, if it is an object.
    pub(super) members: Vec<Member>,
    /// Whether a comma follows the last member.
    pub(super) has_last_comma: bool,
}

/// A member of an object.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: String,
    /// Where its name begins.
    pub(super) start: usize,
    pub(super) node: Node,
}

impl Node {
    /// A member by its name; the last one counts, as it does for readers of JSON.
    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().rev().find(|member| member.name == name)
    }
}

/// Reads a whole text; what is wrong names the line and the column.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    let mut reader = Reader { text, at: if text.starts_with('\u{feff}') { 3 } else { 0 } };
    reader.skip()?;
    let node = reader.value(0)?;
    reader.skip()?;
    match reader.at < text.len() {
        true => Err(reader.wrong("nothing should follow here")),
        false => Ok(node),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn wrong(&self, problem: &str) -> String {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
        format!("line {line}, column {column}: {problem}")
    }

    /// Passes blanks and comments.
    fn skip(&mut self) -> Result<(), String> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            if blank > 0 {
                self.at += blank;
            } else if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                match rest.find("*/") {
                    Some(end) => self.at += end + 2,
                    None => return Err(self.wrong("a comment that does not end")),
                }
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<Node, String> {
        if depth > DEEPEST {
            return Err(self.wrong("this lies too deep"));
        }
        match self.rest().chars().next() {
            Some('{') => self.object(depth),
            Some('[') => self.array(depth),
            Some('"') => self.plain(Self::end_of_text),
            Some(_) => self.plain(Self::end_of_word),
            None => Err(self.wrong("the text ends where a value should be")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Node, String> {
        let start = self.at;
        let (mut value, mut members, mut has_last_comma) = (Map::new(), Vec::new(), false);
        self.at += 1;
        loop {
            self.skip()?;
            if self.takes('}') {
                let (span, value) = (start..self.at, Value::Object(value));
                return Ok(Node { span, value, members, has_last_comma });
            }
            if !members.is_empty() && !has_last_comma {
                return Err(self.wrong("a comma or } should be here"));
            }
            let name_at = self.at;
            if !self.rest().starts_with('"') {
                return Err(self.wrong("a name in quotes or } should be here"));
            }
            let name = self.plain(Self::end_of_text)?;
            let name = name.value.as_str().unwrap_or_default().to_owned();
            self.skip()?;
            if !self.takes(':') {
                return Err(self.wrong("a colon should be here"));
            }
            self.skip()?;
            let node = self.value(depth + 1)?;
            value.insert(name.clone(), node.value.clone());
            members.push(Member { name, start: name_at, node });
            self.skip()?;
            has_last_comma = self.takes(',');
        }
    }

    fn array(&mut self, depth: usize) -> Result<Node, String> {
        let start = self.at;
        let (mut items, mut has_comma) = (Vec::new(), true);
        self.at += 1;
        loop {
            self.skip()?;
            if self.takes(']') {
                let (span, value) = (start..self.at, Value::Array(items));
                return Ok(Node { span, value, members: Vec::new(), has_last_comma: false });
            }
            if !has_comma {
                return Err(self.wrong("a comma or ] should be here"));
            }
            items.push(self.value(depth + 1)?.value);
            self.skip()?;
            has_comma = self.takes(',');
        }
    }

    /// A value that has nothing in it.
    fn plain(&mut self, end: fn(&str) -> Option<usize>) -> Result<Node, String> {
        let start = self.at;
        let Some(length) = end(self.rest()) else { return Err(self.wrong("a text that does not end")) };
        let word = self.rest().get(..length).unwrap_or_default().to_owned();
        let value = serde_json::from_str(&word).map_err(|_| self.wrong("this is no value"))?;
        self.at += length;
        Ok(Node { span: start..self.at, value, members: Vec::new(), has_last_comma: false })
    }

    fn end_of_text(rest: &str) -> Option<usize> {
        let mut escaped = false;
        for (at, c) in rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => return Some(at + 1),
                '\n' => return None,
                _ => {}
            }
        }
        None
    }

    fn end_of_word(rest: &str) -> Option<usize> {
        let is_end = |c: char| c.is_whitespace() || ",:{}[]\"/".contains(c);
        Some(rest.find(is_end).unwrap_or(rest.len()).max(1))
    }

    fn takes(&mut self, wanted: char) -> bool {
        let is_there = self.rest().starts_with(wanted);
        self.at += usize::from(is_there);
        is_there
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn comments_and_last_commas_are_read_over() {
        let text = "// a\n{ \"a\": [1, 2, ], /* b */ \"b\": { \"c\": \"x // y\", }, }\n// end";
        let node = parse(text).unwrap();
        assert_eq!(node.value, json!({ "a": [1, 2], "b": { "c": "x // y" } }));
        assert!(node.has_last_comma);
        assert_eq!(&text[node.member("b").unwrap().node.span.clone()], "{ \"c\": \"x // y\", }");
    }

    #[test]
    fn what_is_broken_names_the_place() {
        for (text, place) in [
            ("{\n  \"a\": 1\n  \"b\": 2\n}", "line 3, column 3"),
            ("{ \"a\": { \"b\": 1 ", "line 1, column 17"),
            ("{ \"a\": \"x\n\" }", "line 1, column 8"),
            ("{ a: 1 }", "line 1, column 3"),
            ("{} x", "line 1, column 4"),
            ("", "line 1, column 1"),
            ("/* x", "line 1, column 1"),
            ("{ \"a\": tru }", "line 1, column 8"),
            ("[1 2]", "line 1, column 4"),
        ] {
            let problem = parse(text).unwrap_err();
            assert!(problem.starts_with(place), "{text:?}: {problem}");
        }
        assert!(parse(&"[".repeat(100_000)).is_err());
    }
}
