//! `make run`: a conversation with a real `rexd` over its standard streams, shown as it happens.
//!
//! Called as `demo [PATH_TO_REXD]`; without a path it takes the `rexd` that was built beside it. It works in a temporary
//! directory, checks every answer, and exits with 1 when one is not what it should be.

use std::io::{self, BufRead as _, BufReader, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

/// How long any single answer or event may take; all of them are there in milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Lines from the daemon that wait to be shown; past it the daemon waits.
const LINES_WAITING: usize = 64;
/// Where nobody says how wide the terminal is.
const USUAL_WIDTH: usize = 110;
/// What stands for the long name of the workspace on the screen.
const WORKSPACE: &str = "WORKSPACE";
/// Members that are the same in every line, or that only a program wants to know.
const NOT_SHOWN: &[&str] =
    &["session_id", "event_id", "cursor", "seq", "capabilities", "limits", "before", "after"];

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
    let session = open(&mut talk)?;
    run_a_command(&mut talk, &session)?;
    change_files(&mut talk, &session)?;
    stay_inside(&mut talk, &session)?;
    use_a_terminal(&mut talk, &session)?;
    kill_a_tree(&mut talk, &session)?;
    close(talk, &session)?;
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
        format!("[audit]\npath = {:?}\n", audit.display().to_string()),
    )?;
    Ok(())
}

fn open(talk: &mut Talk<'_>) -> Result<String> {
    talk.heading("open a session")?;
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
    screen.plain("  the next minute is in README.md: the tour, ssh, and how to point a client at it")
}

/// A conversation with one daemon.
struct Talk<'s> {
    daemon: Child,
    input: Option<ChildStdin>,
    lines: Receiver<Value>,
    last_id: i64,
    screen: &'s mut Screen,
}

impl<'s> Talk<'s> {
    fn start(rexd: &Path, place: &Path, root: &Path, screen: &'s mut Screen) -> Result<Self> {
        let mut command = Command::new(rexd);
        command.arg("--stdio").arg("--config").arg(place.join("config.toml")).arg("--root").arg(root);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut daemon = command.spawn().with_context(|| format!("cannot start {}", rexd.display()))?;
        let (input, output) = (daemon.stdin.take(), daemon.stdout.take().context("a piped output")?);
        let (lines, received) = sync_channel(LINES_WAITING);
        // Ends with the daemon's output, or when nobody listens any more.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let value = serde_json::from_str(&line).unwrap_or_else(|_| json!({ "not_json": line }));
                if lines.send(value).is_err() {
                    return;
                }
            }
        });
        Ok(Talk { daemon, input, lines: received, last_id: 0, screen })
    }

    /// Asks for something that must be done, and returns its result.
    fn ask(&mut self, method: &str, params: Value) -> Result<Value> {
        let mut answer = self.answer(method, params)?;
        ensure!(answer.get("error").is_none(), "{method} was refused: {}", answer["error"]);
        Ok(answer["result"].take())
    }

    /// Asks for something that must be refused, and returns the error.
    fn refused(&mut self, method: &str, params: Value) -> Result<Value> {
        let mut answer = self.answer(method, params)?;
        ensure!(answer.get("error").is_some(), "{method} was not refused");
        Ok(answer["error"].take())
    }

    fn answer(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last_id += 1;
        self.screen.sent(method, &params)?;
        let request = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        let input = self.input.as_mut().context("the connection is open")?;
        input.write_all(format!("{request}\n").as_bytes()).context("rexd reads no more")?;
        loop {
            let line = self.next()?;
            if line["id"] == self.last_id {
                return Ok(line);
            }
        }
    }

    /// The events of a process up to the first that is called `method`, and that one's params.
    fn until(&mut self, method: &str, process: &Value) -> Result<(Vec<Value>, Value)> {
        let mut events = Vec::new();
        loop {
            let mut line = self.next()?;
            if line["params"]["process_id"] != *process {
                continue;
            }
            if line["method"] == method {
                return Ok((events, line["params"].take()));
            }
            events.push(line);
        }
    }

    /// The next line of the daemon, which is shown.
    fn next(&mut self) -> Result<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                ensure!(line["jsonrpc"] == "2.0", "this is no line of the protocol: {line}");
                self.screen.received(&line)?;
                Ok(line)
            }
            Err(RecvTimeoutError::Timeout) => bail!("rexd said nothing for {} s", PATIENCE.as_secs()),
            Err(RecvTimeoutError::Disconnected) => bail!("rexd has ended early"),
        }
    }

    fn heading(&mut self, text: &str) -> Result<()> {
        self.screen.heading(text)
    }

    fn note(&mut self, text: &str) -> Result<()> {
        self.screen.note(text)
    }
}

impl Drop for Talk<'_> {
    fn drop(&mut self) {
        // Closing its input is how a daemon is told that its peer has gone; it ends its processes itself.
        drop(self.input.take());
        let _ended = self.daemon.wait();
    }
}

/// Where the conversation is shown.
struct Screen {
    colours: bool,
    width: usize,
    workspace: String,
}

const BOLD: &str = "1";
const SENT: &str = "36";
const DONE: &str = "32";
const FAILED: &str = "33";
const QUIET: &str = "2";

impl Screen {
    fn open() -> Screen {
        let objected = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_terminal = io::stdout().is_terminal();
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col >= 40);
        let width = size.map_or(USUAL_WIDTH, |size| usize::from(size.ws_col));
        Screen { colours: is_terminal && !objected, width, workspace: String::new() }
    }

    fn sent(&mut self, method: &str, params: &Value) -> Result<()> {
        self.line(SENT, &format!("  → {method} {}", shortened(params)))
    }

    fn received(&mut self, line: &Value) -> Result<()> {
        if let Some(method) = line["method"].as_str() {
            return self.line(QUIET, &format!("  ← {method} {}", shortened(&line["params"])));
        }
        match line.get("error") {
            Some(error) => self.line(FAILED, &format!("  ← error {error}")),
            None => self.line(DONE, &format!("  ← {}", shortened(&line["result"]))),
        }
    }

    fn heading(&mut self, text: &str) -> Result<()> {
        self.whole("")?;
        self.line(BOLD, text)
    }

    fn note(&mut self, text: &str) -> Result<()> {
        self.line(DONE, &format!("  {text}"))
    }

    fn plain(&mut self, text: &str) -> Result<()> {
        self.line("", text)
    }

    /// A line as it is, because it is there to be copied.
    fn whole(&mut self, text: &str) -> Result<()> {
        Ok(writeln!(io::stdout(), "{text}")?)
    }

    /// A line, no wider than the terminal.
    fn line(&mut self, colour: &str, text: &str) -> Result<()> {
        let mut shown = text.to_owned();
        if !self.workspace.is_empty() {
            shown = shown.replace(&self.workspace, WORKSPACE);
        }
        if shown.chars().count() > self.width {
            shown = shown.chars().take(self.width - 1).chain(['…']).collect();
        }
        match self.colours && !colour.is_empty() {
            true => writeln!(io::stdout(), "\x1b[{colour}m{shown}\x1b[0m")?,
            false => writeln!(io::stdout(), "{shown}")?,
        }
        Ok(())
    }
}

/// What differs from line to line.
fn shortened(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let shown = members
                .iter()
                .filter(|(name, value)| !NOT_SHOWN.contains(&name.as_str()) && !value.is_null());
            Value::Object(shown.map(|(name, value)| (name.clone(), shortened(value))).collect())
        }
        Value::Array(items) => items.iter().map(shortened).collect(),
        other => other.clone(),
    }
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
