//! Shared by the process tests: an engine, specs, and readers that collect all output.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::process::{
    Containment, Cursor, Item, Process, ProcessLimits, ProcessSpec, ProcessSummary, Program, Stdin, Stream,
};
use engine::{Engine, EngineSettings, RootedPath, Roots, Session};

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

pub fn engine(containment: Containment) -> Engine {
    Engine::start(EngineSettings {
        process_limits: bounds(),
        containment,
        max_sessions: 64,
        sandbox: engine::sandbox::SandboxSettings::default(),
        guardian: None,
        adopts_orphans: false,
    })
}

pub fn directory(path: &Path) -> RootedPath {
    Roots::new(vec!["/".into()]).admit(Path::new("/"), path).unwrap()
}

pub fn argv(words: &[&str]) -> ProcessSpec {
    spec(Program::Argv(words.iter().map(|word| (*word).to_owned()).collect()))
}

pub fn shell(line: &str) -> ProcessSpec {
    spec(Program::Shell { line: line.to_owned(), login: false })
}

fn spec(program: Program) -> ProcessSpec {
    let env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
    ProcessSpec {
        program,
        arg0: None,
        name: None,
        cwd: directory(&std::env::temp_dir()),
        env: env.into_iter().collect(),
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

/// Everything a process wrote, by stream, and its end.
#[derive(Debug)]
pub struct Gathered {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub closed: Arc<ProcessSummary>,
}

impl Gathered {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }
}

pub async fn gather(process: &Process) -> Gathered {
    let mut reader = process.primary_reader(Cursor(0));
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        match reader.next(usize::MAX).await {
            Item::Output { stream: Stream::Stderr, bytes, .. } => stderr.extend_from_slice(&bytes),
            Item::Output { bytes, .. } => stdout.extend_from_slice(&bytes),
            Item::Lost { bytes, .. } => panic!("{bytes} bytes lost"),
            Item::Exited { .. } => {}
            Item::Closed(closed) => return Gathered { stdout, stderr, closed },
            Item::Disconnected => panic!("left"),
        }
    }
}

pub async fn run(session: &mut Session, spec: ProcessSpec) -> Gathered {
    let process = session.start(spec).unwrap().running().await.unwrap();
    gather(&process).await
}

/// Reads until `needle` was printed; what came so far.
pub async fn read_until(reader: &mut engine::process::LogReader, needle: &str) -> String {
    let mut text = String::new();
    while !text.contains(needle) {
        match reader.next(usize::MAX).await {
            Item::Output { bytes, .. } => text.push_str(std::str::from_utf8(&bytes).unwrap()),
            other => panic!("no {needle:?} before {other:?}; so far {text:?}"),
        }
    }
    text
}

pub fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat[stat.rfind(')').unwrap() + 2..].chars().next();
        !matches!(state, Some('Z' | 'X'))
    })
}
