//! `rex shell` and `rex attach` in a real terminal: full-screen programs, sizes, leaving and coming back.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says so and ends")]

mod support;

use std::process::Stdio;
use std::time::Instant;

use support::{rex, text};
use testkit::daemon::PATIENCE;
use testkit::proc::watch;
use testkit::programs::program;
use testkit::sandbox::Sandbox;
use testkit::screen::Screen;
use testkit::serve::ServedDaemon;

/// A shell that prints nothing but what it is told to.
fn shell(sandbox: &Sandbox, cols: u16, rows: u16) -> Screen {
    let command = rex(sandbox, &["shell", "--", "env", "PS1=ready> ", "sh", "-i"]);
    let mut screen = Screen::start(&command, cols, rows);
    screen.shows("ready>");
    screen
}

#[test]
fn vim_edits_and_saves_a_file() {
    let sandbox = Sandbox::new();
    sandbox.write("root/poem.txt", "roses are blue\n");
    let mut screen = shell(&sandbox, 80, 24);
    screen.type_in("vim -u NONE poem.txt\r");
    screen.shows("roses are blue");
    screen.type_in("/blue\rcwred\x1boviolets are blue\x1b");
    screen.shows("violets are blue");
    screen.type_in(":wq\r");
    screen.until("leave vim", |seen| seen.trim_end().ends_with("ready>"));
    screen.type_in("exit 4\r");
    let (status, seen) = screen.end();
    assert_eq!(status.code(), Some(4), "{seen}");
    assert_eq!(sandbox.read("root/poem.txt"), "roses are red\nviolets are blue\n");
}

#[test]
fn the_program_sees_the_size_and_its_changes() {
    let sandbox = Sandbox::new();
    let mut screen = shell(&sandbox, 100, 30);
    screen.type_in("stty size\r");
    screen.shows("30 100");
    screen.resize(72, 20);
    screen.type_in("until test \"$(stty size)\" = '20 72'; do :; done; echo now $(stty size)\r");
    screen.shows("now 20 72");
    screen.type_in("exit\r");
    assert!(screen.end().0.success());
}

#[test]
fn whoever_leaves_and_comes_back_finds_the_screen_as_it_was() {
    let sandbox = Sandbox::new();
    let mut screen = shell(&sandbox, 80, 24);
    screen.type_in("vim -u NONE -c 'set noswapfile' page\r");
    screen.shows("\"page\"");
    screen.type_in("ikept in the buffer\x1b");
    screen.shows("kept in the buffer");
    screen.type_in("\r~.");
    let (status, seen) = screen.end();
    assert!(status.success() && seen.contains("rex attach p_"), "{seen}");
    let id = seen.split("rex attach ").nth(1).and_then(|rest| rest.get(..14)).unwrap().to_owned();
    assert!(text(&sandbox, &["ps"]).contains(&id), "it runs on");

    let mut again = Screen::start(&rex(&sandbox, &["attach", &id]), 90, 28);
    again.shows("kept in the buffer");
    again.type_in(":q!\r");
    // The screen below vim has an earlier prompt.
    again.until("leave vim", |seen| seen.trim_end().ends_with("ready>"));
    again.type_in("stty size; exit\r");
    let (status, seen) = again.end();
    assert!(status.success() && seen.contains("28 90"), "{seen}");
}

#[test]
fn whoever_leaves_another_target_than_the_usual_is_told_how_to_come_back_there() {
    let sandbox = Sandbox::new();
    let served = ServedDaemon::start(&program("rexd"), &sandbox);
    text(&sandbox, &["target", "add", "box", &format!("unix:{}", served.addresses.unix.display())]);
    let command = rex(&sandbox, &["-t", "box", "shell", "--", "env", "PS1=ready> ", "sh", "-i"]);
    let mut screen = Screen::start(&command, 120, 24);
    screen.shows("ready>");
    screen.type_in("\r~.");
    let (_, seen) = screen.end();
    let id = seen
        .split("`rex -t box attach ")
        .nth(1)
        .and_then(|rest| rest.get(..14))
        .unwrap_or_else(|| panic!("{seen}"));
    let mut again = Screen::start(&rex(&sandbox, &["-t", "box", "attach", id]), 120, 24);
    again.type_in("exit 6\r");
    assert_eq!(again.end().0.code(), Some(6));
}

#[test]
fn names_from_elsewhere_do_not_speak_to_the_terminal() {
    let sandbox = Sandbox::new();
    sandbox.write("root/a\x1b[2Jb", "");
    for arguments in [&["glob", "a*"][..], &["stat", "a\x1b[2Jb"], &["ls"]] {
        let mut screen = Screen::start(&rex(&sandbox, arguments), 200, 24);
        let (status, seen) = screen.end();
        // What it would have cleared is still to be seen.
        assert!(status.success() && seen.contains("[2Jb"), "{arguments:?}: {seen}");
    }
    assert_eq!(text(&sandbox, &["glob", "a*"]), "a\x1b[2Jb\n", "programs get the name as it is");
}

#[test]
fn the_terminal_is_put_back_as_it_was() {
    let sandbox = Sandbox::new();
    let rex_shell = rex(&sandbox, &["shell", "--", "true"]);
    let mut line = sandbox.command("/bin/sh");
    let quoted = format!(
        "stty -a > before; {} shell -- true; stty -a > after; cmp before after && echo same",
        support::REX
    );
    line.args(["-c", &quoted]).current_dir(sandbox.root());
    for (name, value) in rex_shell.get_envs() {
        line.env(name, value.unwrap_or_default());
    }
    let mut screen = Screen::start(&line, 80, 24);
    screen.shows("same");
}

