//! `make run`: a conversation with a real `rexd` over its standard streams, shown as it happens.
//!
//! Called as `demo [PATH_TO_REXD]`; without a path it takes the `rexd` that was built beside it. It works in a temporary
//! directory, checks every answer, and exits with 1 when one is not what it should be.

mod guard;
mod screen;
mod talk;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use screen::{Screen, WORKSPACE};
use talk::Talk;

fn main() -> ExitCode {
    let mut screen = Screen::open();
    match tour(&mut screen) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody to tell if even this fails.
            let _told = writeln!(io::stderr(), "demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn tour(screen: &mut Screen) -> Result<()> {
    let rexd = find_rexd()?;
    let place = tempfile::tempdir().context("cannot make a temporary directory")?;
    let audit = place.path().join("audit.log");
    let workspace = place.path().join("workspace");
    prepare(place.path(), &workspace, &audit)?;
    screen.plain(&format!("rexd is {}", rexd.display()))?;
    screen.plain(&format!("{WORKSPACE} is {}", workspace.display()))?;
    screen.plain("→ is sent, ← is received; session, numbers of events and the like are left out")?;
    screen.workspace = workspace.display().to_string();

    let mut talk = Talk::start(&rexd, place.path(), &workspace, screen)?;
    let began = Instant::now();
    talk.heading("open a session")?;
    let session = open(&mut talk)?;
    run_a_command(&mut talk, &session)?;
    change_files(&mut talk, &session)?;
    stay_inside(&mut talk, &session)?;
    use_a_terminal(&mut talk, &session)?;
    guard::confine(&mut talk, &session)?;
    guard::ask_first(&mut talk, &session)?;
    kill_a_tree(&mut talk, &session)?;
    close(talk, &session)?;
    outlive(&rexd, place.path(), &workspace, screen)?;
    let took = began.elapsed();
    verify_the_audit(&rexd, &audit, screen)?;
    farewell(&rexd, took, screen)
}

/// The daemon that was named, or the one that was built with this example.
fn find_rexd() -> Result<PathBuf> {
    let named = std::env::args_os().nth(1).map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.parent()?.parent()?.join("rexd"));
    let rexd = named.or_else(beside).context("name the rexd to start: demo PATH_TO_REXD")?;
    rexd.canonicalize()
        .with_context(|| format!("there is no {}; build it first: cargo build", rexd.display()))
}

/// A sample workspace, and a configuration so that the reader's own is neither read nor audited to.
fn prepare(place: &Path, workspace: &Path, audit: &Path) -> Result<()> {
    std::fs::create_dir_all(workspace.join("src"))?;
    std::fs::write(workspace.join("src/list.txt"), "apples\npears\n")?;
    std::fs::write(place.join("secret.txt"), "not for the agent\n")?;
    std::fs::write(
        place.join("config.toml"),
        format!("{}[audit]\npath = {:?}\n", guard::POLICY, audit.display().to_string()),
    )?;
    Ok(())
}

fn open(talk: &mut Talk<'_>) -> Result<String> {
    let opened = talk.ask("session.open", json!({ "client_name": "demo" }))?;
    expect(&opened["protocol"], "rexd/1")?;
    opened["session_id"].as_str().map(str::to_owned).context("a session has an id")
}

fn run_a_command(talk: &mut Talk<'_>, session: &str) -> Result<()> {
    talk.heading("run a command: two streams, an exit code, every byte as it was written")?;
    let line = "printf 'to the one'; printf 'to the other' >&2; exit 3";
    let params = json!({ "session_id": session, "shell": true, "command": line });
    let started = talk.ask("exec.start", params)?;
    let (events, exit) = talk.until("exec.exit", &started["process_id"])?;
    expect(&Value::from(text_of(&events, "exec.stdout")), "to the one")?;
    expect(&Value::from(text_of(&events, "exec.stderr")), "to the other")?;
    expect(&exit["exit_code"], 3)
}

fn change_files(talk: &mut Talk<'_>, session: &str) -> Result<()> {
    talk.heading("write, read, edit and search files")?;
    let path = "src/deep/todo.txt";
    let content = "buy apples\nsell pears\n";
    let params = json!({ "session_id": session, "path": path, "content": content, "mkdir_parents": true });
    expect(&talk.ask("fs.write", params)?["created"], true)?;
    let read = talk.ask("fs.read", json!({ "session_id": session, "path": path }))?;
    expect(&read["content"], content)?;
    let edit =
        json!({ "session_id": session, "path": path, "old_string": "sell pears", "new_string": "eat pears" });
    expect(&talk.ask("fs.edit", edit)?["replacements"], 1)?;
    let found = talk.ask("fs.grep", json!({ "session_id": session, "pattern": "^(eat )?pears" }))?;
    expect(&Value::from(found["matches"].as_array().map_or(0, Vec::len)), 2)
}

fn stay_inside(talk: &mut Talk<'_>, session: &str) -> Result<()> {
    talk.heading("a path that leaves the root is refused")?;
    let error = talk.refused("fs.read", json!({ "session_id": session, "path": "../secret.txt" }))?;
    expect(&error["code"], -32002)
}

