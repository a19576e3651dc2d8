//! Prompts of programs on real terminals under real keepers, seen by a scripted hub: found, reported once, and answered once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]

mod host_support;

use host_support::{HostProcess, HubConnection, ScriptedHub, Stored};
use serde_json::{Value, json};
use testkit::sandbox::Sandbox;

/// A menu with a coloured entry, drawn with cursor movements; `j` moves, Return selects.
const MENU: &str = r#"
tput civis; i=0
draw() { printf '\033[H\033[JPick a colour\n\n'; n=0; for e in red green blue; do
  if [ $n = $i ]; then printf '  \033[7m%s\033[0m\n' $e; else printf '  %s\n' $e; fi; n=$((n+1)); done; }
draw
while IFS= read -rsn1 key; do
  case $key in
    $'\033') read -rsn2 rest; [ "$rest" = '[B' ] && i=$((i+1)); [ "$rest" = '[A' ] && i=$((i-1)); draw;;
    '') tput cnorm; echo picked-$i; exit;;
  esac
done
"#;

/// A full-screen program with buttons, as installers have them.
const DIALOG: &str = r#"
import curses
def main(screen):
    curses.curs_set(0)
    at = 0
    while True:
        screen.erase()
        screen.addstr(3, 10, 'Delete the directory build?')
        screen.addstr(6, 12, '< Yes >', curses.A_REVERSE if at == 0 else 0)
        screen.addstr(6, 24, '< No >', curses.A_REVERSE if at == 1 else 0)
        screen.refresh()
        key = screen.getch()
        if key == curses.KEY_RIGHT: at = 1
        elif key == curses.KEY_LEFT: at = 0
        elif key in (10, 13): return at
print('answer', ['yes', 'no'][curses.wrapper(main)])
"#;

/// Asks until a file appears, then goes on by itself until another one does.
const WAITING: &str = r#"
import os, select, sys
print(sys.argv[1], end='', flush=True)
while not os.path.exists(sys.argv[2]): select.select([sys.stdin], [], [], 0.1)
print('\nwent on', flush=True)
while not os.path.exists(sys.argv[3]): select.select([], [], [], 0.1)
"#;

/// The first event of this type of a run.
async fn event(connection: &mut HubConnection, stored: &mut Stored, run: &str, kind: &str) -> Value {
    let is_event = |event: &Value| event["type"] == kind && event["run_id"] == run;
    if let Some(found) = stored.of(run).into_iter().find(is_event) {
        return found["data"].clone();
    }
    connection.until(stored, is_event).await["data"].clone()
}

async fn type_text(connection: &mut HubConnection, run: &str, id: &str, text: &str) {
    connection.send("run.send_input", Some(run), json!({"input_id": id, "text": text, "user": "ann"})).await;
}

fn count(stored: &Stored, run: &str, kind: &str) -> usize {
    stored.kinds(run).iter().filter(|found| *found == kind).count()
}