#[test]
fn keys_that_are_signals_here_reach_the_program_there() {
    let sandbox = Sandbox::new();
    let mut screen = shell(&sandbox, 80, 24);
    // A shell that is about to start its command may swallow a Ctrl-C: the command itself says that it runs.
    screen.type_in("sh -c 'echo run''ning; exec sleep 1000'\r");
    screen.shows("running");
    screen.type_in("\x03");
    screen.until("be interrupted", |seen| seen.matches("ready>").count() == 2);
    screen.type_in("cat\rline\r\x04");
    screen.until("end at Ctrl-D", |seen| {
        seen.matches("ready>").count() == 3 && seen.matches("line").count() == 2
    });
    screen.type_in("exit\r");
    let (status, seen) = screen.end();
    assert!(status.success(), "{seen}");
}

#[test]
fn without_a_command_the_users_own_shell_opens() {
    let sandbox = Sandbox::new();
    let mut command = rex(&sandbox, &["shell"]);
    command.env("SHELL", "/bin/sh").env("PS1", "own> ");
    let mut screen = Screen::start(&command, 80, 24);
    screen.type_in("echo $((6 * 7)) $0; exit 5\r");
    screen.shows("42");
    assert_eq!(screen.end().0.code(), Some(5));
}

#[test]
fn without_a_terminal_the_shell_does_what_comes_on_stdin_and_ends_with_it() {
    let sandbox = Sandbox::new();
    let script = sandbox.write("outside/script", "echo piped; test -t 0 || echo plain; exit 3\n");
    for (input, said, status) in [
        (std::fs::File::open(script).unwrap(), "piped\nplain\n", 3),
        (std::fs::File::open("/dev/null").unwrap(), "", 0),
    ] {
        let mut command = rex(&sandbox, &["shell"]);
        command.env("SHELL", "/bin/sh").stdin(input).stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        let watched = watch(i32::try_from(child.id()).unwrap());
        assert!(watched.ends_before(Instant::now() + PATIENCE), "it does not end");
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (String::from_utf8_lossy(&output.stdout).as_ref(), output.status.code()),
            (said, Some(status))
        );
    }
    let listed: serde_json::Value = serde_json::from_str(&text(&sandbox, &["ps", "-a", "--json"])).unwrap();
    assert_eq!(listed["processes"], serde_json::json!([]), "nothing is left running");
}

#[test]
fn ctrl_c_is_for_the_command_and_not_for_the_daemon() {
    let sandbox = Sandbox::new();
    let line = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.01; done";
    let mut screen = Screen::start(&rex(&sandbox, &["exec", "--", "sh", "-c", line]), 80, 24);
    screen.shows("ready");
    screen.type_in("\x03");
    let (status, seen) = screen.end();
    assert_eq!(status.code(), Some(9), "{seen}");
    assert!(seen.contains("caught"), "{seen}");
}

#[test]
fn a_window_that_is_closed_leaves_what_ran_in_it() {
    let sandbox = Sandbox::new();
    let mut screen = shell(&sandbox, 80, 24);
    screen.type_in("echo $$ > number\r");
    sandbox.appears("root/number", Instant::now() + PATIENCE);
    let listed: serde_json::Value = serde_json::from_str(&text(&sandbox, &["ps", "--json"])).unwrap();
    let id = listed["processes"][0]["process_id"].as_str().unwrap().to_owned();
    // The end of the terminal is a hang-up for who sits in it.
    drop(screen);
    let listed = text(&sandbox, &["ps"]);
    assert!(listed.contains(&id), "{listed}");
    assert!(support::run(&sandbox, &["kill", &id]).status.success());
}

#[test]
fn attaching_shows_the_screen_and_repeats_neither_history_nor_queries() {
    let sandbox = Sandbox::new();
    let mut screen = shell(&sandbox, 80, 24);
    screen.type_in("echo cleared $((40+2)); clear; printf '\\033[6n\\033[32mgreen\\033[0m\\n'\r");
    // The typed line contains "green" too: without the prompt below it, `clear` could erase what is typed next.
    screen.until("show the cleared screen", |seen| seen.starts_with("green\nready>"));
    screen.type_in("vim -u NONE -c 'set noswapfile mouse=a' page\r");
    screen.shows("\"page\"");
    screen.type_in("ione\rtwo\x1b");
    screen.shows("two");
    screen.type_in("\r~.");
    let (status, seen) = screen.end();
    assert!(status.success(), "{seen}");

    let mut again = Screen::start(&rex(&sandbox, &["attach"]), 80, 24);
    again.until("show the page", |seen| seen.starts_with("one\ntwo\n"));
    again.type_in(":q!\r");
    again.until("show what was below the page", |seen| {
        seen.contains("green") && seen.contains("set noswapfile") && seen.trim_end().ends_with("ready>")
    });
    let raw = again.raw();
    for query in ["\x1b[6n", "\x1b[c", "\x1b[>c", "\x1b[0c"] {
        assert!(!raw.contains(query), "{query:?} was sent again: {raw:?}");
    }
    assert!(!raw.contains("cleared 42"), "the history was sent again: {raw:?}");
    assert!(raw.contains("\x1b[32m"), "colours are kept: {raw:?}");
    again.type_in("exit 5\r");
    assert_eq!(again.end().0.code(), Some(5));
}
