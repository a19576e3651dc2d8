//! What a document contains, and what it is warned about.

use super::*;

fn parse(text: &str) -> Document {
    Document::parse(text.to_owned())
}

#[test]
fn a_document_has_menus_blocks_shortcuts_and_actions() {
    let document = parse(
        "---\ntitle: 7\n---\n[!nav:main](./nav.md)\n[!menu:api](./api.md)\n[!include:foot](./foot.md)\n\
         <!-- #a -->\n[@x One](./1) [@x Two](./2)\n<!-- /a -->\n[@y]: <./y z> \"t\"\n[@x]: ./no\n[r]: https://r.test\n[r]: no\n\
         ```act.run\nCLI echo\n```\n~~~md\n[@no Label](x)\n[@z]: z\n~~~\n`[@code x](y)`\n```act.run.response\nok\n```\n",
    );
    assert_eq!(document.title().as_deref(), Some("7"));
    let names: Vec<_> = document.menus().iter().map(|menu| menu.name.as_str()).collect();
    assert_eq!(names, ["main", "api"]);
    assert_eq!(document.blocks(), ["foot", "a"]);
    let shortcuts: Vec<_> = document.shortcuts().iter().map(|it| (it.id(), it.href())).collect();
    assert_eq!(shortcuts, [("x", "./1"), ("x2", "./2"), ("y", "./y z")]);
    assert_eq!(document.reference("r"), Some(("r", "https://r.test")));
    assert_eq!(document.action("run").unwrap().response.as_deref(), Some("ok\n"));
    assert_eq!(document.warnings(), [] as [&str; 0]);
}

#[test]
fn problems_are_warnings_with_a_line() {
    let document = parse(
        "---\nt: x\n---\n<!-- #a -->\n<!-- #b -->\n<!-- /a -->\n<!-- /b -->\n<!-- /c -->\n<!-- #a -->\n[!nav](x.md)\n```act.x\nnothing\n```\n",
    );
    let codes: Vec<_> = document
        .warnings()
        .iter()
        .map(|it| it.splitn(3, ": ").take(2).collect::<Vec<_>>().join(" "))
        .collect();
    let expected = [
        "Line 5 NESTED_BLOCK",
        "Line 6 MISMATCHED_BLOCK",
        "Line 7 MISMATCHED_BLOCK",
        "Line 8 UNEXPECTED_BLOCK_CLOSE",
        "Line 9 DUPLICATE_BLOCK_ID",
        "Line 11 INVALID_ACTION_BLOCK",
        "Line 9 UNCLOSED_BLOCK",
        "Line 10 MISSING_IDENTIFIER",
    ];
    assert_eq!(codes, expected);
}

#[test]
fn invocations_become_links_where_the_shortcut_is_known() {
    let menu =
        Menu::parse("main", "[@home Home](../index.md)\n[@b B](https://b.test)", "file:///srv/nav/m.md");
    let mut document = parse(
        "[@x One](./1)\n[Uno][@x] [Go][@main.home] [Bee][@b] [No][@nope] \\[E][@x] `[C][@x]`\n```\n[F][@x]\n```\n",
    );
    document.link(&[menu]);
    let expected = "[@x One](./1)\n[@x Uno](./1) [@main.home Go](file:///srv/index.md) [@main.b Bee](https://b.test) \
                    [No][@nope] \\[E][@x] `[C][@x]`\n```\n[F][@x]\n```\n";
    assert_eq!(document.source(), expected);
    assert_eq!(document.warnings(), ["Unknown shortcut @nope — define with: [@nope Label](URI)"]);
}

#[test]
fn warnings_beyond_the_first_hundred_are_counted() {
    let mut document = parse(&format!("{}[No][@nope]\n", "<!-- /a -->\n".repeat(300)));
    document.link(&[]);
    let warnings = document.warnings();
    assert_eq!((warnings.len(), warnings[100].as_str()), (101, "... 201 more"));
    assert!(warnings[99].starts_with("Line 100: UNEXPECTED_BLOCK_CLOSE"), "{}", warnings[99]);
}

#[test]
fn repeated_ids_are_numbered_unless_they_lead_to_the_same_address() {
    let table: [(&str, &[(&str, &str)]); 4] = [
        ("[@a A](1) [@a B](1)", &[("a", "1")]),
        ("[@a A](1) [@a B](2) [@a C](2) [@a D](1)", &[("a", "1"), ("a2", "2")]),
        ("[@a A](1) [@a2 B](2) [@a C](3)", &[("a", "1"), ("a2", "2"), ("a3", "3")]),
        ("[@a A](1) [@a B](2) [@a2 C](3)", &[("a", "1"), ("a2", "2"), ("a22", "3")]),
    ];
    for (text, expected) in table {
        let document = parse(text);
        let found: Vec<_> = document.shortcuts().iter().map(|it| (it.id(), it.href())).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn directives_in_blocks_are_text_but_for_includes() {
    let inside = "[!nav:in](in.md)\n[!requirements](in.md)\n[!include:x](x.md)\n";
    let document = parse(&format!("<!-- #a -->\n{inside}<!-- /a -->\n[!nav:out](out.md)\n"));
    let menus: Vec<_> = document.menus().iter().map(|menu| menu.name.as_str()).collect();
    assert_eq!((menus, document.requirements()), (vec!["out"], None));
    assert_eq!(document.includes().len(), 1);
    assert_eq!(parse("[!requirements](setup.md)").requirements(), Some("setup.md"));
    assert_eq!(parse("<!-- #a -->\n[!nav:out](out.md)").menus().len(), 1, "a block without an end");
}
