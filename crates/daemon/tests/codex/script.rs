//! A conversation that uses every tool of a client which goes through its exec-server, and what must come of it.

use serde_json::{Value, json};
use testkit::model::{Call, Model, Turn};

use super::{Place, Release, Server};

/// What a tool says of a command that is over.
pub(crate) const ENDED: &str = "Process exited with code";
/// The longest time that a client waits for a command before it goes on, in milliseconds.
const LONGEST: u64 = 30_000;
/// An image of one point.
const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// Ends well when it is interrupted.
const INTERRUPTED: &str = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.1; done";
const PATCH: &str = "apply_patch <<'EOF'
*** Begin Patch
*** Add File: new/added.txt
+added
*** Update File: moved-from.txt
*** Move to: sub/moved-to.txt
@@
-one
+two
*** Delete File: deleted.txt
*** End Patch
EOF
";

/// A call of the tool that runs a command.
pub(crate) fn run(name: &str, command: &str, more: Value) -> Call {
    let mut arguments = json!({ "cmd": command });
    arguments.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    Call::new(name, "exec_command", arguments)
}

/// A call of the tool that writes to a command which runs.
pub(crate) fn feed(name: &str, session: &str, chars: &str) -> Call {
    let arguments =
        json!({ "session_id": format!("$session:{session}"), "chars": chars, "yield_time_ms": 1000 });
    Call::new(name, "write_stdin", arguments)
}

/// What the script finds where the client works.
pub(crate) fn prepare(place: &Place) {
    place.write("work/AGENTS.md", "Say MARKER-agents whenever you can.\n");
    place.write("work/moved-from.txt", "one\n");
    place.write("work/deleted.txt", "gone\n");
    place.write("work/pixel.png", wire::base64::decode(PIXEL).unwrap());
}

/// The script.
pub(crate) fn every_tool(client: Release) -> Vec<Turn> {
    let soon = json!({ "yield_time_ms": 250 });
    let mut tty_soon = soon.clone();
    tty_soon["tty"] = json!(true);
    let mut calls = vec![
        run("pipe", "echo out; echo err >&2; echo \"at $REXD_TEST_PLACE\"; cat; exit 3", json!({}))
            .until(ENDED),
        run("tty", "test -t 0 && test -t 1 && stty size && exit 4", json!({ "tty": true })).until(ENDED),
        run("lines", "echo ready; while read line; do echo \"got:$line\"; done", tty_soon.clone())
            .until("ready"),
        feed("lines-one", "lines", "hello\n").until("got:hello"),
        feed("lines-end", "lines", "\u{4}").until(ENDED),
        run("typed", INTERRUPTED, tty_soon).until("ready"),
        feed("typed-interrupt", "typed", "\u{3}").until(ENDED),
        run("later", "until [ -e later.go ]; do sleep 0.05; done; echo later; exit 5", soon.clone()),
        run("job", "sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >job.pid", json!({})).until(ENDED),
        run("job-lives", "kill -0 $(cat job.pid) && echo alive", json!({})).until(ENDED),
        run("grandchild", "sleep 1000 & echo leaves", json!({ "yield_time_ms": LONGEST })),
        run("patch", PATCH, json!({})),
        Call::new("image", "view_image", json!({ "path": "pixel.png" })),
        run("large", "for i in $(seq 10000 39999); do printf 'line%s\\n' $i; done", json!({})).until(ENDED),
        run("later-end", "touch later.go; exit 6", json!({})).until(ENDED),
        feed("later-more", "later", "").until(ENDED),
    ];
    if client == Release::V0_166 {
        // The older client refuses to write to a command without a terminal, and knows no signals.
        calls.push(run("piped", INTERRUPTED, soon).until("ready"));
        calls.push(feed("piped-interrupt", "piped", "\u{3}").until(ENDED));
    }
    calls.into_iter().map(|call| vec![call]).collect()
}

/// Whether every tool answered what it must.
pub(crate) fn every_tool_answered(model: &Model, place: &Place, server: Server, client: Release) {
    let place_line = format!("at {}\n", place.root());
    let wanted: &[(&str, &[&str])] = &[
        ("pipe", &["out\n", "err\n", &place_line, "code 3"]),
        ("tty", &["24 80\r\n", "code 4"]),
        ("lines-one", &["hello\r\ngot:hello\r\n"]),
        ("lines-end", &["code 0"]),
        ("typed-interrupt", &["^Ccaught\r\n", "code 7"]),
        ("job-lives", &["alive\n", "code 0"]),
        ("grandchild", &["leaves\n"]),
        (
            "patch",
            &[
                "Success. Updated the following files:",
                "A new/added.txt",
                "M sub/moved-to.txt",
                "D deleted.txt",
            ],
        ),
        ("image", &[PIXEL]),
        // A token is four bytes: all 300,000 came, and the client shows both ends of them.
        (
            "large",
            &["Original token count: 75000", "line10000\nline10001\n", "line39998\nline39999\n", "code 0"],
        ),
        ("later-end", &["code 6"]),
        ("later-more", &["later\n", "code 5"]),
    ];
    for (name, texts) in wanted {
        contains(model, name, texts);
    }
    if client == Release::V0_166 {
        contains(model, "piped-interrupt", &["caught\n", "code 7"]);
    }
    if server == Server::Ours {
        // The released servers say nothing while a grandchild holds the pipe: the client gives up after its longest time.
        contains(model, "grandchild", &["code 0"]);
        let output = model.output("grandchild");
        assert!(!output.contains("Wall time: 30."), "it waited for the grandchild: {output}");
    }
    assert!(model.requests()[0].to_string().contains("MARKER-agents"), "AGENTS.md was not found");
    assert_eq!(place.read("work/new/added.txt"), "added\n");
    assert_eq!(place.read("work/sub/moved-to.txt"), "two\n");
    assert!(!place.path("work/moved-from.txt").exists() && !place.path("work/deleted.txt").exists());
}

fn contains(model: &Model, name: &str, texts: &[&str]) {
    let output = model.output(name);
    for text in texts {
        assert!(output.contains(text), "{name} does not say {text:?}:\n{output}");
    }
}
