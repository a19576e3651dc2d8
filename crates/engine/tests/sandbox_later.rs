//! What a confined command leaves behind for others, and what appears or is replaced after its sandbox was prepared.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod sandbox_support;
mod support;

use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::sync::Arc;

use engine::Session;
use engine::files::Access;
use engine::process::{Containment, ExitStatus, ProcessSpec};
use engine::sandbox::{Confinement, Network, Profile, is_confined};
use sandbox_support::Place;

fn confined(mut spec: ProcessSpec, profile: Profile) -> ProcessSpec {
    spec.confinement = Some(Arc::new(Confinement::new([Arc::new(profile)])));
    spec
}

async fn succeeds(session: &mut Session, spec: ProcessSpec) -> bool {
    support::run(session, spec).await.closed.exit == ExitStatus::Code(0)
}

/// Each way to give a file in the workspace a set-ID bit.
const SET_ID: &[&str] = &[
    "chmod u+s made",
    "chmod 6755 made",
    "/usr/bin/python3 -c 'import os; os.fchmod(os.open(\"made\", os.O_RDONLY), 0o4755)'",
    "/usr/bin/python3 -c 'import os; os.open(\"new\", os.O_CREAT | os.O_WRONLY, 0o4755)'",
    "/usr/bin/python3 -c 'import os; os.open(\".\", os.O_TMPFILE | os.O_WRONLY, 0o4755)'",
    "/usr/bin/python3 -c 'import os; os.mknod(\"new\", 0o104755)'",
    "install -m 4755 made new",
    // creat, fchmodat2 and openat2, which Python does not call.
    "/usr/bin/python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(85,b\"new\",0o4755)<0)'",
    "/usr/bin/python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(452,-100,b\"made\",0o4755,0)<0)'",
    "/usr/bin/python3 -c 'import ctypes,sys; h=(ctypes.c_uint64*3)(0o101,0o4755,0); \
     sys.exit(ctypes.CDLL(None).syscall(437,-100,b\"new\",h,24)<0)'",
];

#[tokio::test]
async fn no_set_id_file_is_left_in_the_workspace() {
    let place = Place::new();
    let engine = support::engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    let set = |name: &str| std::fs::metadata(place.path(name)).map_or(0, |found| found.mode() & 0o6000);
    for script in SET_ID {
        std::fs::write(place.path("work/made"), "#!/bin/sh\n").unwrap();
        let worked = succeeds(&mut session, place.spec(script, "workspace-write")).await;
        assert!(!worked, "{script}");
        assert_eq!((set("work/made"), set("work/new")), (0, 0), "{script}");
        let _left = std::fs::remove_file(place.path("work/new"));
        // The same works without a profile.
        let mut spec = place.spec(script, "workspace-write");
        spec.confinement = None;
        assert!(succeeds(&mut session, spec).await, "{script}");
        let _left = std::fs::remove_file(place.path("work/new"));
        std::fs::remove_file(place.path("work/made")).unwrap();
    }
    // Other modes are free, and a file that has the bit loses it when a command writes to it.
    let script = "chmod 1777 src && chmod 755 inside && install -m 700 inside new && echo x >> left";
    std::fs::write(place.path("work/left"), "x").unwrap();
    std::fs::set_permissions(place.path("work/left"), std::os::unix::fs::PermissionsExt::from_mode(0o4755))
        .unwrap();
    assert!(succeeds(&mut session, place.spec(script, "workspace-write")).await);
    assert_eq!(set("work/left"), 0);
    // A shared workspace needs the group bit on directories; for root it is refused too, because it could be any group.
    let is_root = rustix::process::geteuid().is_root();
    assert_ne!(succeeds(&mut session, place.spec("chmod g+s src", "workspace-write")).await, is_root);
}

/// Runs a test of this file again as an ordinary user, if the current user is root.
fn again_as_an_ordinary_user(test: &str) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(home.path(), Some(65534), Some(65534)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .output()
        .unwrap();
    let shown =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
}

#[test]
fn an_ordinary_user_leaves_none_either() {
    again_as_an_ordinary_user("no_set_id_file_is_left_in_the_workspace");
}

