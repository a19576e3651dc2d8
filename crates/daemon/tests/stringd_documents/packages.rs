//! Packages and tools.

use crate::served::{configured, home};

const APP: &str = "---\nname: weather\ntype: app\nversion: 1.2.0\nrequires: [TOKEN]\n---\n# Weather\n```act.now\nCLI echo now\n```\n";
const TOOL: &str = "---\nname: greet\ntype: tool\ndefault: hi\nenv:\n  - WHO: Whom to greet\n  - HOW: How\n    default: kindly\n---\n```act.hi\nCLI echo hi $WHO $HOW: $ARGS in $CWD on $CURRENT_TARGET\n```\n```act.bye\nCLI echo bye {name}\n  name: string\n```\n";

#[test]
fn applications_are_installed_opened_and_removed() {
    let mut served = home(&[
        ("src/string.md", APP),
        ("src/more.md", "# More"),
        ("loose.md", "# x"),
        ("evil.md", "---\nname: ../../evil\ntype: app\n---\n"),
    ]);
    let stored = served.path("packages/weather/string.md");
    let installed = format!("Installed app:weather\n  Source: src\n  Path: {stored}\nUse: /open app:weather");
    assert_eq!(served.main("/install src").ok(), installed);
    assert_eq!(served.text("packages/weather/more.md"), "# More");
    let opened = served.exec("app:weather", "/open").ok();
    assert!(
        opened.contains("# Weather")
            && opened.contains("\n\n[!] Missing required environment variable(s): $TOKEN\n"),
        "{opened}"
    );
    let info = served.exec("app:weather", "/info").ok();
    assert!(
        info.starts_with("Session info\n---\napp:       weather\nname:      weather\nversion:   1.2.0\n"),
        "{info}"
    );
    assert!(!info.contains("cwd:") && !info.contains("file:"), "{info}");
    assert_eq!(served.exec("app:weather:korea", "/act.now --").ok(), "now", "an app topic opens its app");
    assert!(served.main("/open weather").ok().contains("# Weather"));
    assert!(served.main("/open app:weather:korea").ok().contains("# Weather"));
    let (code, text) = served.main("/install ~/loose.md").failure();
    assert_eq!(code, "COMMAND_UNSUPPORTED");
    assert!(
        text.starts_with("Cannot determine package type for \"loose\".")
            && text.contains("--app")
            && text.contains("--tool")
    );
    assert!(served.main("/install --tool ~/loose.md").ok().starts_with("Installed tool:loose\n"));
    assert!(served.main("/install ~/evil.md").ok().starts_with("Installed app:evil\n"));
    assert_eq!(served.main("/uninstall weather").ok(), "Uninstalled app:weather");
    assert!(!std::path::Path::new(&served.path("packages/weather")).exists());
    assert_eq!(
        served.main("/uninstall weather").failure(),
        ("NOT_FOUND".into(), "Package not found: weather".into())
    );
}

#[test]
fn tools_run_with_the_context_of_their_caller() {
    let mut served =
        home(&[("tools/g.md", TOOL), ("tools/plain.md", "```act.a\nCLI echo a\n```\n"), ("doc.md", "# Doc")]);
    let (code, text) = served.main("/tool:greet x").failure();
    assert_eq!(
        (code.as_str(), text.as_str()),
        ("INVALID_PAYLOAD", "ERROR(ENV_REQUIRED): tool requires $WHO — \"Whom to greet\"")
    );
    served.main("/set $WHO = Ann").ok();
    served.main("/open doc.md").ok();
    let home = served.path("").trim_end_matches('/').to_owned();
    assert_eq!(
        served.main("/tool:greet one 'two'").ok(),
        format!("hi Ann kindly: one two in {home} on file:main")
    );
    assert_eq!(served.main("/tool:greet.bye --name 'A; id'").ok(), "bye A; id");
    assert_eq!(
        served.main("/tool:greet.none").failure(),
        ("NOT_FOUND".into(), "Action \"none\" not found in tool:greet. Available: hi, bye".into())
    );
    assert_eq!(
        served.main("/tool:plain").failure(),
        ("INVALID_PAYLOAD".into(), "No default action for tool:plain. Available: a".into())
    );
    assert_eq!(served.main("/tool:plain.a --").ok(), "a");
    assert!(served.main("/info").head["meta"]["uri"].as_str().unwrap().ends_with("doc.md"));
}

#[test]
fn a_package_with_a_link_out_of_its_directory_is_refused() {
    let mut served = home(&[("src/string.md", APP), ("src/more.md", "# More"), ("secret.md", "the secret")]);
    let secret = served.path("secret.md");
    served.sandbox.link("root/src/key.md", &secret);
    let (code, text) = served.main("/install src").failure();
    assert_eq!(code, "COMMAND_UNSUPPORTED");
    assert_eq!(text, "Install failed: key.md: it leads out of the package's directory");
    assert!(!std::path::Path::new(&served.path("packages")).exists(), "nothing was copied");
    std::fs::remove_file(served.path("src/key.md")).unwrap();
    served.sandbox.link("root/src/other.md", "more.md");
    served.main("/install src").ok();
    assert_eq!(served.text("packages/weather/other.md"), "# More", "a link inside is followed");
    std::fs::create_dir(served.path("linked")).unwrap();
    served.sandbox.link("root/linked/string.md", &secret);
    assert_eq!(served.main("/install --app ~/linked").code(), "COMMAND_UNSUPPORTED");
}

#[test]
fn the_older_layout_is_read_and_the_flat_one_is_written() {
    let old = r#"{"env":{"OLD":"1"}}"#;
    let mut served = home(&[
        (".string/config.json", old),
        (".string/apps/weather/env.json", r#"{"PLACE":"Seoul"}"#),
        ("d.md", "```act.x\nCLI echo $OLD $NEW $PLACE\n```\n"),
    ]);
    served.main("/set $NEW = \"2\"").ok();
    assert_eq!(served.text(".string/config.json"), old, "the old file stays");
    let stored: serde_json::Value = serde_json::from_str(&served.text("config.json")).unwrap();
    assert_eq!(stored, serde_json::json!({ "env": { "NEW": "2", "OLD": "1" } }));
    served.exec("app:weather", "/open ~/d.md").ok();
    assert_eq!(served.exec("app:weather", "/act.x --").ok(), "1 2 Seoul");
}

#[test]
fn tools_of_the_daemons_user_are_found_after_those_of_the_user() {
    let roots =
        "[[security.allowed_roots]]\npath = \"$ROOT\"\n\n[[security.allowed_roots]]\npath = \"$DIR/home\"\n";
    let mut served = configured(roots, &[]);
    let tool = |text: &str| format!("---\nname: say\ndefault: x\n---\n```act.x\nCLI echo {text}\n```\n");
    served.sandbox.write("home/.string/tools/say.md", tool("shared"));
    assert_eq!(served.main("/tool:say").ok(), "shared");
    served.sandbox.write("root/tools/say.md", tool("own"));
    assert_eq!(served.main("/tool:say").ok(), "own");
}