#[tokio::test]
async fn a_question_is_reported_with_its_answers_and_a_decision_types_one() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    sandbox.write("root/dialog.py", DIALOG);
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    for (cmd, question, (approve, deny), decision, shown) in [
        ("read -p 'Continue? [y/N] ' a; echo got-$a", "Continue? [y/N]", ("y\n", "n\n"), "approve", "got-y"),
        ("read -p 'Sure (yes/no)? ' a; echo got-$a", "Sure (yes/no)?", ("yes\n", "no\n"), "deny", "got-no"),
        ("read -n1 -p 'Go (y/n) ' a; echo got-$a", "Go (y/n)", ("y", "n"), "approve", "got-y"),
        ("python3 dialog.py", "Delete the directory build?", ("\r", "\x1bOC\r"), "deny", "answer no"),
        ("python3 dialog.py #", "Delete the directory build?", ("\r", "\x1bOC\r"), "approve", "answer yes"),
    ] {
        let run = connection.start(&mut stored, cmd).await;
        let requested = event(&mut connection, &mut stored, &run, "run.permission_requested").await;
        assert_eq!(requested["reason"], "permission", "{cmd}");
        assert_eq!(requested["prompt"], question, "{cmd}");
        assert_eq!((&requested["approve_text"], &requested["deny_text"]), (&json!(approve), &json!(deny)));
        let id = requested["request_id"].as_str().unwrap().to_owned();
        let awaiting = event(&mut connection, &mut stored, &run, "run.awaiting_input").await;
        assert_eq!((&awaiting["request_id"], &awaiting["prompt"]), (&json!(id), &json!(question)));
        assert_eq!(awaiting["echo"], json!(null), "{cmd}");
        let list = connection.request(&mut stored, "rpc.runs.list", None, json!({"request_id": cmd})).await;
        let listed = &list["result"]["runs"][0];
        assert_eq!((&listed["awaiting_input"], &listed["pending_request_id"]), (&json!(true), &json!(id)));
        let show = json!({"request_id": format!("show {cmd}"), "approval_id": id});
        let show = connection.request(&mut stored, "rpc.approval.show", Some(&run), show).await;
        assert_eq!(show["result"]["operation"]["text"], question, "{show}");
        for _repeated in 0..3 {
            let data = json!({"request_id": id, "user": "ann", "actor": "web"});
            connection.send(&format!("run.permission.{decision}"), Some(&run), data).await;
        }
        connection.exited(&mut stored, &run).await;
        assert!(stored.text(&run).contains(shown), "{cmd}: {:?}", stored.text(&run));
        let expected = [
            "run.started",
            "run.permission_requested",
            "run.awaiting_input",
            "run.permission_decided",
            "run.input",
            "run.exited",
        ];
        assert_eq!(stored.kinds(&run), expected, "{cmd}");
        let decided = event(&mut connection, &mut stored, &run, "run.permission_decided").await;
        assert_eq!((&decided["decision"], &decided["user"]), (&json!(decision), &json!("ann")));
        let input = event(&mut connection, &mut stored, &run, "run.input").await;
        let typed = if decision == "approve" { approve } else { deny };
        assert_eq!((&input["input_id"], &input["text_redacted"]), (&json!(id), &json!(typed)));
        stored.assert_complete(&run);
    }
}

#[tokio::test]
async fn choices_prompts_and_passwords_wait_for_input_and_a_password_is_stored_nowhere() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    sandbox.write("root/menu.sh", MENU);
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let getpass = "python3 -c 'import getpass; print(\"len\", len(getpass.getpass(\"Secret: \")))'";
    for (cmd, reason, prompt, echo, text, shown) in [
        ("read -p 'Name: ' a; echo got-$a", "prompt", "Name:", json!(null), "Ann\n", "got-Ann"),
        ("bash menu.sh", "choice", "Pick a colour", json!(null), "\x1b[B\r", "picked-1"),
        (
            "read -s -p 'Password: ' a; echo; echo len-${#a}",
            "prompt",
            "Password:",
            json!(false),
            "hunter2\n",
            "len-7",
        ),
        (getpass, "prompt", "Secret:", json!(false), "hunter2\n", "len 7"),
        ("printf 'ready\\n'; read a; echo got-$a", "unknown", "ready", json!(null), "x\n", "got-x"),
    ] {
        let run = connection.start(&mut stored, cmd).await;
        let awaiting = event(&mut connection, &mut stored, &run, "run.awaiting_input").await;
        assert_eq!((&awaiting["reason"], &awaiting["prompt"]), (&json!(reason), &json!(prompt)), "{cmd}");
        assert_eq!(awaiting["echo"], echo, "{cmd}");
        assert_eq!(awaiting["request_id"], json!(null));
        if reason == "choice" {
            let labels: Vec<&Value> =
                awaiting["options"].as_array().unwrap().iter().map(|o| &o["label"]).collect();
            assert_eq!(labels, ["red", "green", "blue"]);
            assert_eq!(awaiting["options"][1]["text"], "\x1b[B\r");
        }
        type_text(&mut connection, &run, &format!("input {cmd}"), text).await;
        connection.exited(&mut stored, &run).await;
        assert!(stored.text(&run).contains(shown), "{cmd}: {:?}", stored.text(&run));
        assert_eq!(
            stored.kinds(&run),
            ["run.started", "run.awaiting_input", "run.input", "run.exited"],
            "{cmd}"
        );
        let input = event(&mut connection, &mut stored, &run, "run.input").await;
        let is_masked = echo == json!(false);
        assert_eq!(input.get("masked").is_some(), is_masked, "{input}");
        assert_eq!(input["text_redacted"].as_str().unwrap().is_empty(), is_masked, "{input}");
        assert_eq!(input["text_sha256"].as_str().unwrap().is_empty(), is_masked, "{input}");
    }
    // Nothing below the state directory has the secret, or its hash.
    let state = sandbox.path("home/state");
    let hash = "f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7";
    for secret in ["hunter2", hash] {
        let found = std::process::Command::new("grep").args(["-rl", secret]).arg(&state).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "", "{secret}");
    }
}

