//! Shared by the tests of keepers: a private state directory, daemons that use it, and readers that collect all output.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::config::KeepersConfig;
use daemon::keeper::{KeeperSettings, Keepers};
use engine::process::{
    Containment, Cursor, Item, LogReader, Process, ProcessId, ProcessLimits, ProcessSpec, ProcessSummary,
    Program, Stdin, Stream,
};
use engine::{Engine, Error, RootedPath, Roots, Session};

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A detached process that a session has attached to.
#[derive(Debug)]
pub struct Attached {
    pub process: Process,
    pub reader: LogReader,
    /// Where the reader starts.
    pub from: Cursor,
    /// Lost bytes between the requested position and `from`.
    pub lost: u64,
}

/// Attaches a session to a detached process from a cursor on, whether it runs or has ended.
pub async fn attach(
    keepers: &Keepers,
    session: &mut Session,
    id: &ProcessId,
    from: Cursor,
) -> Result<Attached, Error> {
    let (kept, lost) = keepers.kept(id, from).await?;
    let from = kept.from;
    let (process, reader) = session.adopt(kept);
    Ok(Attached { process, reader, from, lost })
}

/// A state folder that goes, with all keepers in it, when this does.
#[derive(Debug)]
pub struct House {
    directory: tempfile::TempDir,
    state: PathBuf,
}

impl House {
    pub fn new() -> House {
        let directory = tempfile::Builder::new().prefix("rexd-keepers-").tempdir().unwrap();
        // Longer than a socket's path may be.
        let state = directory
            .path()
            .join("a-state-directory-with-a-name-that-is-much-too-long-for-the-path-of-a-socket");
        std::fs::create_dir(&state).unwrap();
        House { directory, state }
    }

    /// A house whose state lies elsewhere, as on a small disk.
    pub fn at(state: PathBuf) -> House {
        House { directory: tempfile::tempdir().unwrap(), state }
    }

    pub fn state(&self) -> &Path {
        &self.state
    }

    pub fn settings(&self) -> KeeperSettings {
        let mut settings =
            KeeperSettings::new(&self.state, KeepersConfig::default(), bounds(), Containment::default());
        settings.program = env!("CARGO_BIN_EXE_rexd").into();
        settings
    }

    /// A daemon's view: nothing is shared between two of them but the disk.
    pub fn keepers(&self) -> Keepers {
        Keepers::new(self.settings())
    }

    /// The same, with process trees held this way.
    pub fn keepers_with(&self, containment: Containment) -> Keepers {
        Keepers::new(KeeperSettings { containment, ..self.settings() })
    }

    pub fn session(&self) -> Session {
        let settings = engine::EngineSettings {
            process_limits: bounds(),
            containment: Containment::Marks,
            max_sessions: 64,
            sandbox: engine::sandbox::SandboxSettings::default(),
            guardian: None,
            adopts_orphans: false,
        };
        Engine::start(settings).open_session().unwrap()
    }

    pub fn directory(&self, below: &str) -> RootedPath {
        let root = self.directory.path().to_owned();
        Roots::new(vec![root.clone()]).admit(&root, Path::new(below)).unwrap()
    }

    pub fn shell(&self, line: &str) -> ProcessSpec {
        self.spec(Program::Shell { line: line.to_owned(), login: false })
    }

    pub fn argv(&self, words: &[&str]) -> ProcessSpec {
        self.spec(Program::Argv(words.iter().map(|word| (*word).to_owned()).collect()))
    }

    fn spec(&self, program: Program) -> ProcessSpec {
        ProcessSpec {
            program,
            arg0: None,
            name: None,
            cwd: self.directory(""),
            env: std::env::vars_os().collect(),
            terminal: None,
            stdin: Stdin::Open,
            merges_stderr: false,
            side_pipes: None,
            end_grace: None,
            stop_after: None,
            output_limit: None,
            is_text: true,
            origin: "test".into(),
            confinement: None,
        }
    }

    /// The directories of keepers that have, or had, a process.
    pub fn directories(&self) -> Vec<String> {
        self.all_directories().into_iter().filter(|name| name.starts_with("p_")).collect()
    }

