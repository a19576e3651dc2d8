//! Protected paths that do not exist: confined processes cannot create them, and stand-ins are removed afterwards.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod sandbox_support;
mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use engine::Session;
use engine::process::{Containment, ExitStatus, Process, ProcessSpec, Stdin};
use engine::sandbox::{self, Confinement, OnGap};
use sandbox_support::Place;

/// Mode of a stand-in, as in the engine.
const MARK: u32 = 0o1700;
/// Exits with 0 if the protected path could be created or replaced.
const ATTACK: &str = "echo x > .codex || echo x > .codex/x || mkdir .codex/x || rmdir .codex || mv .codex y || \
                      { mkdir .codex.new && mv -T .codex.new .codex; } || ln -sfn /etc .codex/etc || chmod 777 .codex";

/// A shell in the workspace, where these paths are protected.
fn spec(place: &Place, script: &str, protected: &[&str]) -> ProcessSpec {
    let mut spec = place.spec(script, "workspace-write");
    let mut profile = place.profile("workspace-write");
    profile.protect.extend(protected.iter().map(|name| place.path(&format!("work/{name}"))));
    spec.confinement = Some(Arc::new(Confinement::new([Arc::new(profile)])));
    spec
}

async fn succeeds(session: &mut Session, spec: ProcessSpec) -> bool {
    support::run(session, spec).await.closed.exit == ExitStatus::Code(0)
}

/// Starts a shell that prints `ready`, waits for a line, and then tries the attack.
async fn waiting(session: &mut Session, place: &Place) -> Process {
    let mut spec = spec(place, &format!("echo ready; read line; {ATTACK}"), &[".codex"]);
    spec.stdin = Stdin::Open;
    let process = session.start(spec).unwrap().running().await.unwrap();
    support::read_until(&mut process.reader(process.first()), "ready").await;
    process
}

async fn finish_attack(process: &Process) -> bool {
    process.input("\n".into(), true).await.unwrap();
    support::gather(process).await.closed.exit == ExitStatus::Code(0)
}

#[tokio::test]
async fn a_missing_protected_path_cannot_be_created_and_its_stand_in_is_removed() {
    let place = Place::new();
    let mut session = support::engine(Containment::Best).open_session().unwrap();
    for _ in 0..3 {
        assert!(!succeeds(&mut session, spec(&place, ATTACK, &[".codex", "sub/.git"])).await);
        assert!(!place.path("work/.codex").exists() && !place.path("work/sub").exists());
        assert!(succeeds(&mut session, spec(&place, "echo x > new && rm new", &[".codex"])).await);
    }
    let mut free = spec(&place, "mkdir .codex", &[]);
    free.confinement = None;
    assert!(succeeds(&mut session, free).await);
}

#[test]
fn a_missing_protected_path_cannot_be_created_by_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(home.path(), Some(65534), Some(65534)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .envs([("HOME", home.path()), ("TMPDIR", home.path())])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
async fn a_missing_path_below_missing_directories_cannot_be_created_but_its_parents_are_writable() {
    let place = Place::new();
    let mut session = support::engine(Containment::Best).open_session().unwrap();
    let protected = ["deep/er/secret"];
    let attack = "mkdir -p deep/er/secret && echo x > deep/er/secret/x || mv deep/er y || mv deep z";
    assert!(!succeeds(&mut session, spec(&place, attack, &protected)).await);
    assert!(!place.path("work/deep").exists());
    assert!(succeeds(&mut session, spec(&place, "mkdir -p deep && echo x > deep/file", &protected)).await);
    assert!(place.path("work/deep/file").exists() && !place.path("work/deep/er").exists());
    let mode = fs::metadata(place.path("work/deep")).unwrap().permissions().mode() & 0o7777;
    assert_ne!(mode, MARK, "a directory with files of another process is not a stand-in");
    // Its existing parent cannot be replaced.
    assert!(!succeeds(&mut session, spec(&place, "mv deep z && mkdir -p deep/er/secret", &protected)).await);
}

/// A process that is being started has the descriptors of all threads until its exec. If one of them wrote through a mount of
/// the new namespace, the mount could not become read-only.
#[tokio::test]
async fn sandboxes_are_prepared_while_other_threads_start_processes() {
    let place = Place::new();
    let mut session = support::engine(Containment::Best).open_session().unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let starters: Vec<_> = (0..4)
        .map(|_| {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    // Without cgroups the engine may have reaped it already.
                    Command::new("true").spawn().unwrap().wait().ok();
                }
            })
        })
        .collect();
    for number in 0..60 {
        let protected = format!("missing{number}");
        assert!(succeeds(&mut session, spec(&place, "true", &[&protected])).await);
    }
    is_over.store(true, Ordering::Relaxed);
    starters.into_iter().for_each(|starter| starter.join().unwrap());
}

