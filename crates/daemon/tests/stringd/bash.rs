//! Bash topics: state between commands, hostile programs, timeouts, and the ends of the shell.

use std::time::Instant;

use serde_json::json;
use testkit::proc::watch;
use testkit::sandbox::Sandbox;

use crate::support::{PATIENCE, REXD, Reply, Served, StringdClient, spawn, start};

fn short() -> Sandbox {
    Sandbox::with_config("[stringd]\ncommand_timeout_ms = 3000\n")
}

fn client(served: &Served, sandbox: &Sandbox) -> StringdClient {
    served.user(&sandbox.root())
}

/// The output of a command that succeeds.
fn output(reply: &Reply) -> &str {
    assert_eq!(reply.head["ok"], true, "{reply:?}");
    reply.body().split_once("\n---\n").unwrap().1
}

#[test]
fn the_shell_keeps_directory_variables_functions_and_jobs() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = client(&served, &sandbox);
    std::fs::create_dir(sandbox.path("root/sub")).unwrap();
    let first = client.exec("bash:dev", "cd sub; export A=1; f() { echo f$A; }");
    let sub = sandbox.path("root/sub").canonicalize().unwrap();
    assert_eq!(first.body(), format!("exit: 0 | cwd: {}\n---\n(no output)", sub.display()));
    assert_eq!(first.head["meta"], json!(null));
    assert_eq!(first.head["topic_type"], "bash");
    assert_eq!(output(&client.exec("bash:dev", "f; pwd")), format!("f1\n{}", sub.display()));
    let failed = client.exec("bash:dev", "false");
    assert_eq!((failed.code(), failed.head["ok"].as_bool()), ("EXIT_1", Some(false)));
    assert!(failed.content.starts_with("re: false\nERROR(EXIT_1): exit: 1 | cwd: "), "{}", failed.content);
    assert_eq!(output(&client.exec("bash:dev", "echo $?")), "1");
    client.exec("bash:dev", "sleep 1000 &");
    assert!(output(&client.exec("bash:dev", "jobs")).contains("Running"), "jobs");
    assert_eq!(output(&client.exec("bash:dev", "cat <<X\none\ntwo\nX")), "one\ntwo");
    assert_eq!(output(&client.exec("bash:dev", "if true\nthen\necho 'it'\"'\"'s'\nfi")), "it's");
    assert_eq!(output(&client.exec("bash:dev", "/bin/echo slash")), "slash");
    assert_eq!(output(&client.exec("bash:dev", "stty size; echo $TERM \"a!b\"")), "24 200\ndumb a!b");
    assert_eq!(
        client.exec("bash:dev", "echo \"open").code(),
        "EXIT_2",
        "a syntax error ends only its command"
    );
    assert_eq!(output(&client.exec("bash:dev", "f")), "f1");
    let info = client.exec("bash:dev", "//info");
    assert_eq!(info.body(), "Bash session info\n---\ncwd:       ~/sub/\npid:       running");
    assert!(client.exec("bash:dev", "//help").body().starts_with("Bash Session\n---\n"));
    assert_eq!(client.exec("bash:dev", "//open x").code(), "COMMAND_UNSUPPORTED");
    assert_eq!(client.exec("bash:dev", "//close").body(), "Bash session closed.");
    let closed = client.exec("bash:dev", "//info");
    assert_eq!(closed.body(), "Bash session info\n---\ncwd:       (no active shell)");
    assert_eq!(client.exec("bash:dev", "f").code(), "EXIT_127", "a new shell");
}

