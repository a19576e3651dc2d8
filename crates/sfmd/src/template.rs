//! Response templates: steps for the caller, from the result of an action.

use crate::flags::Flags;
use crate::invoke::Bindings;
use crate::json::Json;
use crate::quote;
use crate::scan::{is_id_byte, is_name};

/// The result of an action.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ActionResponse {
    /// The HTTP status or the exit status.
    pub status: i64,
    /// The body as JSON, or its text as a JSON string.
    pub body: Json,
}

/// What the caller does, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Set a session variable.
    Set {
        /// The name of the variable.
        name: String,
        /// The new value.
        value: String,
    },
    /// Show a line.
    Text(String),
    /// Write a file; if that fails, show a line that starts with `to:`.
    Write {
        /// The path as the template gives it.
        path: String,
        /// The content of the file.
        bytes: Vec<u8>,
    },
}

/// Bytes of text and lines that a template produces; the rest is replaced with a note.
const MOST_BYTES: usize = 4 << 20;
/// What a line counts beside its text, so that about 100,000 lines are run.
const LINE_COST: usize = 40;
/// Loops within each other; a deeper one produces nothing.
const DEEPEST: usize = 8;

/// Applies a template. Trailing blank lines are removed.
pub fn apply(
    template: &str,
    response: &ActionResponse,
    payload: &Flags,
    bindings: &dyn Bindings,
) -> Vec<Step> {
    let root = Json::Object(vec![
        ("status".to_owned(), Json::Number(response.status.to_string())),
        ("body".to_owned(), response.body.clone()),
    ]);
    let lines: Vec<&str> = template.lines().collect();
    let mut state =
        State { root: &root, payload, bindings, steps: Vec::new(), set: Vec::new(), saved: None, bytes: 0 };
    state.run(&lines, &[]);
    while state.steps.last().is_some_and(|step| matches!(step, Step::Text(line) if line.trim().is_empty())) {
        state.steps.pop();
    }
    state.steps
}

struct State<'a> {
    root: &'a Json,
    payload: &'a Flags,
    bindings: &'a dyn Bindings,
    steps: Vec<Step>,
    /// Variables that this template has set.
    set: Vec<(String, String)>,
    saved: Option<Vec<u8>>,
    bytes: usize,
}

/// Elements of the loops around a line, by name.
type Items<'a> = [(&'a str, &'a Json)];