    /// Those of spares and of starts that did not come to their end, too.
    pub fn all_directories(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.state.join("keepers")).into_iter().flatten().flatten();
        let names = entries.filter(|entry| entry.path().is_dir());
        names.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    pub fn path(&self, id: &ProcessId) -> PathBuf {
        self.state.join("keepers").join(&id.0)
    }

    pub fn read(&self, id: &ProcessId, name: &str) -> String {
        std::fs::read_to_string(self.path(id).join(name)).unwrap()
    }

    pub fn keeper_pid(&self, id: &ProcessId) -> i32 {
        keeper_pid(&self.path(id)).unwrap()
    }

    pub fn kill_keeper(&self, id: &ProcessId) {
        let pid = rustix::process::Pid::from_raw(self.keeper_pid(id)).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    /// Waits until the keeper has ended: it was nobody's child but its starter's, who reaps it.
    pub async fn keeper_ends(&self, id: &ProcessId) {
        let watched = testkit::proc::watch(self.keeper_pid(id));
        let deadline = Instant::now() + PATIENCE;
        let ended = tokio::task::spawn_blocking(move || watched.ends_before(deadline)).await.unwrap();
        assert!(ended, "the keeper of {id} lives on");
    }
}

impl Drop for House {
    /// Whatever still runs here is ended, by its number.
    fn drop(&mut self) {
        for entry in std::fs::read_dir(self.state.join("keepers")).into_iter().flatten().flatten() {
            let directory = entry.path();
            let is_over = directory.join("status.json").exists() && !directory.join("socket").exists();
            if let Some(pid) = keeper_pid(&directory).filter(|_| !is_over)
                && comm(pid).starts_with("rexd-keeper")
                && let Some(pid) = rustix::process::Pid::from_raw(pid)
            {
                let _ended = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
    }
}

fn keeper_pid(directory: &Path) -> Option<i32> {
    let record: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(directory.join("record.json")).ok()?).ok()?;
    i32::try_from(record["keeper_pid"].as_i64()?).ok()
}

fn comm(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default()
}

pub fn bounds() -> ProcessLimits {
    ProcessLimits {
        log_bytes: 1024 * 1024,
        spill_bytes: 64 * 1024 * 1024,
        spill_dir: std::env::temp_dir(),
        commands_waiting: 16,
        kill_grace: Duration::from_millis(400),
        drain_idle: Duration::from_millis(100),
        drain_max: Duration::from_millis(500),
    }
}

/// Everything a process wrote, by stream, and its end.
#[derive(Debug)]
pub struct Gathered {
    pub stdout: String,
    pub stderr: String,
    pub lost: u64,
    pub end: Cursor,
    pub closed: Arc<ProcessSummary>,
}

pub async fn gather(mut reader: LogReader) -> Gathered {
    let (mut stdout, mut stderr, mut lost, mut end) = (Vec::new(), Vec::new(), 0, reader.cursor());
    loop {
        match next(&mut reader).await {
            Item::Output { stream, bytes, next } => {
                end = next;
                if stream == Stream::Stderr { &mut stderr } else { &mut stdout }.extend_from_slice(&bytes);
            }
            Item::Lost { bytes, next } => (lost, end) = (lost + bytes, next),
            Item::Disconnected => panic!("left"),
            Item::Exited { .. } => {}
            Item::Closed(closed) => {
                let text = |bytes| String::from_utf8(bytes).unwrap();
                return Gathered { stdout: text(stdout), stderr: text(stderr), lost, end, closed };
            }
        }
    }
}

/// Reads until `needle` was printed; what came so far.
pub async fn read_until(reader: &mut LogReader, needle: &str) -> String {
    let mut text = String::new();
    while !text.contains(needle) {
        match next(reader).await {
            Item::Output { bytes, .. } => text.push_str(std::str::from_utf8(&bytes).unwrap()),
            other => panic!("no {needle:?} before {other:?}; so far {text:?}"),
        }
    }
    text
}

async fn next(reader: &mut LogReader) -> Item {
    tokio::time::timeout(PATIENCE, reader.next(usize::MAX)).await.unwrap()
}

/// Waits until something is so.
pub async fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not so: {what}");
        ticks.tick().await;
    }
}