#[test]
fn programs_do_not_confuse_the_shell() {
    let sandbox = short();
    let served = start(&sandbox);
    let mut client = client(&served, &sandbox);
    client.exec("bash:x", "export KEPT=yes");
    let fake = "printf '0\\0/fake\\0'; printf '7\\0/fake\\0' >&8; ls /proc/self/fd | wc -l";
    let reply = client.exec("bash:x", fake);
    assert!(!reply.body().contains("cwd: /fake"), "{reply:?}");
    for reads in
        ["cat", "read line; echo got", "while :; do :; done", "sleep 1000; echo after", "yes > /dev/null"]
    {
        let late = client.exec("bash:x", reads);
        assert_eq!(late.code(), "EXIT_124", "{reads}: {late:?}");
        assert!(!late.body().contains("after"), "{late:?}");
        assert_eq!(output(&client.exec("bash:x", "echo $KEPT")), "yes", "after {reads}");
    }
    let stubborn = client.exec("bash:x", "echo started; (trap '' INT; sleep 1000)");
    assert_eq!(stubborn.code(), "EXIT_124");
    assert!(stubborn.body().contains("---\nstarted"), "{stubborn:?}");
    assert_eq!(output(&client.exec("bash:x", "echo $KEPT")), "yes");
    client.exec("bash:x", "exec 8>&-");
    assert_eq!(output(&client.exec("bash:x", "echo $KEPT")), "yes", "its own descriptors are the shell's");
    client.exec("bash:x", "trap '' INT; while :; do :; done");
    assert_eq!(
        output(&client.exec("bash:x", "echo new$KEPT")),
        "new",
        "a shell that cannot be interrupted ends"
    );
    client.exec("bash:x", "for n in /proc/$BASHPID/fd/*; do eval \"exec ${n##*/}>&-\"; done 2>/dev/null");
    assert_eq!(output(&client.exec("bash:x", "echo usable")), "usable");
}

#[test]
fn exit_and_exec_end_the_shell_and_the_next_command_starts_another() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = client(&served, &sandbox);
    client.exec("bash:x", "cd /; A=1");
    let ended = client.exec("bash:x", "echo last; exit 3");
    assert!(output(&ended).starts_with("last"), "{ended:?}");
    let home = sandbox.root().canonicalize().unwrap();
    assert_eq!(output(&client.exec("bash:x", "echo \"$A\"; pwd")), format!("\n{}", home.display()));
    assert_eq!(output(&client.exec("bash:x", "exec echo replaced")), "replaced");
    assert_eq!(output(&client.exec("bash:x", "echo again")), "again");
}

#[test]
fn no_shell_is_left_behind() {
    let sandbox = Sandbox::new();
    let mut served = start(&sandbox);
    let mut client = client(&served, &sandbox);
    let pid = |client: &mut StringdClient, topic: &str| -> i32 {
        output(&client.exec(topic, "echo $$")).parse().unwrap()
    };
    let ends = |pid: i32| assert!(watch(pid).ends_before(Instant::now() + PATIENCE), "{pid} is left");
    let deleted = pid(&mut client, "bash:a");
    let (status, body) = client.request("DELETE", "/sessions/u/bash%3Aa", b"");
    assert_eq!((status, &body["deleted"]), (200, &json!(true)));
    ends(deleted);
    let moved = pid(&mut client, "bash:b");
    client.json("POST", "/users", &json!({ "id": "u", "home": sandbox.path("root/other") }));
    ends(moved);
    let removed = pid(&mut client, "bash:c");
    assert_eq!(client.request("DELETE", "/users/u", b"").1, json!({ "user_id": "u", "deleted": true }));
    ends(removed);
    let mut client = served.user(&sandbox.root());
    let last = pid(&mut client, "bash:d");
    let (_, body) = client.request("POST", "/shutdown", b"");
    assert_eq!(body, json!({ "ok": true, "message": "stringd shutting down" }));
    assert!(served.wait().success());
    ends(last);
}

#[test]
fn what_a_user_defines_does_not_change_the_status() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.command(REXD);
    command.args(["stringd", "0", "--config"]).arg(sandbox.config()).env("TMOUT", "1");
    let served = spawn(command, "stringd listening on http://");
    let mut client = client(&served, &sandbox);
    assert_eq!(output(&client.exec("bash:a", "echo \"[$TMOUT]\"")), "[]", "an idle shell does not end");
    assert_eq!(client.exec("bash:a", "readonly status=5; (exit 3)").code(), "EXIT_3");
    assert_eq!(output(&client.exec("bash:a", "echo $?")), "3");
    assert_eq!(output(&client.exec("bash:a", "builtin() { echo mine; }; builtin")), "mine");
    assert_eq!(output(&client.exec("bash:a", "echo after")), "after");
    assert_eq!(output(&client.exec("bash:a", "set -x; true")), "++ true");
    let failed = client.exec("bash:a", "(exit 4)");
    assert_eq!(failed.code(), "EXIT_4");
    assert!(failed.content.ends_with("\n---\n++ exit 4"), "{failed:?}");
    assert_eq!(output(&client.exec("bash:a", "echo $?")), "++ echo 4\n4", "the trace is still on");
    assert_eq!(output(&client.exec("bash:a", "set +x")), "++ set +x");
    assert_eq!(output(&client.exec("bash:a", "echo done")), "done");
}