impl<'a> State<'a> {
    fn run(&mut self, lines: &[&'a str], items: &Items<'a>) {
        let mut index = 0;
        while let Some(line) = lines.get(index).filter(|_| self.bytes <= MOST_BYTES) {
            index += 1;
            // Loops without output end too.
            self.bytes += LINE_COST;
            if let Some((name, path)) = variable_line(line) {
                let value = self.path(path, items).map(Json::to_text).unwrap_or_default();
                self.bytes += value.len();
                self.set.push((name.to_owned(), value.clone()));
                self.steps.push(Step::Set { name: name.to_owned(), value });
            } else if let Some((item, path)) = loop_line(line) {
                let end = index + loop_end(&lines[index..]);
                self.repeat(&lines[index..end], item, path, items);
                index = end + 1;
            } else if !self.file_line(line, items) {
                self.text(line, items);
            }
        }
    }

    fn repeat(&mut self, lines: &[&'a str], item: &'a str, path: &str, items: &Items<'a>) {
        let Some(Json::Array(list)) = self.path(path, items).filter(|_| items.len() < DEEPEST) else {
            return;
        };
        for element in list {
            let mut inner = vec![(item, element)];
            inner.extend_from_slice(items);
            self.run(lines, &inner);
            if self.bytes > MOST_BYTES {
                return;
            }
        }
    }

    fn text(&mut self, line: &str, items: &Items<'a>) {
        let line = self.filled(line, items);
        self.bytes += line.len();
        self.steps.push(Step::Text(match self.bytes > MOST_BYTES {
            true => format!("… (output cut at {MOST_BYTES} bytes)"),
            false => line,
        }));
    }

    /// `save:`, `decode:` and `to:`; a problem becomes a line of text.
    fn file_line(&mut self, line: &str, items: &Items<'a>) -> bool {
        let Some((word, argument)) = line.trim().split_once(':') else { return false };
        let argument = argument.trim();
        let problem = match (word, argument) {
            ("save", path) => self.save(path),
            ("decode", "none") => None,
            ("decode", "base64") => self.decode(),
            ("decode", other) => Some(format!("unknown encoding {other}")),
            ("to", path) => match self.file_path(path, items) {
                Some(path) => self.write(path),
                None => Some("a value would lead to another directory".to_owned()),
            },
            _ => return false,
        };
        self.steps.extend(problem.map(|problem| Step::Text(format!("{word}: {problem}"))));
        true
    }

    fn save(&mut self, path: &str) -> Option<String> {
        let value = self.root.get("body").and_then(|body| body.get(path));
        self.saved = value.map(|value| value.to_text().into_bytes());
        self.saved.is_none().then(|| format!("{path} is not in the response"))
    }

    fn decode(&mut self) -> Option<String> {
        let saved = self.saved.take()?;
        self.saved = quote::from_base64(&String::from_utf8_lossy(&saved));
        self.saved.is_none().then(|| "the value is not base64".to_owned())
    }

    fn write(&mut self, path: String) -> Option<String> {
        match self.saved.take() {
            Some(bytes) if !path.is_empty() => self.steps.push(Step::Write { path, bytes }),
            Some(_) => return Some("a path is missing".to_owned()),
            None => return Some("nothing to write".to_owned()),
        }
        None
    }

    /// The value at `Response.path` or `item.path`.
    fn path(&self, path: &str, items: &Items<'a>) -> Option<&'a Json> {
        let (name, rest) = match path.find(['.', '[']) {
            Some(at) => path.split_at(at),
            None => (path, ""),
        };
        match name {
            "Response" => self.root.get(rest),
            name => items.iter().find(|(item, _)| *item == name).and_then(|(_, value)| value.get(rest)),
        }
    }

    /// A path with its slots replaced. A value is a part of a name; only a value of the caller that starts the path may be
    /// a path itself. `None` if a value would lead to another directory.
    fn file_path(&self, path: &str, items: &Items<'a>) -> Option<String> {
        let mut parts = Vec::new();
        for (index, part) in path.split('/').enumerate() {
            let (mut is_path, mut is_name) = (false, true);
            let filled = self.filled_with(part, items, |before, slot, value| {
                let may_be_path = index == 0 && before.is_empty() && !self.is_of_response(slot, items);
                is_path |= may_be_path;
                is_name &= may_be_path || !value.contains(['/', '\0']);
            });
            let is_parent = filled != part && matches!(filled.as_str(), "." | "..");
            if !is_name || is_parent && !is_path {
                return None;
            }
            parts.push(filled);
        }
        Some(parts.join("/"))
    }

    /// Whether the value of a slot comes from the response, directly or through a variable of this template.
    fn is_of_response(&self, slot: &str, items: &Items<'a>) -> bool {
        let name = slot.split(['.', '[']).next().unwrap_or_default();
        let is_given = self.payload.iter().any(|(given, _)| given == slot);
        let is_set = self.set.iter().any(|(set, _)| set == slot);
        name == "Response" || items.iter().any(|(item, _)| *item == name) || (is_set && !is_given)
    }

    /// A text with its slots replaced; inserted values are not read again.
    fn filled(&self, text: &str, items: &Items<'a>) -> String {
        self.filled_with(text, items, |_, _, _| {})
    }

    /// The same; `seen` receives the text before each value, the slot and the value.
    fn filled_with(&self, text: &str, items: &Items<'a>, mut seen: impl FnMut(&str, &str, &str)) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('{') {
            filled.push_str(&rest[..start]);
            rest = &rest[start..];
            let is_inside = |byte: &u8| is_id_byte(*byte) || matches!(byte, b'.' | b'[' | b']' | b'$');
            let length = rest.bytes().skip(1).take_while(is_inside).count();
            let inside = &rest[1..=length];
            let is_slot = rest.as_bytes().get(length + 1) == Some(&b'}') && !inside.is_empty();
            match self.slot(inside, items).filter(|_| is_slot) {
                Some(value) => {
                    seen(&filled, inside, &value);
                    filled.push_str(&value);
                    rest = &rest[length + 2..];
                }
                None => {
                    filled.push('{');
                    rest = &rest[1..];
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    fn slot(&self, inside: &str, items: &Items<'a>) -> Option<String> {
        let name = inside.split(['.', '[']).next().unwrap_or_default();
        if name == "Response" || items.iter().any(|(item, _)| *item == name) {
            return Some(self.path(inside, items).map(Json::to_text).unwrap_or_default());
        }
        let find = |pairs: &[(String, String)]| {
            pairs.iter().rev().find(|(given, _)| given == inside).map(|(_, value)| value.clone())
        };
        find(self.payload).or_else(|| find(&self.set)).or_else(|| self.bindings.variable(inside))
    }
}

/// `{var} = {Response.path}` on a line without indent.
fn variable_line(line: &str) -> Option<(&str, &str)> {
    let (left, right) = line.trim_end().split_once('=')?;
    let name = left.trim_end().strip_prefix('{')?.strip_suffix('}').filter(|name| is_name(name))?;
    let path = right.trim().strip_prefix('{')?.strip_suffix('}')?;
    let is_path = path == "Response" || path.starts_with("Response.") || path.starts_with("Response[");
    (is_path && !path.contains(['{', '}'])).then_some((name, path))
}

/// `for: item in path`.
fn loop_line(line: &str) -> Option<(&str, &str)> {
    let (item, path) = line.trim().strip_prefix("for:")?.trim().split_once(" in ")?;
    let item = item.trim();
    is_name(item).then(|| (item, path.trim()))
}

/// The index of the `end:` that closes a loop, or the number of lines.
fn loop_end(lines: &[&str]) -> usize {
    let mut depth = 0;
    for (index, line) in lines.iter().enumerate() {
        match line.trim() {
            "end:" if depth == 0 => return index,
            "end:" => depth -= 1,
            _ if loop_line(line).is_some() => depth += 1,
            _ => {}
        }
    }
    lines.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;
    impl Bindings for Nothing {
        fn variable(&self, name: &str) -> Option<String> {
            (name == "session").then(|| "S".to_owned())
        }
        fn shortcut(&self, _: &str) -> Option<String> {
            None
        }
        fn environment(&self, _: &str) -> Option<String> {
            None
        }
        fn file(&self, _: &str) -> Result<Vec<u8>, String> {
            Err(String::new())
        }
    }

    fn run(template: &str, body: &str) -> Vec<Step> {
        let body = Json::parse(body).unwrap_or(Json::String(body.to_owned()));
        let payload = vec![("p".to_owned(), "{session}".to_owned())];
        apply(template, &ActionResponse { status: 200, body }, &payload, &Nothing)
    }

    fn text(template: &str, body: &str) -> String {
        let line = |step: Step| match step {
            Step::Text(line) => line,
            other => format!("{other:?}"),
        };
        run(template, body).into_iter().map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn variables_and_text_come_from_the_response() {
        let steps = run(
            "{n} = {Response.body.n}\nIn stock: {n} {p} {session} {no} {Response.status}\n\n",
            r#"{"n":12}"#,
        );
        let set = Step::Set { name: "n".to_owned(), value: "12".to_owned() };
        assert_eq!(steps, [set, Step::Text("In stock: 12 {session} S {no} 200".to_owned())]);
        assert_eq!(text("{Response.body}|{Response.body.x}|{ {x", "raw"), "raw||{ {x");
        assert_eq!(
            text("{Response.body.l[1].a} {Response.body.l.0}", r#"{"l":[{"b":1},{"a":2}]}"#),
            "2 {\"b\":1}"
        );
    }

    #[test]
    fn loops_repeat_their_lines() {
        let template = "for: x in Response.body.l\n- {x.n}\nfor: y in x.k\n  {y} {x.n}\nend:\nend:\ndone";
        assert_eq!(
            text(template, r#"{"l":[{"n":1,"k":["a","b"]},{"n":2}]}"#),
            "- 1\n  a 1\n  b 1\n- 2\ndone"
        );
        assert_eq!(text(template, r#"{"l":3}"#), "done");
        let deep = "for: x in Response.body\n".repeat(20) + "{x}";
        assert!(text(&deep, &format!("[{}]", ["1"; 50].join(","))).len() < 2 * MOST_BYTES);
    }

    #[test]
    fn files_are_written_by_the_caller() {
        let steps = run("save: $.d\ndecode: base64\nto: out/{p}.bin\nok", r#"{"d":"aGk="}"#);
        let write = Step::Write { path: "out/{session}.bin".to_owned(), bytes: b"hi".to_vec() };
        assert_eq!(steps, [write, Step::Text("ok".to_owned())]);
        assert_eq!(text("save: x\nto: y", "{}"), "save: x is not in the response\nto: nothing to write");
    }

    #[test]
    fn a_value_in_a_path_stays_in_its_name() {
        let path = |template: &str, given: &str, name: &str| -> Option<String> {
            let body = Json::Object(vec![
                ("d".to_owned(), Json::String("x".to_owned())),
                ("name".to_owned(), Json::String(name.to_owned())),
            ]);
            let payload = vec![("p".to_owned(), given.to_owned())];
            let template = format!("{{v}} = {{Response.body.name}}\nsave: d\nto: {template}");
            let steps = apply(&template, &ActionResponse { status: 200, body }, &payload, &Nothing);
            match steps.into_iter().next_back() {
                Some(Step::Write { path, .. }) => Some(path),
                Some(Step::Text(text)) => {
                    assert_eq!(text, "to: a value would lead to another directory");
                    None
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(path("out/{p}.bin", "a..b", "").as_deref(), Some("out/a..b.bin"));
        assert_eq!(path("{p}/x", "/srv/../y", "").as_deref(), Some("/srv/../y/x"), "the caller's own path");
        assert_eq!(path("../{p}", "x", "").as_deref(), Some("../x"), "the author's own path");
        assert_eq!(path("{v}", "", "file").as_deref(), Some("file"));
        for (template, given, name) in [
            ("out/{p}", "../x", ""),
            ("out/{p}", "..", ""),
            ("out/{p}/x", "/etc", ""),
            ("out/{p}{p}", ".", ""),
            ("x{p}", "/../y", ""),
            ("{Response.body.name}", "", "/etc/x"),
            ("{Response.body.name}/x", "", ".."),
            ("{v}", "", "../x"),
        ] {
            assert_eq!(path(template, given, name), None, "{template} {given} {name}");
        }
    }
}