fn use_a_terminal(talk: &mut Talk<'_>, session: &str) -> Result<()> {
    talk.heading("a terminal of a given size, typed into")?;
    let params = json!({ "session_id": session, "argv": ["cat"], "cols": 90, "rows": 25 });
    let opened = talk.ask("pty.open", params)?;
    let terminal = opened["pty_id"].clone();
    talk.ask(
        "pty.input",
        json!({ "session_id": session, "pty_id": terminal, "data": "hello, terminal\n\u{4}" }),
    )?;
    let (events, exit) = talk.until("pty.exit", &opened["process_id"])?;
    // Once as the terminal's echo, once as what `cat` says.
    let count = text_of(&events, "pty.output").matches("hello, terminal").count();
    expect(&Value::from(count), 2)?;
    expect(&exit["exit_code"], 0)
}

fn kill_a_tree(talk: &mut Talk<'_>, session: &str) -> Result<()> {
    talk.heading(
        "kill with proof: one child in the background, one that ran away into a session of its own",
    )?;
    let line = "sleep 300 & setsid sleep 300 & sleep 0.2; echo ready; wait";
    let started = talk.ask("exec.start", json!({ "session_id": session, "shell": true, "command": line }))?;
    let process = &started["process_id"];
    talk.until("exec.stdout", process)?;
    let asked = Instant::now();
    let ended = talk.ask("exec.kill", json!({ "session_id": session, "process_id": process }))?;
    let took = asked.elapsed();
    let killed: Vec<i64> =
        ended["killed"].as_array().into_iter().flatten().filter_map(|one| one["pid"].as_i64()).collect();
    ensure!(killed.len() >= 3, "expected a shell and two sleeps among the killed, found {}", ended["killed"]);
    expect(&ended["left"], json!([]))?;
    let alive: Vec<i64> = killed.iter().copied().filter(|pid| is_alive(*pid)).collect();
    ensure!(alive.is_empty(), "{alive:?} were said to be dead and are alive");
    talk.until("exec.exit", process)?;
    talk.note(&format!(
        "looked into /proc: all {} are gone, within {} ms of the question",
        killed.len(),
        took.as_millis() + 1
    ))
}

fn close(mut talk: Talk<'_>, session: &str) -> Result<()> {
    talk.heading("close the session, then the connection")?;
    talk.ask("session.close", json!({ "session_id": session }))?;
    drop(talk.input.take());
    let status = talk.daemon.wait()?;
    ensure!(status.success(), "rexd ended with {status}");
    talk.note("rexd has ended with exit code 0")
}

/// A detached process goes on when its daemon is killed, and the next daemon has it in hand.
fn outlive(rexd: &Path, place: &Path, workspace: &Path, screen: &mut Screen) -> Result<()> {
    let mut first = Talk::start(rexd, place, workspace, screen)?;
    first.heading("detached: the daemon is killed with -9, the process goes on, the next daemon finds it")?;
    let session = open(&mut first)?;
    let line = "i=0; while read word; do i=$((i+1)); echo \"$i $word\"; done";
    let params = json!({ "session_id": session, "shell": true, "command": line, "detach": true });
    let process = first.ask("exec.start", params)?["process_id"].clone();
    first.ask("exec.input", json!({ "session_id": session, "process_id": process, "data": "before\n" }))?;
    let (_, told) = first.until("exec.stdout", &process)?;
    expect(&told["data"], "1 before\n")?;
    first.daemon.kill().context("cannot kill the daemon")?;
    first.note("rexd was killed with -9")?;
    drop(first);

    let mut next = Talk::start(rexd, place, workspace, screen)?;
    let session = open(&mut next)?;
    let attach = json!({ "session_id": session, "process_id": process, "cursor": told["cursor"] });
    expect(&next.ask("exec.attach", attach)?["lost"], 0)?;
    next.ask("exec.input", json!({ "session_id": session, "process_id": process, "data": "after\n" }))?;
    let (_, told) = next.until("exec.stdout", &process)?;
    expect(&told["data"], "2 after\n")?;
    let ended = next.ask("exec.kill", json!({ "session_id": session, "process_id": process }))?;
    expect(&ended["ok"], true)?;
    next.until("exec.exit", &process)?;
    next.note("nothing was missed and nothing was told twice")
}

fn verify_the_audit(rexd: &Path, audit: &Path, screen: &mut Screen) -> Result<()> {
    screen.heading("what happened is on record, in a chain of hashes: rexd audit verify")?;
    let output = Command::new(rexd).args(["audit", "verify"]).arg(audit).output()?;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        screen.note(line)?;
    }
    ensure!(output.status.success(), "the audit file does not hold together");
    Ok(())
}

fn farewell(rexd: &Path, took: Duration, screen: &mut Screen) -> Result<()> {
    let rexd = rexd.display();
    screen.heading(&format!("all of it took {} ms; try it yourself:", took.as_millis()))?;
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"session.open"}"#;
    screen.whole(&format!("  echo '{request}' | {rexd} --root ."))?;
    screen.whole(&format!("  {rexd} doctor --root ."))?;
    screen.whole(&format!("  {rexd} serve --root . --http 127.0.0.1:8080 --unix /tmp/rexd.sock"))?;
    screen.plain("  the next minute is in README.md: the tour, ssh, and how to point a client at it")
}

/// All text of the events that are called `method`, put together.
fn text_of(events: &[Value], method: &str) -> String {
    let wanted = events.iter().filter(|event| event["method"] == method);
    wanted.filter_map(|event| event["params"]["data"].as_str()).collect()
}

fn expect(found: &Value, wanted: impl Into<Value>) -> Result<()> {
    let wanted = wanted.into();
    ensure!(*found == wanted, "expected {wanted}, found {found}");
    Ok(())
}

/// Whether a process exists and is more than an entry that nobody has cleared away.
fn is_alive(pid: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}
