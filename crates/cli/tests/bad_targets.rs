//! What is said about what cannot work: each message names what was tried, what is wrong and what to do next.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

#[path = "support/ssh.rs"]
mod ssh;
mod support;

use ssh::Machine;
use support::{rex, run};
use testkit::sandbox::Sandbox;

/// The error output of `rex`, without the path of the sandbox.
fn refusal(sandbox: &Sandbox, arguments: &[&str]) -> String {
    let output = run(sandbox, arguments);
    assert_eq!(output.status.code(), Some(255), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    said.replace(sandbox.path("").to_str().unwrap(), "$DIR/")
}

#[test]
fn an_unknown_target() {
    let sandbox = Sandbox::new();
    assert_eq!(
        refusal(&sandbox, &["-t", "web", "exec", "--", "true"]),
        "rex: unknown target `web`: no such alias\n\
         hint: no alias is configured; `rex target add web ssh:HOST` adds it; `-t ssh:web` needs no alias\n"
    );
    sandbox.write("home/config/rexd/targets.json", r#"{"targets": {"web-1": {"host": "h"}}}"#);
    assert_eq!(
        refusal(&sandbox, &["-t", "web1", "exec", "--", "true"]),
        "rex: unknown target `web1`: no such alias\n\
         hint: did you mean `web-1`? `rex target list` shows all aliases; `rex target add web1 ssh:HOST` adds it\n"
    );
    let mut command = rex(&sandbox, &["exec", "--json", "--", "true"]);
    let output = command.env("REX_TARGET", "wbe").output().unwrap();
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("(set by REX_TARGET)"), "{error}");
}

#[test]
fn targets_of_a_hub_without_a_sign_in_and_of_codex_without_a_socket() {
    let sandbox = Sandbox::new();
    assert_eq!(
        refusal(&sandbox, &["-t", "hub:host-a", "exec", "--", "true"]),
        "rex: cannot log in to hub:host-a: not signed in to a hub\nhint: sign in with `rex login URL`\n"
    );
    assert_eq!(
        refusal(&sandbox, &["-t", "hub:", "exec", "--", "true"]),
        "rex: cannot open a session on `hub:`: it means all hosts, and this command needs one\n\
         hint: use -t hub:HOST; `rex hosts` lists the hosts\n"
    );
    let said = refusal(&sandbox, &["-t", "hub:a/b", "exec", "--", "true"]);
    assert!(said.contains("expected the id or name of a host after `hub:`"), "{said}");
    let said = refusal(&sandbox, &["-t", "codex:http://h", "exec", "--", "true"]);
    assert!(said.contains("ws://HOST:PORT"), "{said}");
}

#[test]
fn a_half_written_registry() {
    let sandbox = Sandbox::new();
    let half = "{\n  \"targets\": {\n    \"web\": {\"host\": \"h";
    sandbox.write("home/config/rexd/targets.json", half);
    let expected = "rex: invalid registry $DIR/home/config/rexd/targets.json:3:22: \
                    EOF while parsing a string at line 3 column 22\n\
                    hint: fix $DIR/home/config/rexd/targets.json, or move it away and add the targets again; \
                    rex does not change it\n";
    assert_eq!(refusal(&sandbox, &["exec", "--", "true"]), expected);
    assert_eq!(refusal(&sandbox, &["target", "add", "a", "ssh:b"]), expected);
    assert_eq!(refusal(&sandbox, &["target", "remove", "web"]), expected);
    assert_eq!(sandbox.read("home/config/rexd/targets.json"), half);
    assert_eq!(
        run(&sandbox, &["-t", "local", "exec", "--", "true"]).status.code(),
        Some(0),
        "no registry is needed"
    );
}

#[test]
fn a_half_written_project_file() {
    let sandbox = Sandbox::new();
    sandbox.write("root/.rex.toml", "target = \"we");
    let said = refusal(&sandbox, &["exec", "--", "true"]);
    assert!(
        said.starts_with("rex: cannot use the project file $DIR/root/.rex.toml: line 1, column "),
        "{said}"
    );
    assert!(said.ends_with("hint: fix the file; -t overrides it\n"), "{said}");
    sandbox.write("root/.rex.toml", "tagret = \"web\"\n");
    assert_eq!(
        refusal(&sandbox, &["exec", "--", "true"]),
        "rex: cannot use the project file $DIR/root/.rex.toml: unknown key `tagret`\n\
         hint: did you mean `target`? the keys are `target` and `cwd`\n"
    );
}

#[test]
fn an_alias_that_could_be_taken_for_something_else() {
    let sandbox = Sandbox::new();
    for alias in ["a:b", "a/b", "", "-x", "local", "a b", "~"] {
        let said = refusal(&sandbox, &["target", "add", "--", alias, "ssh:h"]);
        assert!(said.contains("invalid alias"), "{alias:?}: {said}");
    }
}

#[test]
fn a_key_that_is_refused_and_a_rexd_that_is_missing() {
    let machine = Machine::start();
    let sandbox = &machine.sandbox;
    machine.add("box", &[]);
    assert_eq!(
        refusal(sandbox, &["-t", "box", "exec", "--", "true"]),
        "rex: cannot start rexd on ssh:machine: rexd is not installed on that machine\n\
         hint: install it with `rex target install machine --root DIR`\n"
    );
    sandbox.write("ssh/authorized_keys", "");
    // The connection that is open needs no key.
    support::text(sandbox, &["target", "close", "box"]);
    let said = refusal(sandbox, &["-t", "box", "exec", "--", "true"]);
    assert!(
        said.starts_with("rex: cannot log in to ssh:machine: ") && said.contains("Permission denied"),
        "{said}"
    );
    assert!(said.contains("hint: `ssh machine` must work without a password: add a key"), "{said}");
    let installing = refusal(sandbox, &["target", "install", "box", "--root", "/srv"]);
    assert_eq!(installing, said, "installing says the same");
}

#[test]
fn a_server_of_another_kind_or_version() {
    let machine = Machine::start();
    let sandbox = &machine.sandbox;
    let limits = "{\"default_timeout_ms\":1,\"hard_timeout_ms\":1,\"max_output_bytes\":1}";
    for (alias, result, words) in [
        (
            "older",
            "{\"session_id\":\"s\",\"protocol\":\"rexd/1\"}".to_owned(),
            "invalid response to `session.open`",
        ),
        (
            "other",
            format!("{{\"session_id\":\"s\",\"limits\":{limits}}}"),
            "invalid response to `session.open`",
        ),
    ] {
        let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}");
        machine.add(alias, &["--command", &format!("echo '{answer}'; cat >/dev/null")]);
        let said = refusal(sandbox, &["-t", alias, "exec", "--", "true"]);
        assert!(
            said.contains(words) && said.contains("hint:") && said.contains("rex target install"),
            "{said}"
        );
    }
    machine.add("mute", &["--command", "true"]);
    let said = refusal(sandbox, &["-t", "mute", "exec", "--", "true"]);
    assert!(said.contains("exited with status 0") && said.contains("speaks REXD"), "{said}");
}

