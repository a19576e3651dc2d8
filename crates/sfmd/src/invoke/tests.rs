//! Commands and requests from declarations and values.

use std::collections::HashMap;

use super::*;
use crate::flags::{self, Invocation};

#[derive(Default)]
struct Known(HashMap<&'static str, &'static str>);

impl Bindings for Known {
    fn variable(&self, name: &str) -> Option<String> {
        self.0.get(format!("{{{name}}}").as_str()).map(|it| (*it).to_owned())
    }
    fn shortcut(&self, id: &str) -> Option<String> {
        self.0.get(format!("@{id}").as_str()).map(|it| (*it).to_owned())
    }
    fn environment(&self, name: &str) -> Option<String> {
        self.0.get(format!("${name}").as_str()).map(|it| (*it).to_owned())
    }
    fn file(&self, path: &str) -> Result<Vec<u8>, String> {
        self.0.get(path).map(|it| it.as_bytes().to_vec()).ok_or("not found".to_owned())
    }
}

fn known() -> Known {
    let pairs = [("{v}", "a b"), ("@s", "./s.md"), ("$KEY", "k1"), ("f.txt", "hi"), ("{h}", "x\r\ny")];
    Known(pairs.into_iter().collect())
}

fn run(declaration: &str, args: &str) -> Result<PreparedAction, String> {
    let action = Action::parse("x", declaration).unwrap();
    let Invocation::Run(flags) = flags::parse(&action, args).map_err(|it| it.0)? else {
        return Err("SCHEMA".to_owned());
    };
    let payload = payload(&action, flags, &known()).map_err(|it| it.0)?;
    prepare(&action, &payload, &known()).map_err(|it| it.0)
}

fn command(declaration: &str, args: &str) -> String {
    match run(declaration, args) {
        Ok(PreparedAction::Cli { command }) => command,
        other => format!("{other:?}"),
    }
}

#[test]
fn commands_receive_quoted_values() {
    let table = [
        ("CLI echo {a} {a}", "--a 'x y'", "echo 'x y' 'x y'"),
        (
            "CLI echo {v} {unknown} ${v} $KEY $NO \\$KEY $1",
            "--",
            "echo 'a b' {unknown} ${v} k1 $NO \\$KEY $1",
        ),
        ("CLI run {...args}", "--a 1 --b 'x y'", "run --a 1 --b 'x y'"),
        ("CLI run {...args}", "--$(id) 1", "run '--$(id)' 1"),
        ("CLI open {a}", "--a @s", "open ./s.md"),
        ("CLI open {a}", "--a @none", "open @none"),
        ("CLI echo {a}", "--a '{v}!'", "echo 'a b!'"),
        ("CLI echo {n}\n  n: number = \"7\"", "--", "echo 7"),
        ("CLI echo {a}", "--a {x}$5", "echo '{x}$5'"),
    ];
    for (declaration, args, expected) in table {
        assert_eq!(command(declaration, args), expected, "{declaration} {args}");
    }
}

#[test]
fn requests_have_addresses_headers_and_bodies() {
    let http = |declaration, args| match run(declaration, args) {
        Ok(PreparedAction::Http { method, url, headers, body }) => {
            let headers: Vec<_> = headers.into_iter().map(|(k, v)| format!("{k}: {v}")).collect();
            format!("{} {url} [{}] {}", method.name(), headers.join("; "), body.unwrap_or_default())
        }
        other => format!("{other:?}"),
    };
    let accept = "Accept: text/markdown, text/plain";
    let json = "Content-Type: application/json";
    let table = [
        (
            "GET http://h/{id}?a=1",
            "--id 'a/b' --q 'x y'",
            format!("GET http://h/a%2Fb?a=1&q=x+y [{accept}] "),
        ),
        ("GET http://h/a.{x}?d={x}", "--x ..", format!("GET http://h/a...?d=.. [{accept}] ")),
        ("GET http://h/?a=%20", "--", format!("GET http://h/?a=%20 [{accept}] ")),
        ("DELETE /x -H \"K: $KEY {v}\"", "--", format!("DELETE /x [K: k1 a b; {accept}] ")),
        ("POST /x", "--a '\"' --b 2", format!(r#"POST /x [{accept}; {json}] {{"a":"\"","b":"2"}}"#)),
        ("PUT /{a}", "--a 1", format!("PUT /1 [{accept}; {json}] {{}}")),
        (
            "POST /x -d '{\"a\": \"{a}\", \"n\": {n}, \"k\": \"$KEY\", \"b\": \"{f|base64file}\", \"t\": \"- {a} -\"}'",
            "--a '\"x' --n '1, 2' --f f.txt",
            format!(
                r#"POST /x [{accept}; {json}] {{"a": "\"x", "n": "1, 2", "k": "k1", "b": "aGk=", "t": "- \"x -"}}"#
            ),
        ),
        (
            "POST /x -H \"Content-Type: application/x-www-form-urlencoded\" -d 'a={a}&b=1'",
            "--a '1&b=2'",
            format!("POST /x [Content-Type: application/x-www-form-urlencoded; {accept}] a=1%26b%3D2&b=1"),
        ),
    ];
    for (declaration, args, expected) in table {
        assert_eq!(http(declaration, args), expected, "{declaration} {args}");
    }
}

#[test]
fn values_that_cannot_be_placed_are_rejected() {
    let table = [
        ("CLI echo {a}", "--a '$x'", "$var cannot be used in command arguments."),
        (
            "CLI echo {a}\n  a: string (required)",
            "--",
            "Missing required flags: a\n\nUsage:\n  --a <string> (required)",
        ),
        ("GET http://h/$TOKEN", "--", "Unresolved environment variable(s):\n  $TOKEN"),
        ("GET http://h/a/{x}/b", "--x ..", "The value of --x cannot be used"),
        ("GET http://h/a/{x}{y}/b", "--x . --y .", "The value of --x cannot be used"),
        ("GET http://h/a/.{x}/b", "--x .", "The value of --x cannot be used"),
        ("GET http://h/a/{x}.?q", "--x .", "The value of --x cannot be used"),
        ("GET http://h/a/%2e{x}", "--x .", "The value of --x cannot be used"),
        ("GET http://h/a/.{x}./b", "--x=", "The value of --x cannot be used"),
        ("GET http://h/ -H \"A: {h}\"", "--", "Header A contains a control character."),
        ("POST /x -d '{f|file}'", "--f no.txt", "Cannot read the file of --f: no.txt: not found"),
    ];
    for (declaration, args, expected) in table {
        let error = run(declaration, args).unwrap_err();
        assert!(error.starts_with(expected), "{declaration}: {error}");
    }
}