#[tokio::test]
async fn keys_of_a_password_are_counted_but_not_stored() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let run = connection.start(&mut stored, "read -s -p 'Password: ' a; read -p 'Name: ' b; echo $b").await;
    event(&mut connection, &mut stored, &run, "run.awaiting_input").await;
    for key in ["h", "u", "\r"] {
        connection.send("run.send_stdin", Some(&run), json!({"text": key, "user": "ann"})).await;
    }
    connection.output(&mut stored, &run, "Name: ").await;
    for key in ["A", "n", "n", "\r"] {
        connection.send("run.send_stdin", Some(&run), json!({"text": key, "user": "ann"})).await;
    }
    connection.exited(&mut stored, &run).await;
    let inputs: Vec<Value> =
        stored.of(&run).into_iter().filter(|event| event["type"] == "run.input").collect();
    assert_eq!(inputs.len(), 2, "{inputs:?}");
    assert_eq!(
        (&inputs[0]["data"]["masked"], &inputs[0]["data"]["text_redacted"]),
        (&json!(true), &json!(""))
    );
    assert_eq!(inputs[1]["data"]["text_redacted"], "Ann\r");
}

#[tokio::test]
async fn a_progress_bar_a_log_line_and_a_pager_ask_nothing() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let text: String = (1..200).map(|line| format!("line {line} of a text\n")).collect();
    sandbox.write("root/text", &text);
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let pager = connection.start(&mut stored, "less text").await;
    connection.output(&mut stored, &pager, "line 20 of").await;
    let progress = "for i in 1 2 3 4 5; do printf '\\r%s0%% [=====>    ] (y/n)? ' $i; sleep 0.5; done";
    let progress = connection.start(&mut stored, progress).await;
    let log = "echo 'overwrite build (y/n)? assuming yes'; printf 'Continue? [y/N] '; sleep 2";
    let log = connection.start(&mut stored, log).await;
    // A program that polls is examined after a longer pause: by then the pager was examined too.
    let poll = "python3 -c 'import select, sys; print(\"Go? [y/N] \", end=\"\", flush=True); select.select([sys.stdin], [], [])'";
    let poll = connection.start(&mut stored, poll).await;
    event(&mut connection, &mut stored, &poll, "run.permission_requested").await;
    for run in [&progress, &log] {
        connection.exited(&mut stored, run).await;
        assert_eq!(stored.kinds(run), ["run.started", "run.exited"], "{:?}", stored.text(run));
    }
    connection.send("run.send_stdin", Some(&pager), json!({"text": "q"})).await;
    connection.exited(&mut stored, &pager).await;
    assert_eq!(stored.kinds(&pager), ["run.started", "run.input", "run.exited"]);
}