#[test]
fn roots_that_make_no_sense_are_refused_before_anything_is_changed() {
    let machine = Machine::start();
    let sandbox = &machine.sandbox;
    machine.add("box", &[]);
    let into = machine.home("bin");
    let install = |more: &[&str]| {
        let arguments = ["target", "install", "box", "--into", into.to_str().unwrap()];
        let output = run(sandbox, &[&arguments[..], more].concat());
        assert_eq!(output.status.code(), Some(255), "{output:?}");
        assert!(!into.exists(), "nothing was changed");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(install(&["--root", "srv"]).contains("it must be absolute or start with ~/"));
    assert!(install(&["--root", "/srv\n/etc"]).contains("it must be absolute or start with ~/"));
    assert!(install(&[]).contains("hint: --root DIR"));
    sandbox.write("there/.config/rexd/config.toml", "[limits\n");
    let said = install(&["--root", "/srv"]);
    assert!(said.contains("config.toml on the machine: line 1") && said.contains("hint:"), "{said}");
}

#[test]
fn a_removed_current_directory_is_not_replaced_by_the_root_directory() {
    let sandbox = Sandbox::new();
    let template = rex(&sandbox, &[]);
    let script = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" \"$@\"";
    for arguments in [&["exec", "--", "ls", "/"][..], &["ls", "/"]] {
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", script, support::REX]).args(arguments).current_dir(sandbox.root()).env_clear();
        command.envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(255), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        assert!(errors.contains("the current directory does not exist any more"), "{errors}");
    }
}
