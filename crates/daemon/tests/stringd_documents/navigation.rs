//! Opening, menus, history, shortcuts, includes and directories.

use serde_json::json;

use crate::served::{Stringd, configured, home};

const SHOP: &str = r#"---
title: Shop
default: stock
---
[!nav:main](./nav/main.md)

# Shop

<!-- #about -->
## About
See [@terms Terms](./terms.md) or [Supplier](https://supplier.test/a).
<!-- /about -->

```act.stock
CLI echo "12 balls"
```

```act.order
POST http://127.0.0.1:9000/orders
  item, -i: string (required) "What to order"
  qty: number "How many" = "1"
```
"#;

fn shop() -> Stringd {
    home(&[
        ("shop/index.md", SHOP),
        ("shop/nav/main.md", "[@home Home](../index.md)\n[@b B](b) [@c C](c) [@d D](d)"),
        ("shop/terms.md", "# Terms\nNone."),
        ("plan.md", "---\ntitle: Plan\n---\n# Plan\nBuy rope."),
        ("loop.md", "[!nav:me](./loop.md)\nx"),
    ])
}

#[test]
fn a_document_is_opened_with_hints_and_its_default_action() {
    let mut served = shop();
    let expected = "Opened shop/index.md\n---\n[nav] main — /nav <name>\n[actions] /act.stock | /act.order --item <string>\n          /act.<name> --help for details\n\n\n# Shop\n\n## About\nSee [Terms][@terms] or [Supplier][@supplier].\n\n---\n\n12 balls";
    assert_eq!(served.main("/open shop/index.md").ok(), expected);
    let about = "Opened shop/index.md#about\n---\n## About\nSee [Terms][@terms] or [Supplier][@supplier].";
    let reply = served.main("/open #about");
    assert_eq!(reply.head["meta"]["current_block"], "#about");
    assert_eq!(reply.ok(), about);
    assert_eq!(served.main("/open index.md#about").ok(), about);
    assert_eq!(served.main("/nav main").ok().lines().nth(2), Some("[Home][@main.home]"));
    let menus = "Menus\n---\nmain (4): Home, B, C, ... (1 more)\n\nuse: /nav <name> to show menu · /open @menu.id to follow link";
    assert_eq!(served.main("/nav").ok(), menus);
    assert_eq!(served.main("/nav other").failure(), ("NOT_FOUND".into(), "Menu not found: other".into()));
    assert!(
        served
            .main("/nav page")
            .ok()
            .starts_with("Shortcuts:\n  @terms → ./terms.md\n\nAuto:\n  @supplier → https")
    );
    assert!(served.main("/nav scaffold").ok().starts_with("Nav Scaffold\n---\n"));
    assert_eq!(served.main("/info @terms").ok(), "@terms → ./terms.md");
    assert_eq!(served.main("/open @terms").ok(), "Opened shop/terms.md\n---\n# Terms\nNone.");
    assert_eq!(
        served.main("/open @nope").failure(),
        ("NOT_FOUND".into(), "Shortcut not found: @nope".into())
    );
    assert!(served.main("/back").ok().starts_with("Back to shop/index.md#about\n---\n## About"));
    assert!(served.main("/refresh").ok().starts_with("Refreshed shop/index.md#about\n---\n"));
    assert!(served.main("/open @main.home").ok().starts_with("Opened shop/index.md\n---\n[nav]"));
}

#[test]
fn the_head_describes_the_document() {
    let mut served = shop();
    let reply = served.exec("file:notes", "/open plan.md");
    let uri = format!("file://{}", served.path("plan.md"));
    let meta = json!({
        "uri": uri, "title": "Plan", "current_block": null, "menus": [], "actions": [],
        "history_length": 0, "block_id": null, "converted": false, "warnings": []
    });
    assert_eq!(reply.head["meta"], meta);
    assert_eq!(reply.ok(), "Opened plan.md\n---\n# Plan\nBuy rope.");
    let info = "Session info\n---\nfile:      plan.md\ncwd:       ~/\ntitle:     Plan\nhistory:   0 entries";
    assert_eq!(served.exec("file:notes", "/info").ok(), info);
    let none = "Session info\n---\ncwd:       ~/\nfile:      (none open)\nhistory:   0 entries";
    assert_eq!(served.exec("file:other", "/info").ok(), none);
    let text = served.text("plan.md");
    assert_eq!(served.exec("file:notes", "/source").ok(), format!("[source: {uri}]\n---\n{text}"));
    assert_eq!(served.exec("file:notes", "/close").ok(), format!("Closed: {uri}"));
    assert_eq!(
        served.exec("file:notes", "/close").failure(),
        ("INVALID_TARGET".into(), "No document open.".into())
    );
}

#[test]
fn what_cannot_be_opened_is_explained() {
    let mut served = shop();
    let missing = served.path("nope.md");
    let (code, text) = served.main("/open nope.md").failure();
    assert_eq!(code, "NOT_FOUND");
    assert!(text.starts_with(&format!("File not found: {missing}\nRecovery: ")), "{text}");
    let (code, text) = served.main("/open shop/index.md#none").failure();
    assert_eq!(
        (code.as_str(), text.as_str()),
        ("BLOCK_NOT_FOUND", "Block not found: #none in shop/index.md\nAvailable blocks: about")
    );
    let (_, text) = served.main("/open plan.md#none").failure();
    assert_eq!(text, "Block not found: #none in plan.md\nThis document has no blocks.");
    assert_eq!(served.main("/open loop.md").code(), "CIRCULAR_REFERENCE");
    assert_eq!(served.main("/info").head["meta"], json!(null), "nothing changed");
    for (command, code) in [
        ("/open", "INVALID_TARGET"),
        ("/back", "INVALID_TARGET"),
        ("/refresh", "INVALID_TARGET"),
        ("/nav", "INVALID_TARGET"),
        ("/act", "INVALID_TARGET"),
        ("/source", "INVALID_TARGET"),
        ("/exec", "COMMAND_UNSUPPORTED"),
        ("/unknown x", "COMMAND_UNSUPPORTED"),
        ("plain text", "COMMAND_UNSUPPORTED"),
        ("/undo", "NOT_FOUND"),
        ("/install", "COMMAND_UNSUPPORTED"),
        ("/uninstall", "COMMAND_UNSUPPORTED"),
        ("/uninstall x", "NOT_FOUND"),
        ("/write", "INVALID_TARGET"),
        ("/verify plan.md", "INVALID_TARGET"),
        ("/tool:none", "NOT_FOUND"),
    ] {
        assert_eq!(served.main(command).code(), code, "{command}");
    }
    assert!(served.main("//help").ok().starts_with("String Commands\n---\n## String Commands"));
}

#[test]
fn directories_are_listed_and_become_the_working_directory() {
    let mut served = home(&[
        ("docs/b.md", "b"),
        ("docs/A.md", "A"),
        ("docs/a.md", "a"),
        ("docs/9.md", ""),
        ("docs/.hidden", ""),
        ("docs/sub/x.md", "x"),
        ("package/string.md", "# P"),
        ("plan.md", "p"),
    ]);
    served.main("/open plan.md").ok();
    let listing = "Listing docs/\n---\n  sub/\n  9.md\n  a.md\n  A.md\n  b.md";
    assert_eq!(served.main("/open docs").ok(), listing);
    assert_eq!(served.main("/ls").ok(), listing);
    assert!(served.main("/info").ok().contains("cwd:       ~/docs/\n"));
    let cwd = served.path("docs");
    assert_eq!(served.main("/exec pwd").ok(), format!("exit: 0 | cwd: {cwd}\n---\n{cwd}"));
    assert_eq!(served.main("/open sub/x.md").ok(), "Opened docs/sub/x.md\n---\nx");
    assert_eq!(served.main("/open ~/package").ok(), "Opened package/string.md\n---\n# P");
    assert_eq!(served.main("/ls ..").ok(), "Listing ./\n---\n  docs/\n  package/\n  plan.md");
    assert_eq!(
        served.main("/ls string.md").failure(),
        ("INVALID_TARGET".into(), "Not a directory: string.md".into())
    );
    assert_eq!(served.main("/ls none").failure(), ("NOT_FOUND".into(), "Not found: none".into()));
    assert_eq!(served.exec("web:x", "/ls").code(), "INVALID_TARGET");
}

#[test]
fn includes_and_sources_are_placed_and_confined() {
    let mut served = home(&[
        (
            "d/doc.md",
            "top\n[!include:x](sub/a.md)\n[!include:y](../out.md)\n[!include:c](doc.md)\n<!-- #c -->\n[!include:c](doc.md)\n<!-- /c -->",
        ),
        ("d/sub/a.md", "# x\nfrom a"),
        ("out.md", "# y\nsecret"),
        ("t/page.md", "a\n[!include:one]()\n[!include:two](../../secret.md)\nb"),
        ("t/page.md.source/one.md", "ONE\n"),
    ]);
    let text = served.main("/open d/doc.md").ok();
    assert!(text.contains("top\n# x\nfrom a\n⚠ Include failed: ../out.md#y (outside"), "{text}");
    assert!(text.contains("⚠ Circular include detected: doc.md#c") && !text.contains("secret"), "{text}");
    assert_eq!(served.main("/open #x").ok(), "Opened d/doc.md#x\n---\n# x\nfrom a");
    assert_eq!(served.main("/open ~/t/page.md#one").ok(), "Opened t/page.md#one\n---\nONE");
}

#[test]
fn workspace_mode_and_roots_confine_paths() {
    let mut served = configured("[stringd]\naccess = \"workspace\"\n", &[("in/plan.md", "p")]);
    served.main("/open in/plan.md").ok();
    let outside = served.sandbox.outside().join("secret.txt").display().to_string();
    for command in [
        format!("/open {outside}"),
        "/open ../../outside/secret.txt".to_owned(),
        format!("/write {outside}\nx"),
        format!("/append {outside}\nx"),
        format!("/edit {outside}"),
        format!("/verify {outside}#x"),
        format!("/ls {}", served.sandbox.outside().display()),
    ] {
        let (code, text) = served.main(&command).failure();
        assert_eq!(code, "FILE_NOT_ALLOWED", "{command}: {text}");
        assert!(text.starts_with("Path outside workspace: "), "{command}: {text}");
    }
}

#[test]
fn includes_and_sources_do_not_leave_their_directory_through_links() {
    let mut served = home(&[
        ("d/doc.md", "top\n[!include:x](in.md)\n[!include:y](out.md)\n[!include:z](dir/secret.md)"),
        ("d/real.md", "# x\nreal"),
        ("other/secret.md", "# y\nsecret"),
        ("t/page.md", "a\n[!include:one]()\nb"),
    ]);
    let (real, other) = (served.path("d/real.md"), served.path("other"));
    std::fs::create_dir(served.path("t/page.md.source")).unwrap();
    for (name, target) in [
        ("root/d/in.md", real.as_str()),
        ("root/d/out.md", &format!("{other}/secret.md")),
        ("root/d/dir", &other),
        ("root/t/page.md.source/one.md", &format!("{other}/secret.md")),
    ] {
        served.sandbox.link(name, target);
    }
    let text = served.main("/open d/doc.md").ok();
    assert!(text.contains("# x\nreal") && !text.contains("secret\n"), "{text}");
    for path in ["out.md#y", "dir/secret.md#z"] {
        assert!(
            text.contains(&format!("⚠ Include failed: {path} (outside the document's directory)")),
            "{text}"
        );
    }
    assert_eq!(served.main("/open ~/t/page.md").code(), "FILE_NOT_ALLOWED");
    // The directory itself may be reached through a link.
    served.sandbox.link("root/way", served.path("d"));
    let text = served.main("/open ~/way/doc.md").ok();
    assert!(text.contains("top\n"), "{text}");
}

#[test]
fn a_listing_that_is_cut_says_so() {
    let mut served = home(&[]);
    std::fs::create_dir(served.path("many")).unwrap();
    for number in 0..=10_000 {
        std::fs::write(served.path(&format!("many/{number:05}")), "").unwrap();
    }
    let end = "\n  (more than 10000 entries; the rest is left out)";
    for command in ["/ls many", "/open many"] {
        let text = served.main(command).ok();
        assert!(text.ends_with(end), "{}", &text[text.len() - 200..]);
    }
    std::fs::remove_file(served.path("many/00000")).unwrap();
    assert!(!served.main("/ls ~/many").ok().ends_with(end));
}
