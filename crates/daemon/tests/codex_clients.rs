//! Real Codex clients of two releases, with a scripted model, over a WebSocket and over standard streams.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod codex;

use codex::{Conversation, Place, Release, Server, Serving, Way};
use serde_json::{Value, json};
use testkit::model::{Call, Turn};

fn run(name: &str, command: &str, more: Value) -> Turn {
    let mut arguments = json!({ "cmd": command });
    arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    vec![Call::new(name, "exec_command", arguments)]
}

fn feed(name: &str, session: &str, chars: &str) -> Turn {
    let arguments = json!({ "session_id": format!("$session:{session}"), "chars": chars, "yield_time_ms": 1000 });
    vec![Call::new(name, "write_stdin", arguments)]
}

fn script() -> Vec<Turn> {
    vec![
        run("pipe", "printf 'out\\n'; printf 'err\\n' >&2; echo \"at $REXD_TEST_PLACE\"; exit 3", json!({})),
        run("tty", "test -t 0 && test -t 1 && stty size && exit 4", json!({ "tty": true })),
        run("cat", "while read line; do echo \"got:$line\"; done", json!({ "tty": true, "yield_time_ms": 250 })),
        feed("cat-line", "cat", "hello\n"),
        feed("cat-end", "cat", "\u{4}"),
        run("trap", "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done", json!({ "yield_time_ms": 500 })),
        feed("trap-int", "trap", "\u{3}"),
        run("ttytrap", "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done", json!({ "tty": true, "yield_time_ms": 500 })),
        feed("ttytrap-int", "ttytrap", "\u{3}"),
        run("background", "sleep 1000 </dev/null >/dev/null 2>&1 & echo \"job $!\"", json!({})),
        run("grandchild", "sleep 1000 & echo \"leaves $!\"", json!({"yield_time_ms": 30000})),
        run("patch", "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new/added.txt\n+added\n*** Update File: moved-from.txt\n*** Move to: sub/moved-to.txt\n@@\n-one\n+two\n*** Delete File: deleted.txt\n*** End Patch\nEOF\n", json!({})),
        vec![Call::new("image", "view_image", json!({ "path": "pixel.png" }))],
        run("large", "i=0; while [ $i -lt 30000 ]; do printf '%09d\\n' $i; i=$((i+1)); done", json!({})),
    ]
}

#[test]
fn explore() {
    let place = Place::new();
    let v = if std::env::var("V").as_deref() == Ok("131") { Release::V0_131 } else { Release::V0_166 };
    place.write("work/AGENTS.md", "Say MARKER-agents whenever you can.");
    place.write("work/moved-from.txt", "one\n");
    place.write("work/deleted.txt", "gone\n");
    place.write("work/pixel.png", wire::base64::decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==").unwrap());
    let server = Server::under_test(v);
    let serving = Serving::start(&place, server);
    let way = if std::env::var("W").as_deref() == Ok("stdio") { Way::Stdio(server) } else {Way::Url(serving.url.clone())};
    let sandbox = std::env::var("S").unwrap_or("danger-full-access".into());
    let talk = Conversation { place: &place, client: v, way, sandbox: &sandbox };
    let model = talk.hold(script());
    println!("{:#?}", model.outputs());
    println!("AGENTS {}", model.requests()[0].to_string().contains("MARKER-agents"));
    println!("{:?}", model.requests()[0]["tools"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect::<Vec<_>>());
    if std::env::var("T").is_ok() { println!("{:#?}", model.requests()[0]["tools"]); }
    for f in ["work/new/added.txt", "work/sub/moved-to.txt", "work/deleted.txt", "work/moved-from.txt"] { println!("{f}: {:?}", std::fs::read_to_string(place.path(f))); }
}