#[tokio::test]
async fn a_prompt_is_reported_once_after_a_redraw_a_resize_and_a_restart_and_answered_once() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let mut host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let cmd = "trap 'printf \"\\r\\033[KContinue? [y/N] \"' WINCH USR1; printf 'Continue? [y/N] '; \
               until read a; do :; done; echo got-$a; read b; echo and-$b";
    let run = connection.start(&mut stored, cmd).await;
    let requested = event(&mut connection, &mut stored, &run, "run.permission_requested").await;
    let id = requested["request_id"].as_str().unwrap().to_owned();
    event(&mut connection, &mut stored, &run, "run.awaiting_input").await;
    connection.send("run.resize", Some(&run), json!({"cols": 100, "rows": 30})).await;
    host.kill();
    drop(connection);
    let mut host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let screen = json!({"request_id": "screen"});
    let screen = connection.request(&mut stored, "rpc.run.screen", Some(&run), screen).await;
    assert!(screen["result"]["text"].as_str().unwrap().contains("Continue? [y/N]"), "{screen}");
    // Another prompt is found after a longer pause: this one was examined by then.
    let other = "python3 -c 'import select, sys; print(\"Go? [y/N] \", end=\"\", flush=True); select.select([sys.stdin], [], [])'";
    let other = connection.start(&mut stored, other).await;
    event(&mut connection, &mut stored, &other, "run.permission_requested").await;
    assert_eq!(count(&stored, &run, "run.permission_requested"), 1);
    connection.send("run.permission.approve", Some(&run), json!({"request_id": id, "user": "ann"})).await;
    connection.output(&mut stored, &run, "got-y").await;
    event(&mut connection, &mut stored, &run, "run.input").await;
    // The decision is repeated by another host: it takes no effect.
    host.kill();
    drop(connection);
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    connection.send("run.permission.approve", Some(&run), json!({"request_id": id, "user": "ann"})).await;
    type_text(&mut connection, &run, "last", "end\n").await;
    connection.exited(&mut stored, &run).await;
    assert!(stored.text(&run).contains("and-end"), "{:?}", stored.text(&run));
    assert_eq!(count(&stored, &run, "run.permission_requested"), 1, "{:?}", stored.kinds(&run));
    assert_eq!(count(&stored, &run, "run.permission_decided"), 1);
    stored.assert_complete(&run);
}

#[tokio::test]
async fn a_prompt_that_the_program_ends_itself_is_withdrawn() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    sandbox.write("root/waiting.py", WAITING);
    let run = connection.start(&mut stored, "python3 waiting.py 'Continue? [y/N] ' go stop").await;
    let requested = event(&mut connection, &mut stored, &run, "run.permission_requested").await;
    sandbox.write("root/go", "");
    let decided = event(&mut connection, &mut stored, &run, "run.permission_decided").await;
    assert_eq!(
        (&decided["decision"], &decided["request_id"]),
        (&json!("withdrawn"), &requested["request_id"])
    );
    let late = json!({"request_id": requested["request_id"], "user": "ann"});
    connection.send("run.permission.approve", Some(&run), late).await;
    sandbox.write("root/stop", "");
    connection.exited(&mut stored, &run).await;
    assert_eq!(count(&stored, &run, "run.input"), 0, "{:?}", stored.kinds(&run));
    // A prompt of a run that ends is withdrawn before its exit.
    let run = connection.start(&mut stored, "read -p 'Continue? [y/N] ' a").await;
    event(&mut connection, &mut stored, &run, "run.awaiting_input").await;
    connection.send("run.stop", Some(&run), json!({"signal": "kill"})).await;
    connection.exited(&mut stored, &run).await;
    let kinds = stored.kinds(&run);
    assert_eq!(kinds[kinds.len() - 2..], ["run.permission_decided", "run.exited"]);
    // A prompt without a request only continues.
    let run = connection.start(&mut stored, "python3 waiting.py 'Name: ' proceed stop").await;
    event(&mut connection, &mut stored, &run, "run.awaiting_input").await;
    std::fs::remove_file(sandbox.path("root/stop")).unwrap();
    sandbox.write("root/proceed", "");
    event(&mut connection, &mut stored, &run, "run.continued").await;
    connection.send("run.stop", Some(&run), json!({"signal": "kill"})).await;
    connection.exited(&mut stored, &run).await;
}

#[tokio::test]
async fn a_prompt_is_denied_after_its_timeout_and_answered_by_typing() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let config = std::fs::read_to_string(sandbox.config()).unwrap();
    std::fs::write(sandbox.config(), format!("{config}\n[host]\nprompt_timeout_ms = 700\n")).unwrap();
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let run = connection.start(&mut stored, "read -p 'Continue? [y/N] ' a; echo got-$a").await;
    connection.exited(&mut stored, &run).await;
    assert!(stored.text(&run).contains("got-n"), "{:?}", stored.text(&run));
    let requested = event(&mut connection, &mut stored, &run, "run.permission_requested").await;
    assert!(requested["expires_at"].is_string(), "{requested}");
    let decided = event(&mut connection, &mut stored, &run, "run.permission_decided").await;
    assert_eq!((&decided["decision"], &decided["actor"]), (&json!("timeout"), &json!("system")));
}

