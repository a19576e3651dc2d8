//! A writer that is killed at any step leaves the complete old or new file, and the next write in the directory removes its
//! temporary files.
//!
//! The tests execute this program again as the writer: the test `writer` writes if an environment variable is set, and does
//! nothing otherwise.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use engine::files::{
    Durability, ReadRange, ResolveStrategy, RootedPath, Roots, WriteObserver, WriteOptions, WriteStep, read,
    write, write_observed,
};

const DIRECTORY: &str = "FILES_CRASH_DIRECTORY";
const DIE_AT: &str = "FILES_CRASH_DIE_AT";
const WALK: &str = "FILES_CRASH_WALK";
const BOTH: [ResolveStrategy; 2] = [ResolveStrategy::Kernel, ResolveStrategy::Walk];
const STEPS: [WriteStep; 7] = [
    WriteStep::Opened,
    WriteStep::Filled,
    WriteStep::PermissionsSet,
    WriteStep::Synced,
    WriteStep::Named,
    WriteStep::Renamed,
    WriteStep::NameSynced,
];

/// Ends the process, as `kill -9` does, after a step.
struct DieAt(Option<WriteStep>);

impl WriteObserver for DieAt {
    fn done(&self, step: WriteStep) {
        if self.0 == Some(step) {
            let myself = rustix::process::getpid();
            rustix::process::kill_process(myself, rustix::process::Signal::KILL).unwrap();
        }
    }
}

/// Two contents that cannot be mistaken for each other, nor a part of one for the whole.
fn content(number: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![b'a' + (number % 26) as u8; size];
    bytes.extend_from_slice(format!("end of {number}, {size}").as_bytes());
    bytes
}

fn versions() -> Vec<Vec<u8>> {
    [10, 3_000_000, 700, 1_234_567, 5_000_000]
        .into_iter()
        .enumerate()
        .map(|(index, size)| content(index, size))
        .collect()
}

fn target(directory: &Path, strategy: ResolveStrategy) -> RootedPath {
    Roots::with_strategy(vec![directory.to_owned()], strategy).admit(directory, Path::new("file")).unwrap()
}

fn content_of(path: &RootedPath) -> Vec<u8> {
    read(path, ReadRange::whole(1 << 30)).unwrap().bytes
}

#[test]
fn writer() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let strategy =
        if std::env::var_os(WALK).is_some() { ResolveStrategy::Walk } else { ResolveStrategy::Kernel };
    let path = target(Path::new(&directory), strategy);
    let die_at =
        std::env::var(DIE_AT).ok().and_then(|index| STEPS.get(index.parse::<usize>().unwrap()).copied());
    let durability = if die_at.is_some() { Durability::Synced } else { Durability::Relaxed };
    let options = WriteOptions { durability, ..WriteOptions::default() };
    println!("\nwriting");
    if die_at.is_some() {
        write_observed(&path, &versions()[1], &options, &DieAt(die_at)).unwrap();
        return;
    }
    for version in versions().iter().cycle() {
        write(&path, version, &options).unwrap();
    }
}

fn start_writer(directory: &Path, strategy: ResolveStrategy, die_at: Option<usize>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writer", "--nocapture", "--test-threads", "1"]).env(DIRECTORY, directory);
    if strategy == ResolveStrategy::Walk {
        command.env(WALK, "1");
    }
    if let Some(step) = die_at {
        command.env(DIE_AT, step.to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn names(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into()).collect()
}

/// ARCHITECTURE.md, invariant 19.
#[test]
fn a_writer_killed_after_any_step_leaves_the_old_file_or_the_new_one() {
    for (strategy, existing) in BOTH.into_iter().flat_map(|strategy| [(strategy, true), (strategy, false)]) {
        for (index, step) in STEPS.into_iter().enumerate() {
            let directory = tempfile::tempdir().unwrap();
            let path = target(directory.path(), strategy);
            let old = content(7, 4321);
            if existing {
                write(&path, &old, &WriteOptions::default()).unwrap();
            }
            let status = start_writer(directory.path(), strategy, Some(index)).wait().unwrap();
            // A new file takes its own name at once, so it is never named twice.
            let reached = existing || step != WriteStep::Named;
            assert_eq!(status.signal(), reached.then_some(libc::SIGKILL), "{step:?}");
            let placed = matches!(step, WriteStep::Renamed | WriteStep::NameSynced) || !reached;
            match (placed, existing) {
                (true, _) => assert!(content_of(&path) == versions()[1], "{step:?}"),
                (false, true) => assert!(content_of(&path) == old, "{step:?}"),
                (false, false) => assert!(!names(directory.path()).contains(&"file".into()), "{step:?}"),
            }
            // Content without a name leaves nothing; with a temporary one it stays until the next write.
            let stray = !placed && (strategy == ResolveStrategy::Walk || step == WriteStep::Named);
            let left = names(directory.path()).len();
            assert_eq!(left, usize::from(placed || existing) + usize::from(stray), "{step:?} {strategy:?}");
            write(&path, b"next", &WriteOptions::default()).unwrap();
            assert_eq!(names(directory.path()), [PathBuf::from("file")], "{step:?}");
        }
    }
}

/// ARCHITECTURE.md, invariant 19.
#[test]
fn a_writer_killed_at_random_moments_leaves_a_whole_file() {
    BOTH.into_iter().for_each(kill_at_random_moments);
}

fn kill_at_random_moments(strategy: ResolveStrategy) {
    let directory = tempfile::tempdir().unwrap();
    let path = target(directory.path(), strategy);
    let known = versions();
    write(&path, &known[0], &WriteOptions::default()).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..60_u64 {
        let mut child = start_writer(directory.path(), strategy, None);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.by_ref().any(|line| line.unwrap() == "writing"));
        // Not a wait for something to happen, but for a moment that nobody chose.
        let mut random = [0; 4];
        getrandom::fill(&mut random).unwrap();
        let moment = u64::from(u32::from_le_bytes(random)) % 15_000_000;
        let until = std::time::Instant::now() + std::time::Duration::from_nanos(moment);
        while std::time::Instant::now() < until {
            let now = content_of(&path);
            assert!(known.contains(&now), "a reader saw {} bytes in round {round}", now.len());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let now = content_of(&path);
        let version = known.iter().position(|version| *version == now);
        assert!(version.is_some(), "{} bytes are none of the contents written", now.len());
        seen.insert(version);
        if round % 4 == 3 {
            write(
                &path,
                &known[0],
                &WriteOptions { durability: Durability::Relaxed, ..WriteOptions::default() },
            )
            .unwrap();
            assert_eq!(names(directory.path()), [PathBuf::from("file")], "round {round}");
        }
    }
    assert!(seen.len() > 1, "the kills came at different moments");
}