#[tokio::test]
async fn a_profile_without_ports_to_bind_cannot_listen() {
    let place = Place::new();
    let engine = support::engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    let with = |bind: Vec<u16>| {
        let network = Network::Ports { connect: vec![place.tcp_port()], bind };
        Profile { network, ..place.profile("workspace-write") }
    };
    // Without `bind`, the kernel chooses the port.
    for family in [2, 10] {
        let listen = format!("/usr/bin/python3 -c 'import socket; socket.socket({family}).listen()'");
        assert!(!succeeds(&mut session, confined(place.spec(&listen, ""), with(vec![]))).await, "{family}");
    }
    // Another program can take a free port before the command does.
    for _ in 0..20 {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let listen =
            format!("/usr/bin/python3 -c 'import socket; socket.create_server((\"127.0.0.1\",{port}))'");
        if succeeds(&mut session, confined(place.spec(&listen, ""), with(vec![port]))).await {
            return;
        }
    }
    panic!("no listed port can be bound");
}

#[tokio::test]
async fn a_root_in_a_hidden_directory_stays_visible_and_nothing_beside_it() {
    let place = Place::new();
    let engine = support::engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    for name in ["state/home/.git/hooks", "state/home/src", "state/keepers"] {
        std::fs::create_dir_all(place.path(name)).unwrap();
    }
    std::fs::write(place.path("state/home/token"), "x").unwrap();
    let root = place.path("state/home");
    let mut own = place.own();
    own.hide.push(root.join("token"));
    own.expose.push(root.clone());
    let profile = Profile::workspace_write(std::slice::from_ref(&root), Some(&place.path("temp")), &own);
    let spec = |script: &str| {
        let mut spec = confined(place.spec(script, ""), profile.clone());
        spec.cwd = support::directory(&root);
        spec
    };
    for script in ["echo x > src/new && cat src/new", "test $(ls -A $STATE) = home && cd .. && cd home/src"] {
        assert!(succeeds(&mut session, spec(script)).await, "{script}");
    }
    for script in [
        "cat $STATE/token",
        "cat ../token",
        "ls $STATE/keepers",
        "echo x > $STATE/new",
        "cat token",
        "mv $STATE/home $STATE/moved",
        "echo x > .git/hooks/new",
        "chmod 700 $STATE",
    ] {
        assert!(!succeeds(&mut session, spec(script)).await, "{script}");
    }
    // What is created later in the hidden directory is hidden too.
    std::fs::write(place.path("state/later"), "x").unwrap();
    assert!(!succeeds(&mut session, spec("cat $STATE/later")).await);
    let permits = |name: &str, access| {
        Confinement::new([Arc::new(profile.clone())]).permits_file_method(&place.path(name), access)
    };
    assert!(permits("state/home/src/new", Access::Write));
    assert!(!permits("state/token", Access::Read) && !permits("state/home/token", Access::Read));
    // A path that another layer hides stays hidden.
    let both = [profile.clone(), place.profile("workspace-write")].map(Arc::new);
    let mut strict = spec("true");
    strict.confinement = Some(Arc::new(Confinement::new(both)));
    assert!(session.start(strict).unwrap().running().await.is_err());
}

#[test]
fn a_root_in_a_hidden_directory_of_an_ordinary_user() {
    again_as_an_ordinary_user("a_root_in_a_hidden_directory_stays_visible_and_nothing_beside_it");
}

#[tokio::test]
async fn a_confined_process_is_recognised_from_outside() {
    let place = Place::new();
    let engine = support::engine(Containment::Best);
    let mut session = engine.open_session().unwrap();
    for profile in ["read-only", "workspace-write"] {
        let mut spec = place.spec("setsid sh -c 'read x; exit 0'", profile);
        spec.stdin = engine::process::Stdin::Open;
        let process = session.start(spec).unwrap().running().await.unwrap();
        assert!(is_confined(process.pid().unwrap()).unwrap(), "{profile}");
    }
    assert!(!is_confined(std::process::id() as i32).unwrap());
    assert!(is_confined(i32::MAX).is_err());
}
