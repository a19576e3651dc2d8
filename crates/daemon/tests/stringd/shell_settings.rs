//! Traps, options and aliases of the user in a bash topic: they change neither the reports nor the next reply.

use testkit::sandbox::Sandbox;

use crate::support::{StringdClient, start};

/// The status and the output of a command.
fn run(client: &mut StringdClient, text: &str) -> (String, String) {
    let reply = client.exec("bash:s", text);
    let body = reply.body();
    let (first, output) = body.split_once("\n---\n").unwrap_or_else(|| panic!("{text}: {reply:?}"));
    let status = first.rsplit("exit: ").next().unwrap().split(" |").next().unwrap();
    (status.to_owned(), output.to_owned())
}

fn expect(client: &mut StringdClient, text: &str, status: &str, output: &str) {
    assert_eq!(run(client, text), (status.to_owned(), output.to_owned()), "{text}");
}

#[test]
fn traps_do_not_write_into_the_next_reply() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    expect(&mut client, "trap 'echo err' ERR", "0", "(no output)");
    let (status, output) = run(&mut client, "false");
    assert_eq!(status, "1");
    assert!(output.lines().all(|line| line == "err"), "{output}");
    expect(&mut client, "echo status $?", "0", "status 1");
    expect(&mut client, "trap - ERR; trap 'echo dbg' DEBUG", "0", "(no output)");
    let (status, output) = run(&mut client, "echo hi");
    assert_eq!((status.as_str(), output.lines().last()), ("0", Some("hi")), "nothing runs after the text");
    run(&mut client, "trap - DEBUG");
    expect(&mut client, "echo done", "0", "done");
    run(&mut client, "set -TE; trap 'echo ret' RETURN; trap 'echo err' ERR");
    run(&mut client, "false");
    run(&mut client, "trap - RETURN ERR; set +TE");
    expect(&mut client, "echo done", "0", "done");
}

#[test]
fn verbose_and_strict_shells_report() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    expect(&mut client, "set -v", "0", "(no output)");
    expect(&mut client, "echo a; (exit 3)", "3", "echo a; (exit 3)\na");
    expect(&mut client, "echo $?", "0", "echo $?\n3");
    expect(&mut client, "set +v", "0", "set +v");
    expect(&mut client, "set -vx; false", "1", "++ false");
    expect(&mut client, "echo $?", "0", "echo $?\n++ echo 1\n1");
    expect(&mut client, "set +vx", "0", "set +vx\n++ set +vx");
    expect(&mut client, "set -u; unset PWD", "0", "(no output)");
    let home = sandbox.root().canonicalize().unwrap();
    let reply = client.exec("bash:s", "echo here");
    assert_eq!(reply.body(), format!("exit: 0 | cwd: {}\n---\nhere", home.display()));
    run(&mut client, "set +u; cd /");
    expect(&mut client, "pwd", "0", "/");
}

#[test]
fn aliases_and_functions_do_not_replace_the_requests() {
    let sandbox = Sandbox::new();
    let served = start(&sandbox);
    let mut client = served.user(&sandbox.root());
    let aliases = ["builtin", "eval", "printf", "set", "return", "unset", "__rexd_report"];
    for name in aliases {
        expect(&mut client, &format!("alias {name}='echo replaced'"), "0", "(no output)");
    }
    expect(&mut client, "echo kept; (exit 5)", "5", "kept");
    expect(&mut client, "echo $?", "0", "5");
    expect(&mut client, "unalias -a", "0", "(no output)");
    assert_eq!(run(&mut client, "__rexd_report() { :; }").0, "1", "it is read-only");
    expect(&mut client, "echo still", "0", "still");
}
