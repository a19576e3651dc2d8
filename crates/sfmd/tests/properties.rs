//! Arbitrary documents never cause a panic, large ones take linear time, and no value leaves its place in a request.
#![allow(clippy::expect_used, reason = "a failed step ends the test")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use sfmd::action::Action;
use sfmd::document::Document;
use sfmd::flags::Invocation;
use sfmd::invoke::{Bindings, PreparedAction};
use sfmd::json::Json;
use sfmd::menu::Menu;
use sfmd::template::ActionResponse;

/// No variable is known.
struct Unbound;

impl Bindings for Unbound {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }
    fn shortcut(&self, _: &str) -> Option<String> {
        None
    }
    fn environment(&self, _: &str) -> Option<String> {
        None
    }
    fn file(&self, _: &str) -> Result<Vec<u8>, String> {
        Err("no files".to_owned())
    }
}

/// Runs everything that reads a document.
fn exercise(text: &str) {
    let mut document = Document::parse(text.to_owned());
    let menu = Menu::parse("m", text, "file:///srv/m.md");
    document.link(&[menu]);
    sfmd::render::document(&document, None);
    sfmd::render::fragment(text);
    for id in document.blocks().iter().take(3) {
        sfmd::render::block(&document, id);
        sfmd::edit::replace_block(text, id, "new");
    }
    for action in document.actions().iter().take(3) {
        if let Ok(Invocation::Run(flags)) = sfmd::flags::parse(action, "--") {
            drop(sfmd::invoke::prepare(action, &flags, &Unbound));
        }
    }
    sfmd::include::expand(document.body(), "file:///srv/d.md", &BTreeMap::new());
    sfmd::trinity::sources(text);
    sfmd::html::to_markdown(text);
    sfmd::assign::parse(text, Some(text));
    drop(sfmd::command::parse(text));
    let response = ActionResponse { status: 0, body: Json::String(text.to_owned()) };
    sfmd::template::apply(text, &response, &Vec::new(), &Unbound);
    sfmd::uri::resolve(text, Some("http://h/x"));
    sfmd::uri::decode(text);
    Json::parse(text);
}

/// Pieces that mean something to the parsers.
fn markup() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "---\n",
        "[",
        "]",
        "(",
        ")",
        "[@a B]",
        "](",
        "][",
        "`",
        "```",
        "~~~",
        "act.x\n",
        "CLI echo {a}\n",
        "  a: string\n",
        "<!-- #a -->\n",
        "<!-- /a -->\n",
        "[!nav:m](m.md)\n",
        "[!include:a](b.md)\n",
        "[r]: <x>\n",
        "# H {#a}\n",
        "\n",
        "\\",
        "!",
        "<p>",
        "</p",
        "<a href=\"",
        ">",
        "<!--",
        "&#x",
        ";",
        "é",
        "\u{0}",
        "{",
        "}",
        "$A",
        "for: x in Response.body\n",
        "end:\n",
        "\"",
        "'",
        "=",
        "http://x",
    ]);
    prop::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        exercise(&text);
    }

    #[test]
    fn arbitrary_markup_never_panics(text in markup()) {
        exercise(&text);
    }

    #[test]
    fn a_difference_leads_from_the_old_text_to_the_new(
        old in prop::collection::vec("[ab]", 0..30), new in prop::collection::vec("[ab]", 0..30),
    ) {
        let options = sfmd::diff::DiffOptions { context: 1_000, max_lines: 1_000 };
        let (old, new) = (old.join("\n"), new.join("\n"));
        let shown = sfmd::diff::lines(&old, &new, &options);
        if !old.is_empty() && old != new {
            let side = |marks: [&str; 2]| -> String {
                let line = |line: &str| marks.iter().find_map(|mark| line.split_once(mark)).map(|(_, text)| text.to_owned());
                shown.lines().filter_map(line).collect::<Vec<_>>().join("\n")
            };
            prop_assert_eq!(side([" | ", " - "]), old);
            prop_assert_eq!(side([" | ", " + "]), new);
        }
    }

    #[test]
    fn a_value_in_json_stays_in_its_string(value in any::<String>()) {
        let action = Action::parse("x", "POST /x -d '{\"a\": \"{a}\", \"b\": {a}, \"c\": \"- {a} -\", \"d\": 1}'").unwrap();
        let payload = vec![("a".to_owned(), value.clone())];
        let Ok(PreparedAction::Http { body: Some(body), .. }) = sfmd::invoke::prepare(&action, &payload, &Unbound) else {
            panic!("a request");
        };
        let json = Json::parse(&body).expect(&body);
        let Json::Object(members) = &json else { panic!("{body}") };
        prop_assert_eq!(members.len(), 4);
        prop_assert_eq!(json.get("a").unwrap(), &Json::String(value.clone()));
        prop_assert_eq!(json.get("c").unwrap(), &Json::String(format!("- {value} -")));
        prop_assert_eq!(json.get("d").unwrap(), &Json::Number("1".to_owned()));
    }

    #[test]
    fn a_value_in_an_address_stays_in_its_segment(value in any::<String>(), other in any::<String>()) {
        let action = Action::parse("x", "GET http://h/a/{v}/b?q={v}&r=1").unwrap();
        let payload = vec![("v".to_owned(), value.clone()), ("o".to_owned(), other.clone())];
        match sfmd::invoke::prepare(&action, &payload, &Unbound) {
            Ok(PreparedAction::Http { url, .. }) => {
                let (path, query) = url.split_once('?').unwrap();
                let segments: Vec<_> = path.split('/').collect();
                prop_assert_eq!(segments.len(), 6);
                prop_assert_eq!(sfmd::uri::decode(segments[4]), value.clone());
                let pairs = sfmd::uri::query(query);
                let expected = vec![("q".to_owned(), value), ("r".to_owned(), "1".to_owned()), ("o".to_owned(), other)];
                prop_assert_eq!(pairs, expected);
            }
            _ => prop_assert!(value == "." || value == ".."),
        }
    }

    #[test]
    fn a_header_never_contains_a_line_end(value in any::<String>()) {
        struct One(String);
        impl Bindings for One {
            fn variable(&self, _: &str) -> Option<String> { Some(self.0.clone()) }
            fn shortcut(&self, _: &str) -> Option<String> { None }
            fn environment(&self, _: &str) -> Option<String> { None }
            fn file(&self, _: &str) -> Result<Vec<u8>, String> { Err(String::new()) }
        }
        let action = Action::parse("x", "GET http://h/ -H \"A: {v}\"").unwrap();
        let clean = !value.chars().any(|c| c.is_control() && c != '\t');
        let prepared = sfmd::invoke::prepare(&action, &Vec::new(), &One(value));
        prop_assert_eq!(prepared.is_ok(), clean);
    }
}

