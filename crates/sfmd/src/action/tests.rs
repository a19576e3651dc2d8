//! Declarations of actions.

use super::*;

#[test]
fn http_actions_have_headers_a_body_and_fields() {
    let text = "post https://x.test/{id} -H \"Authorization: Bearer $KEY\" -d '{\"a\": \"{a}\"}' -H \"X: y\"\n  \
                id, -i: string (required) \"The id\"\n\ta: number \"How many\" = \"1\"\n  b:boolean\nnot: indented\n  \
                c: string (optional, max:50)\n  bad name: x\n";
    let action = Action::parse("go", text).unwrap();
    assert_eq!((action.method, action.target.as_str()), (ActionMethod::Post, "https://x.test/{id}"));
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(action.headers, [header("Authorization", "Bearer $KEY"), header("X", "y")]);
    assert_eq!(action.body.as_deref(), Some("{\"a\": \"{a}\"}"));
    let names: Vec<_> = action.fields.iter().map(|field| (field.name.as_str(), field.is_required)).collect();
    assert_eq!(names, [("id", true), ("a", false), ("b", false), ("c", false)]);
    assert_eq!((action.fields[0].alias, action.fields[1].default.as_deref()), (Some('i'), Some("1")));
    let schema = "/act.go\n   -i, --id <string> (required) — The id\n   --a <number> (optional) — How many\n   \
                  --b <boolean> (optional)\n   --c <string> (optional)";
    assert_eq!(action.schema(), schema);
    assert_eq!(action.invocation(), "/act.go --id <string>");
}

#[test]
fn a_command_keeps_its_flags() {
    let action = Action::parse("c", "CLI curl -H \"A: b\" -d 'x' {url}").unwrap();
    assert_eq!((action.target.as_str(), action.headers.len()), ("curl -H \"A: b\" -d 'x' {url}", 0));
    assert_eq!(action.schema(), "/act.c\n   (no flags)");
}

#[test]
fn other_fences_are_not_actions() {
    for text in ["", "\n", "GET", "HEAD http://x", "echo x", "CLI "] {
        assert_eq!(Action::parse("x", text), None, "{text:?}");
    }
    assert_eq!(Action::parse("a.b", "CLI x"), None);
}