#[tokio::test]
async fn commands_and_engines_share_stand_ins() {
    let place = Place::new();
    let (one, other) = (support::engine(Containment::Best), support::engine(Containment::Best));
    let (mut mine, mut theirs) = (one.open_session().unwrap(), other.open_session().unwrap());
    let processes = [
        waiting(&mut mine, &place).await,
        waiting(&mut mine, &place).await,
        waiting(&mut theirs, &place).await,
    ];
    for process in &processes {
        assert!(place.path("work/.codex").is_dir(), "another command still runs");
        assert!(!finish_attack(process).await);
    }
    assert!(!place.path("work/.codex").exists());
}

#[tokio::test]
async fn a_stand_in_stays_while_a_background_process_runs() {
    let place = Place::new();
    let mut session = support::engine(Containment::Best).open_session().unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path("work/gate"), rustix::fs::Mode::RWXU).unwrap();
    let script = format!("(read x < gate; ({ATTACK}) 2> /dev/null; echo $? > verdict) > /dev/null 2>&1 &");
    let process = session.start(spec(&place, &script, &[".codex"])).unwrap().running().await.unwrap();
    assert_eq!(support::gather(&process).await.closed.exit, ExitStatus::Code(0));
    assert!(place.path("work/.codex").is_dir());
    fs::write(place.path("work/gate"), "go\n").unwrap();
    process.gone().await;
    assert_ne!(fs::read_to_string(place.path("work/verdict")).unwrap().trim(), "0");
    assert!(!place.path("work/.codex").exists());
}

#[tokio::test]
async fn stand_ins_of_a_killed_daemon_are_removed_unless_they_hold_files() {
    let place = Place::new();
    let mut session = support::engine(Containment::Best).open_session().unwrap();
    let (left, own) = (place.path("work/.codex"), place.path("work/.agents"));
    fs::create_dir(&left).unwrap();
    fs::set_permissions(&left, fs::Permissions::from_mode(MARK)).unwrap();
    fs::create_dir(&own).unwrap();
    let protected = [".codex", ".agents"];
    assert!(!succeeds(&mut session, spec(&place, &format!("{ATTACK} || rmdir .agents"), &protected)).await);
    assert!(!left.exists() && own.is_dir());
    // A process outside creates a repository while a command runs.
    let process = waiting(&mut session, &place).await;
    fs::write(left.join("config"), "mine").unwrap();
    assert!(!finish_attack(&process).await);
    assert_eq!(fs::read_to_string(left.join("config")).unwrap(), "mine");
    assert_eq!(fs::metadata(&left).unwrap().permissions().mode() & 0o7777, 0o700);
}

#[tokio::test]
async fn a_command_may_create_a_repository_with_hooks_but_not_add_hooks_to_an_existing_one() {
    let place = Place::new();
    let mut session = support::engine(Containment::Best).open_session().unwrap();
    fs::remove_dir_all(place.path("work/.git")).unwrap();
    assert!(
        succeeds(&mut session, spec(&place, "mkdir -p .git/hooks && echo x > .git/hooks/new", &[])).await
    );
    fs::remove_dir_all(place.path("work/.git/hooks")).unwrap();
    let hook = "mkdir -p .git/hooks; echo x > .git/hooks/new || mv .git other";
    assert!(!succeeds(&mut session, spec(&place, hook, &[])).await);
    assert!(succeeds(&mut session, spec(&place, "echo x > .git/config", &[])).await);
    assert!(place.path("work/.git/config").exists() && !place.path("work/.git/hooks").exists());
}

#[tokio::test]
async fn without_namespaces_a_missing_protected_path_is_a_gap() {
    let place = Place::new();
    let refusing =
        sandbox::SandboxSettings { feature_mask: "namespaces=off".parse().unwrap(), on_gap: OnGap::Refuse };
    let missing = spec(&place, "true", &[".codex"]).confinement.unwrap();
    let gaps = missing.gaps(&refusing.features());
    let text = gaps.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    assert!(text.contains(".codex cannot be kept read-only"), "{text}");
}
