//! What a confinement costs a short command: `cargo run --release -p engine --example sandbox_speed`, and what
//! a part of it costs: `… -- landlock=0,namespaces=off`.
#![allow(clippy::print_stdout, reason = "it is what it is for")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::process::{Containment, Cursor, Item, ProcessLimits, ProcessSpec, Program, Stdin};
use engine::sandbox::{Confinement, OnGap, Profile, ProtectedPaths};
use engine::{Engine, EngineSettings, Roots};

const ROUNDS: usize = 3_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let lowered = std::env::args().nth(1).unwrap_or_default();
    let engine = Engine::start(EngineSettings {
        process_limits: bounds(),
        containment: Containment::Best,
        max_sessions: 1,
        sandbox: engine::sandbox::SandboxSettings { feature_mask: lowered.parse()?, on_gap: OnGap::Reduce },
        guardian: None,
        adopts_orphans: false,
    });
    let mut session = engine.open_session()?;
    let directory = tempfile::tempdir()?;
    let (root, state) = (directory.path().join("root"), directory.path().join("state"));
    std::fs::create_dir_all(root.join(".git/hooks"))?;
    std::fs::create_dir_all(&state)?;
    let own = ProtectedPaths { protect: Vec::new(), hide: vec![state], ..ProtectedPaths::default() };
    let write = Profile::workspace_write(&[root], None, &own);
    let kinds = [None, Some(Profile::read_only(&own)), Some(write)];
    let kinds = kinds.map(|profile| profile.map(|profile| Arc::new(Confinement::new([Arc::new(profile)]))));
    let mut times = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        for (confinement, times) in kinds.iter().zip(&mut times) {
            let spec = spec(confinement.clone())?;
            let before = Instant::now();
            let process = session.start(spec)?.running().await?;
            let mut reader = process.primary_reader(Cursor(0));
            while !matches!(reader.next(usize::MAX).await, Item::Closed(_)) {}
            times.push(before.elapsed());
        }
    }
    let medians = times.map(|mut times| {
        times.sort();
        times[ROUNDS / 2]
    });
    for (name, median) in ["unconfined", "read-only", "workspace-write"].iter().zip(medians) {
        println!("{name:<16} p50 {median:?}  {:.3}x", median.as_secs_f64() / medians[0].as_secs_f64());
    }
    Ok(())
}

fn spec(confinement: Option<Arc<Confinement>>) -> Result<ProcessSpec, engine::Error> {
    Ok(ProcessSpec {
        program: Program::Argv(vec!["/bin/true".to_owned()]),
        arg0: None,
        name: None,
        cwd: Roots::new(vec!["/".into()]).admit(Path::new("/"), Path::new("/tmp"))?,
        env: std::env::vars_os().collect(),
        terminal: None,
        stdin: Stdin::Empty,
        merges_stderr: false,
        side_pipes: None,
        end_grace: None,
        stop_after: None,
        output_limit: None,
        is_text: true,
        origin: "speed".into(),
        confinement,
    })
}

fn bounds() -> ProcessLimits {
    ProcessLimits {
        log_bytes: 1024 * 1024,
        spill_bytes: 1024 * 1024,
        spill_dir: PathBuf::from("/tmp"),
        commands_waiting: 16,
        kill_grace: Duration::from_millis(400),
        drain_idle: Duration::from_millis(100),
        drain_max: Duration::from_millis(500),
    }
}