/// The time that a document takes; generous, so that only a quadratic reader fails on a busy machine.
#[test]
fn large_documents_take_linear_time() {
    const SIZE: usize = 1 << 20;
    let pieces = [
        "[",
        "]",
        "[a](",
        "[a][",
        "[@a b](",
        "![",
        "[![a](b)](",
        "`",
        "` `` ",
        "((",
        "```\n",
        "~~~\n",
        "``` x\n",
        "<!-- #a -->\n",
        "<!-- #a -->\n<!-- #b -->\n",
        "<!-- /a -->\n",
        "[!nav:a](b)\n",
        "[!include:a](b)\n",
        "[a]: b\n",
        "[@a]: b\n",
        "# a\n",
        "\\[",
        "```act.a\nCLI x\n```\n",
        "<a ",
        "<a b=\"",
        "</",
        "<ul><li>",
        "<blockquote>",
        "<!--",
        "&amp",
        "<b>",
        "{a",
        "$A",
        "{x} = {Response.body}\n",
        "a\n",
        "\"",
        "for: x in y\n",
        "<nav>",
        "<pre>",
        "<a href=x>",
    ];
    for piece in pieces {
        let text = piece.repeat(SIZE / piece.len());
        let started = Instant::now();
        exercise(&text);
        let took = started.elapsed();
        assert!(took < Duration::from_secs(120), "1 MiB of {piece:?} took {took:?}");
    }
    let mixed: String = (1..1_400).map(|length| format!("{} ", "`".repeat(length))).collect();
    let started = Instant::now();
    exercise(&mixed);
    assert!(started.elapsed() < Duration::from_secs(120));
}

/// The view of a document whose includes come from loaded sources.
fn included(body: &str, sources: &[(&str, &str)]) -> String {
    let loaded = |(name, text): &(&str, &str)| (format!("file:///srv/{name}"), Ok((*text).to_owned()));
    let sources = sources.iter().map(loaded).collect();
    match sfmd::include::expand(body, "file:///srv/d.md", &sources) {
        sfmd::include::Expansion::Done(text) => text,
        needs => panic!("{needs:?}"),
    }
}

/// As above: a source is read once, however many of its blocks are included.
#[test]
fn many_includes_of_large_sources_take_linear_time() {
    const BLOCKS: usize = 20_000;
    let blocks = |block: fn(usize) -> String| -> String { (0..BLOCKS).map(block).collect() };
    let includes = blocks(|n| format!("[!include:b{n}](s.md)\n"));
    let marked = blocks(|n| format!("<!-- #b{n} -->\nmarked {n}, a line of text\n<!-- /b{n} -->\n"));
    let sections = blocks(|n| format!("# b{n}\nsection {n}, a line of text\n"));
    let same = "[!include:b1](s.md)\n".repeat(BLOCKS);
    let twice = |level: usize| {
        format!("<!-- #x -->\n[!include:x](f{0}.md)\n[!include:x](f{0}.md)\n<!-- /x -->", level + 1)
    };
    let levels: Vec<(String, String)> = (0..31).map(|level| (format!("f{level}.md"), twice(level))).collect();
    let mut levels: Vec<(&str, &str)> =
        levels.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    levels.push(("f31.md", "<!-- #x -->\n<!-- /x -->"));
    let started = Instant::now();
    assert_eq!(
        included(&includes, &[("s.md", &marked)]).lines().filter(|line| line.starts_with("marked")).count(),
        BLOCKS
    );
    assert_eq!(
        included(&includes, &[("s.md", &sections)])
            .lines()
            .filter(|line| line.starts_with("section"))
            .count(),
        BLOCKS
    );
    assert_eq!(
        included(&same, &[("s.md", &marked)]).lines().filter(|line| line.starts_with("marked 1,")).count(),
        BLOCKS
    );
    assert!(included("[!include:x](f0.md)", &levels).contains("too many includes"), "2^31 empty blocks");
    let took = started.elapsed();
    assert!(took < Duration::from_secs(60), "{took:?}");
}