#[tokio::test]
async fn a_prompt_that_is_answered_by_typing_is_settled_and_the_next_one_is_another() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let run = connection
        .start(&mut stored, "for i in 1 2; do read -p 'Continue? [y/N] ' a; echo got-$a; done")
        .await;
    let first = event(&mut connection, &mut stored, &run, "run.permission_requested").await;
    type_text(&mut connection, &run, "typed", "yes\n").await;
    let decided = event(&mut connection, &mut stored, &run, "run.permission_decided").await;
    assert_eq!((&decided["decision"], &decided["request_id"]), (&json!("input"), &first["request_id"]));
    let is_second = |event: &Value| {
        event["type"] == "run.permission_requested" && event["data"]["request_id"] != first["request_id"]
    };
    let second = connection.until(&mut stored, is_second).await;
    let data = json!({"request_id": second["data"]["request_id"], "text": "maybe\n"});
    connection.send("run.permission.approve", Some(&run), data).await;
    connection.exited(&mut stored, &run).await;
    assert!(stored.text(&run).contains("got-maybe"), "{:?}", stored.text(&run));
}

#[tokio::test]
async fn the_screen_of_a_run_is_shown_while_it_runs_and_after_its_end() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    // More output than a copy on disk covers, then a screen.
    let cmd = "head -c 1500000 /dev/zero | tr '\\0' x; printf '\\033[2J\\033[H\\033[1mtitle\\033[0m\\r\\nready'; read a; printf after";
    let data = json!({"request_id": "start", "cmd": cmd, "cols": 40, "rows": 10});
    let started = connection.request(&mut stored, "rpc.run.start", None, data).await;
    let run = started["result"]["run_id"].as_str().unwrap().to_owned();
    connection.output(&mut stored, &run, "ready").await;
    let expected = ["title", "ready"];
    for (number, is_ended) in [(1, false), (2, true)] {
        if is_ended {
            type_text(&mut connection, &run, "go", "\n").await;
            connection.exited(&mut stored, &run).await;
        }
        let data = json!({"request_id": format!("screen {number}")});
        let screen = connection.request(&mut stored, "rpc.run.screen", Some(&run), data).await;
        let result = &screen["result"];
        assert_eq!((&result["cols"], &result["rows"]), (&json!(40), &json!(10)), "{screen}");
        let mut model =
            daemon::core::terminal::TerminalModel::new(engine::process::TerminalSize { cols: 40, rows: 10 });
        model.feed(result["text"].as_str().unwrap().as_bytes());
        assert_eq!(model.rows()[..2], expected);
        assert_eq!(model.rows()[2], if is_ended { "after" } else { "" });
        let mut output = stored.of(&run).into_iter().filter(|event| event["type"] == "run.output");
        assert_eq!(result["seq"], output.next_back().unwrap()["seq"]);
    }
    assert_eq!(count(&stored, &run, "tool.call"), 0, "looking at a screen is no operation");
}

/// A program may ask its terminal for the position of the cursor and wait for the answer.
#[tokio::test]
async fn a_program_that_asks_its_terminal_gets_an_answer_without_any_viewer() {
    let (sandbox, hub, mut stored) = (Sandbox::new(), ScriptedHub::new().await, Stored::default());
    let _host = HostProcess::start(&sandbox, &hub.url());
    let (mut connection, _) = hub.greeted(&stored).await;
    let cmd = "stty raw -echo; printf '\\033[5;7H\\033[6n'; a=$(dd bs=1 count=6 2>/dev/null | od -An -c | tr -d ' '); stty sane; echo; echo \"got-$a\"";
    let run = connection.start(&mut stored, cmd).await;
    connection.exited(&mut stored, &run).await;
    assert!(stored.text(&run).contains("got-033[5;7R"), "{:?}", stored.text(&run));
    assert_eq!(count(&stored, &run, "run.input"), 0, "{:?}", stored.kinds(&run));
}
