//! What commands read and create beside documents: files in the bodies of requests, paths of templates, private directories.

use std::os::unix::fs::PermissionsExt as _;

use crate::served::{home, pages};

#[test]
fn files_are_sent_in_the_body_of_a_request() {
    let address = pages(&[]);
    let page = format!(
        "```act.send\nPOST http://{address}/show -d '{{\"text\":\"{{f|file}}\",\"data\":\"{{f|base64file}}\",\"twice\":\"{{f|file|base64}}\",\"name\":\"{{f|base64}}\"}}'\n  f: path (required)\n```\n"
    );
    let mut served = home(&[("docs/page.md", &page), ("docs/a.txt", "one \"two\"\n")]);
    served.main("/open docs/page.md").ok();
    let sent = served.main("/act.send --f a.txt").ok();
    let data = "b25lICJ0d28iCg==";
    let body = format!(
        "{{\"text\":\"one \\\"two\\\"\\n\",\"data\":\"{data}\",\"twice\":\"{data}\",\"name\":\"YS50eHQ=\"}}"
    );
    assert!(sent.ends_with(&body), "{sent}");
    let (code, text) = served.main("/act.send --f none.txt").failure();
    assert_eq!(code, "INVALID_PAYLOAD");
    assert!(text.starts_with("Cannot read the file of --f: none.txt: "), "{text}");
}

#[test]
fn a_value_does_not_choose_the_directory_of_a_saved_file() {
    let page = "```act.save\nCLI echo '{\"d\":\"x\"}'\n  name: string\n  dir: path\n```\n```act.save.response\nsave: d\nto: {dir}/{name}\nsaved\n```\n";
    let mut served = home(&[("page.md", page)]);
    served.main("/open page.md").ok();
    let out = served.path("out");
    for name in ["../escaped", "..", "/escaped"] {
        let said = served.main(&format!("/act.save --dir {out} --name {name}")).ok();
        assert_eq!(said, "to: a value would lead to another directory\nsaved", "{name}");
    }
    assert_eq!(served.main(&format!("/act.save --dir {out} --name kept")).ok(), "saved");
    assert_eq!(served.text("out/kept"), "x");
    assert!(!std::path::Path::new(&served.path("escaped")).exists());
}

#[test]
fn directories_of_variables_and_packages_are_private() {
    let mut served = home(&[("tool.md", "---\ntype: tool\n---\n# T"), ("packages/own/x", "x")]);
    let mode = |served: &crate::served::Stringd, name: &str| {
        std::fs::metadata(served.path(name)).unwrap().permissions().mode() & 0o777
    };
    let before = mode(&served, "packages");
    served.exec("app:a:c", "/set $X = 1").ok();
    served.main("/install tool.md").ok();
    served.main("/write notes/n.md text").ok();
    for name in ["apps", "apps/a", "apps/a/c", "packages/tool"] {
        assert_eq!(mode(&served, name), 0o700, "{name}");
    }
    assert_eq!(mode(&served, "apps/a/c/env.json"), 0o600);
    assert_eq!(mode(&served, "packages"), before, "a directory that exists keeps its mode");
    assert_ne!(mode(&served, "notes"), 0o700, "other directories are as the umask has it");
}

#[test]
fn a_large_document_is_shown_refreshed_and_changed() {
    let text = "# Large\n".to_owned() + &"[Docs](https://docs.test/) and more text\n".repeat(20_000);
    let mut served = home(&[("large.md", &text), ("small.md", "# Small")]);
    let shown = served.main("/open large.md").ok();
    assert!(shown.contains("[Docs][@docs-20000] and"), "{} bytes", shown.len());
    served.main("/open small.md").ok();
    assert!(served.main("/back").ok().contains("[Docs][@docs-20000] and"));
    let edited = served.main("/append large.md\nlast line").ok();
    assert!(edited.contains("20002 + last line"), "{edited}");
}
