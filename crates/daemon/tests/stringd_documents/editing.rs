//! Writing, appending, editing, verifying and undoing, and variables.

use crate::served::home;

#[test]
fn files_are_written_shown_and_restored() {
    let mut served = home(&[]);
    let created = "Created: a/b.md (5 bytes, 3 lines)\n---\n1 + a\n2 + b\n3 + c\n---\nUse /undo to revert.";
    assert_eq!(served.main("/write a/b.md\na\nb\nc").ok(), created);
    assert_eq!(served.text("a/b.md"), "a\nb\nc");
    let written = "Written: a/b.md (5 bytes, 3 lines)\n---\n1 1 | a\n2   - b\n  2 + X\n3 3 | c\n---\nUse /undo to revert.";
    assert_eq!(served.main("/write a/b.md\na\nX\nc").ok(), written);
    assert_eq!(served.main("/undo").ok(), "Undo: reverted a/b.md (3 lines)\na\nb\nc");
    assert_eq!(served.main("/undo").failure(), ("NOT_FOUND".into(), "Nothing to undo.".into()));
    assert_eq!(served.text("a/b.md"), "a\nb\nc");
    assert!(!std::path::Path::new(&served.path("a/b.md.undo")).exists());
    served.main("/set {_diff_context} = 0").ok();
    let appended = "Appended to: a/b.md (now 7 bytes)\n---\n  4 + d\n---\nUse /undo to revert.";
    assert_eq!(served.main("/append a/b.md\nd").ok(), appended);
    assert_eq!(
        served.main("/append none.md\nd").failure(),
        ("NOT_FOUND".into(), "File not found: none.md".into())
    );
    assert_eq!(
        served.main("/edit a/b.md").ok(),
        "[editing: a/b.md]\n---\n1 | a\n2 | b\n3 | c\n4 | d\n\n(4 lines)"
    );
    assert!(served.main("/edit a/b.md\nz").ok().starts_with("Edited a/b.md (1 lines, whole file)\n---\n"));
    assert!(
        served
            .main("/write new.md one line")
            .ok()
            .starts_with("Created: new.md (8 bytes, 1 lines)\n---\n1 + one line")
    );
    assert_eq!(served.main("/undo").ok(), "Undo: deleted new.md (was newly created)");
    assert_eq!(
        served.main("/edit none.md").failure(),
        ("NOT_FOUND".into(), "File not found: none.md".into())
    );
}

#[test]
fn a_file_that_is_not_text_is_restored_byte_for_byte() {
    let mut served = home(&[]);
    let bytes = [0xff, 0x00, b'a', 0xfe, b'\n'];
    std::fs::write(served.path("binary"), bytes).unwrap();
    assert!(served.main("/write binary\nnew").ok().starts_with("Written: binary"));
    assert!(served.main("/undo").ok().starts_with("Undo: reverted binary"));
    assert_eq!(std::fs::read(served.path("binary")).unwrap(), bytes);
}

#[test]
fn blocks_are_edited_and_verified() {
    let mut served = home(&[("d.md", "# A\n\nold\n\n<!-- #b -->\nin b\n<!-- /b -->\n")]);
    assert_eq!(served.main("/edit d.md#b").ok(), "[editing: d.md#b]\n---\n1 | in b\n\n(1 lines)");
    assert!(served.main("/edit d.md#b\nnew b").ok().starts_with("Edited d.md#b (8 lines)\n---\n"));
    assert_eq!(served.text("d.md"), "# A\n\nold\n\n<!-- #b -->\nnew b\n<!-- /b -->\n");
    assert_eq!(served.main("/verify d.md#b").ok(), "Verified d.md#b (1 lines, 5 chars)\n---\nnew b");
    assert!(served.main("/write d.md#a\nall").ok().starts_with("Edited d.md#a (4 lines)"));
    assert_eq!(served.text("d.md"), "# A\n\nall\n");
    let (code, text) = served.main("/edit d.md#none\nx").failure();
    assert_eq!((code.as_str(), text.lines().count()), ("NOT_FOUND", 5), "{text}");
    assert_eq!(
        served.main("/verify d.md#none").failure(),
        ("NOT_FOUND".into(), "Block not found: #none in d.md".into())
    );
}

#[test]
fn variables_have_scopes_and_persist() {
    let mut served = home(&[("config.json", "{\"other\": [1], \"env\": {\"OLD\": \"1\"}}")]);
    assert_eq!(
        served.main("/set {x} = \"v\"\ny = 2\n```{t}\na\nb\n```").ok(),
        "{x} = \"v\"\n{y} = \"2\"\n{t} = (2 lines)"
    );
    assert_eq!(served.main("/set $KEY = \"g\"").ok(), "$KEY = \"g\" (global)");
    assert_eq!(served.exec("app:weather", "/set $KEY = 'a'").ok(), "$KEY = \"a\" (weather)");
    assert_eq!(
        served.exec("app:weather:korea", "/set $CITY = Seoul").ok(),
        "$CITY = \"Seoul\" (weather:korea)"
    );
    assert_eq!(
        served.exec("app:weather:korea", "/set").ok(),
        "Variables\n---\n$CITY = \"Seoul\"\n$KEY = \"a\"\n$OLD = \"1\""
    );
    assert!(served.main("/set").ok().ends_with("$KEY = \"g\"\n$OLD = \"1\""));
    assert!(served.text("config.json").contains("\"other\""));
    assert_eq!(served.text("apps/weather/korea/env.json"), "{\n  \"CITY\": \"Seoul\"\n}\n");
    let (code, text) = served.main("/set NAME value").failure();
    assert_eq!(
        (code.as_str(), text.lines().next()),
        ("INVALID_PAYLOAD", Some("Invalid assignment: NAME value"))
    );
    assert_eq!(served.exec("file:new", "/set").ok(), "Variables\n---\n$KEY = \"g\"\n$OLD = \"1\"");
    assert_eq!(served.main("/exec echo \"$x $y\"").ok().lines().last(), Some("v 2"));
}
