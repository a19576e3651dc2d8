//! Confinements with missing kernel features, stacked profiles, and networks.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod sandbox_support;
mod support;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use engine::files::Access;
use engine::process::{Containment, ExitStatus, ProcessSpec};
use engine::sandbox::{
    self, Confinement, DenialKind, FeatureMask, Features, Gap, Network, OnGap, Profile, ReadAccess,
};
use engine::{Engine, EngineSettings, Error, Session};
use sandbox_support::Place;

fn engine_with(lowered: &str, on_gap: OnGap) -> (Engine, Session) {
    let sandbox = sandbox::SandboxSettings { feature_mask: lowered.parse().unwrap(), on_gap };
    let bounds = support::bounds();
    let engine = Engine::start(EngineSettings {
        process_limits: bounds,
        containment: Containment::Best,
        max_sessions: 64,
        sandbox,
        guardian: None,
        adopts_orphans: false,
    });
    let session = engine.open_session().unwrap();
    (engine, session)
}

fn confined(mut spec: ProcessSpec, layers: impl IntoIterator<Item = Profile>) -> ProcessSpec {
    spec.confinement = Some(Arc::new(Confinement::new(layers.into_iter().map(Arc::new))));
    spec
}

/// What was refused to start, and why.
async fn refusal(session: &mut Session, spec: ProcessSpec) -> String {
    match session.start(spec).unwrap().running().await {
        Err(Error::Sandbox { reason, .. }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

async fn succeeds(session: &mut Session, spec: ProcessSpec) -> bool {
    support::run(session, spec).await.closed.exit == ExitStatus::Code(0)
}

/// Of the profile for workspaces, what needs no namespace: nothing hidden, nothing protected.
fn plain(place: &Place) -> Profile {
    Profile { hide: Vec::new(), protect: Vec::new(), ..place.profile("workspace-write") }
}

#[tokio::test]
async fn without_landlock_nothing_starts_unless_reduced() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("landlock=0", OnGap::Refuse);
    let reason = refusal(&mut session, place.spec("true", "read-only")).await;
    assert!(reason.contains("Landlock") && reason.contains("5.13"), "{reason}");
    let (_engine, mut session) = engine_with("landlock=0", OnGap::Reduce);
    // The mounts still hold.
    assert!(!succeeds(&mut session, place.spec("echo x >> $OUT/file", "workspace-write")).await);
    assert!(succeeds(&mut session, place.spec("echo x >> inside", "workspace-write")).await);
    place.assert_untouched();
}

#[tokio::test]
async fn an_old_landlock_is_used_with_its_own_rights_only() {
    let place = Place::new();
    for version in 1..=6 {
        let (_engine, mut session) = engine_with(&format!("landlock={version}"), OnGap::Refuse);
        assert!(!succeeds(&mut session, place.spec("echo x >> $OUT/file", "workspace-write")).await);
        assert!(succeeds(&mut session, place.spec("echo x >> inside", "workspace-write")).await);
        let kill = place.spec("kill -0 $VICTIM_PID", "workspace-write");
        assert_eq!(succeeds(&mut session, kill).await, version < 6, "signals under version {version}");
    }
    place.assert_untouched();
}

#[tokio::test]
async fn truncating_needs_a_newer_landlock_or_namespaces() {
    let place = Place::new();
    let truncate = "/usr/bin/python3 -c 'import os; os.truncate(os.environ[\"OUT\"]+\"/file\", 0)'";
    let (_engine, mut session) = engine_with("landlock=2,namespaces=off", OnGap::Refuse);
    let reason = refusal(&mut session, confined(place.spec("true", ""), [plain(&place)])).await;
    assert!(reason.contains("truncated") && reason.contains("6.2"), "{reason}");
    let (_engine, mut session) = engine_with("landlock=2", OnGap::Refuse);
    assert!(!succeeds(&mut session, place.spec(truncate, "workspace-write")).await);
    let (_engine, mut session) = engine_with("landlock=3,namespaces=off", OnGap::Refuse);
    assert!(!succeeds(&mut session, confined(place.spec(truncate, ""), [plain(&place)])).await);
    place.assert_untouched();
    // Reduced, it is exactly this gap that is left.
    let (_engine, mut session) = engine_with("landlock=2,namespaces=off", OnGap::Reduce);
    assert!(!succeeds(&mut session, confined(place.spec("echo x >> $OUT/file", ""), [plain(&place)])).await);
    assert!(succeeds(&mut session, confined(place.spec(truncate, ""), [plain(&place)])).await);
}

#[tokio::test]
async fn without_namespaces_what_needs_none_still_works() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("namespaces=off", OnGap::Refuse);
    let reason = refusal(&mut session, place.spec("true", "workspace-write")).await;
    for named in ["state cannot be hidden", "hooks cannot be kept read-only", "user namespaces"] {
        assert!(reason.contains(named), "{named}: {reason}");
    }
    let plain = || [plain(&place)];
    assert!(!succeeds(&mut session, confined(place.spec("echo x >> $OUT/file", ""), plain())).await);
    assert!(!succeeds(&mut session, confined(place.spec("rm $OUT/file", ""), plain())).await);
    assert!(succeeds(&mut session, confined(place.spec("echo x >> inside", ""), plain())).await);
    place.assert_untouched();
}

#[test]
fn gaps_are_named_and_only_some_refuse() {
    let place = Place::new();
    let gaps = |lowered: &str, profile: Profile| {
        let features = Features::probe().masked_by(&lowered.parse().unwrap());
        Confinement::new([Arc::new(profile)]).gaps(&features)
    };
    assert_eq!(gaps("", plain(&place)), []);
    assert_eq!(gaps("namespaces=off", plain(&place)), [Gap::Metadata]);
    let essential = |gaps: Vec<Gap>| gaps.into_iter().filter(Gap::is_essential).collect::<Vec<_>>();
    assert_eq!(essential(gaps("namespaces=off", plain(&place))), []);
    assert_eq!(essential(gaps("landlock=5", plain(&place))), []);
    assert_eq!(essential(gaps("seccomp=off", plain(&place))), [Gap::Seccomp]);
    let ports = || Profile { network: Network::Ports { connect: vec![1], bind: vec![] }, ..plain(&place) };
    assert_eq!(essential(gaps("landlock=3", ports())), [Gap::Ports]);
    let loopback = || Profile { network: Network::Loopback, ..plain(&place) };
    assert_eq!(essential(gaps("namespaces=off", loopback())), [Gap::Loopback]);
    assert!(gaps("landlock=5", plain(&place)).contains(&Gap::Signals));
    assert!(
        gaps("landlock=0,namespaces=off,seccomp=off", ports()).iter().all(|gap| !gap.to_string().is_empty())
    );
    assert!(Features::probe().masked_by(&"landlock=99".parse().unwrap()) == Features::probe());
    assert!("magic=on".parse::<FeatureMask>().is_err());
}

#[tokio::test]
async fn of_stacked_profiles_the_strictest_wins() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    let src = Profile {
        name: "src".into(),
        write: vec![place.path("work/src")],
        ..place.profile("workspace-write")
    };
    let open = Profile { network: Network::On, write: vec!["/".into()], ..place.profile("workspace-write") };
    let both = || [open.clone(), src.clone()];
    assert!(succeeds(&mut session, confined(place.spec("echo x > src/new", ""), both())).await);
    for script in [
        "echo x > new",
        "chmod 777 inside",
        "echo x >> $OUT/file",
        "cat $TOKEN",
        "python3 -c 'import socket; socket.socket()'",
    ] {
        assert!(!succeeds(&mut session, confined(place.spec(script, ""), both())).await, "{script}");
    }
    let confinement = Confinement::new(both().map(Arc::new));
    assert!(confinement.permits(&place.path("work/src/new"), Access::Write));
    assert!(!confinement.permits(&place.path("work/new"), Access::Write));
    assert!(!confinement.permits(&place.path("work/src/../new"), Access::Write));
    assert!(!confinement.permits(&place.path("state/token"), Access::Read));
    place.assert_untouched();
}

#[tokio::test]
async fn hiding_and_protecting_hold_where_everything_may_change() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    let open =
        || [Profile { network: Network::On, write: vec!["/".into()], ..place.profile("workspace-write") }];
    let start = |script: &str| confined(place.spec(script, ""), open());
    for script in
        ["cat $STATE/token", "cat $TOKEN", "echo x > .git/hooks/new", "mv .git x", "echo x >> config.toml"]
    {
        assert!(!succeeds(&mut session, start(script)).await, "{script}");
    }
    assert!(succeeds(&mut session, start("echo x > new && echo x > ../new && echo x > /dev/null")).await);
    place.assert_untouched();
}

#[tokio::test]
async fn what_belongs_to_the_kernel_is_kept_where_everything_may_change() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    let open = || [Profile { write: vec!["/".into()], ..place.profile("workspace-write") }];
    for script in [
        "echo x > /proc/self/comm",
        "cat /proc/sys/kernel/core_pattern > /proc/sys/kernel/core_pattern",
        "for f in $(find /sys/fs/cgroup -name cgroup.procs -o -name tasks); do echo $$ > $f && exit; done; false",
        "for d in $(find /sys/fs/cgroup -maxdepth 2 -type d); do mkdir $d/made && rmdir $d/made && exit; done; false",
        "for d in /dev/*; do test -b $d && head -c 1 $d && exit; done; false",
    ] {
        assert!(!succeeds(&mut session, confined(place.spec(script, ""), open())).await, "{script}");
    }
    let confinement = Confinement::new(open().map(Arc::new));
    assert!(confinement.permits(Path::new("/srv/new"), Access::Write));
    assert!(!confinement.permits(Path::new("/proc/sys/kernel/core_pattern"), Access::Write));
    let mut spec =
        confined(place.spec("tty && : < /dev/tty && head -c 1 /dev/urandom > /dev/zero", ""), open());
    spec.terminal = Some(engine::process::TerminalSize { cols: 80, rows: 24 });
    assert!(succeeds(&mut session, spec).await);
    let less = Features::probe().masked_by(&"namespaces=off".parse().unwrap());
    assert!(confinement.gaps(&less).contains(&Gap::Protect("/sys".into())));
}

#[tokio::test]
async fn a_link_in_the_place_of_a_writable_path_leads_nowhere() {
    for lowered in ["", "namespaces=off"] {
        let place = Place::new();
        let (_engine, mut session) = engine_with(lowered, OnGap::Reduce);
        let inner = || {
            let write = vec![place.path("work"), place.path("work/src")];
            [Profile { write, ..place.profile("workspace-write") }]
        };
        let swap = "echo x > src/new && mv src moved && ln -s $OUT src";
        assert!(succeeds(&mut session, confined(place.spec(swap, ""), inner())).await);
        for script in ["echo x > src/new", "echo x > $OUT/new"] {
            assert!(!succeeds(&mut session, confined(place.spec(script, ""), inner())).await, "{script}");
        }
        assert!(succeeds(&mut session, confined(place.spec("echo x > new", ""), inner())).await);
        place.assert_untouched();
    }
}

#[tokio::test]
async fn a_hidden_path_cannot_be_moved_to_a_visible_one() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    std::fs::create_dir_all(place.path("work/a/b/state")).unwrap();
    std::fs::write(place.path("work/a/b/state/token"), "x").unwrap();
    let hiding =
        || [Profile { hide: vec![place.path("work/a/b/state")], ..place.profile("workspace-write") }];
    for script in
        ["mv a moved", "mv a/b moved", "cat a/b/state/token", "cat moved/state/token moved/b/state/token"]
    {
        assert!(!succeeds(&mut session, confined(place.spec(script, ""), hiding())).await, "{script}");
    }
    assert!(succeeds(&mut session, confined(place.spec("echo x > a/b/new", ""), hiding())).await);
}

#[tokio::test]
async fn the_rlimits_of_a_process_do_not_affect_others() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    let other = "/usr/bin/python3 -c 'import os,resource; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (9, 9))'";
    assert!(!succeeds(&mut session, place.spec(&format!("{other}; exit $?"), "workspace-write")).await);
    let itself = "/usr/bin/python3 -c 'import os,resource; resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9)); \
                  resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)'; exit $?";
    assert!(succeeds(&mut session, place.spec(itself, "workspace-write")).await);
}

#[tokio::test]
async fn only_listed_paths_can_be_read() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    let system = ["/usr", "/bin", "/lib", "/lib64", "/etc"].map(Into::into).to_vec();
    let listed = || [Profile { read: ReadAccess::Only(system.clone()), ..place.profile("workspace-write") }];
    assert!(succeeds(&mut session, confined(place.spec("cat inside /etc/passwd", ""), listed())).await);
    let got = support::run(&mut session, confined(place.spec("cat $OUT/file", ""), listed())).await;
    let denied = got.closed.denied.clone().unwrap();
    assert_eq!((denied.path, denied.kind), (Some(place.path("outside/file")), DenialKind::Read));
    let mut spec = confined(place.spec("", ""), listed());
    let program = place.path("outside/program");
    spec.program = engine::process::Program::Argv(vec![program.to_str().unwrap().to_owned()]);
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    match session.start(spec).unwrap().running().await {
        Err(Error::SandboxDenied { path }) => assert_eq!(path, program),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_private_network_reaches_only_itself() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    let own = || [Profile { network: Network::Loopback, ..place.profile("workspace-write") }];
    let talk = "/usr/bin/python3 -c 'import socket; s=socket.create_server((\"127.0.0.1\",0)); \
                c=socket.create_connection(s.getsockname()); c.send(b\"x\"); print(s.accept()[0].recv(1))'";
    assert!(succeeds(&mut session, confined(place.spec(talk, ""), own())).await);
    let out = "/usr/bin/python3 -c 'import os,socket; socket.create_connection((\"127.0.0.1\",int(os.environ[\"TCP\"])),3)'";
    assert!(!succeeds(&mut session, confined(place.spec(out, ""), own())).await);
    let unix =
        "/usr/bin/python3 -c 'import os,socket; socket.socket(1).connect(os.environ[\"OUT\"]+\"/socket\")'";
    assert!(!succeeds(&mut session, confined(place.spec(unix, ""), own())).await);
    let with_unix = own().map(|profile| Profile { unix_sockets: true, ..profile });
    assert!(succeeds(&mut session, confined(place.spec(unix, ""), with_unix)).await);
}

#[tokio::test]
async fn only_listed_ports_are_reached() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    let port = place.tcp_port();
    let only = |port: u16| {
        let network = Network::Ports { connect: vec![port], bind: vec![] };
        [Profile { network, ..place.profile("workspace-write") }]
    };
    let out = "/usr/bin/python3 -c 'import os,socket; socket.create_connection((\"127.0.0.1\",int(os.environ[\"TCP\"])),3)'";
    assert!(succeeds(&mut session, confined(place.spec(out, ""), only(port))).await);
    assert!(!succeeds(&mut session, confined(place.spec(out, ""), only(port ^ 1))).await);
    let listen = "/usr/bin/python3 -c 'import socket; socket.create_server((\"127.0.0.1\",0))'";
    assert!(!succeeds(&mut session, confined(place.spec(listen, ""), only(port))).await);
    let udp = "/usr/bin/python3 -c 'import socket; socket.socket(2,2)'";
    assert!(!succeeds(&mut session, confined(place.spec(udp, ""), only(port))).await);
    let fast = "/usr/bin/python3 -c 'import os,socket; s=socket.socket(); \
                s.sendto(b\"x\",0x20000000,(\"127.0.0.1\",int(os.environ[\"TCP\"])))'";
    assert!(!succeeds(&mut session, confined(place.spec(fast, ""), only(port ^ 1))).await);
}

#[tokio::test]
async fn what_appears_later_is_noticed() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    std::fs::rename(place.path("work/.git"), place.path("git")).unwrap();
    assert!(succeeds(&mut session, place.spec("echo x > new", "workspace-write")).await);
    std::fs::rename(place.path("git"), place.path("work/.git")).unwrap();
    assert!(!succeeds(&mut session, place.spec("echo x > .git/hooks/new", "workspace-write")).await);
    assert!(!succeeds(&mut session, place.spec("mv .git x", "workspace-write")).await);
    assert!(succeeds(&mut session, place.spec("echo x > .git/new", "workspace-write")).await);
}

#[tokio::test]
async fn later_mounts_are_read_only_too() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    assert!(succeeds(&mut session, place.spec("true", "workspace-write")).await);
    let directory = place.path("outside/directory");
    let mount = |words: &[&str]| Command::new(words[0]).args(&words[1..]).arg(&directory).status().unwrap();
    if !mount(&["mount", "-t", "tmpfs", "none"]).success() {
        // Only root can mount where others see it.
        return;
    }
    let changed = succeeds(&mut session, place.spec("chmod 700 $OUT/directory", "workspace-write")).await;
    let written = succeeds(&mut session, place.spec("echo x > $OUT/directory/new", "workspace-write")).await;
    assert!(mount(&["umount"]).success());
    assert!(!changed && !written);
}

#[tokio::test]
async fn a_symlinked_hooks_directory_cannot_be_replaced() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    std::fs::rename(place.path("work/.git/hooks"), place.path("work/shared")).unwrap();
    std::os::unix::fs::symlink("../shared", place.path("work/.git/hooks")).unwrap();
    for script in ["echo x > .git/hooks/new", "echo x > shared/new", "rm .git/hooks", "mv .git x"] {
        assert!(!succeeds(&mut session, place.spec(script, "workspace-write")).await, "{script}");
    }
    assert!(succeeds(&mut session, place.spec("echo x > new", "workspace-write")).await);
}

#[tokio::test]
async fn a_denial_is_reported_and_an_ordinary_failure_is_not() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    let got = support::run(&mut session, place.spec("touch $OUT/new", "workspace-write")).await;
    let denied = got.closed.denied.clone().unwrap();
    assert_eq!((denied.path, denied.kind), (Some(place.path("outside/new")), DenialKind::Write));
    let got = support::run(&mut session, place.spec("cat missing", "workspace-write")).await;
    assert_eq!(got.closed.denied, None);
    let mut spec = place.spec("echo x > ../outside/new", "workspace-write");
    spec.terminal = Some(engine::process::TerminalSize { cols: 200, rows: 24 });
    let got = support::run(&mut session, spec).await;
    assert_eq!(got.closed.denied.clone().unwrap().path, Some(place.path("outside/new")));
}

#[tokio::test]
async fn a_hidden_working_directory_is_an_error_of_the_sandbox() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    let mut spec = place.spec("true", "workspace-write");
    spec.cwd = support::directory(&place.path("state"));
    let reason = refusal(&mut session, spec).await;
    assert!(reason.contains("working directory"), "{reason}");
}

#[tokio::test]
async fn an_empty_confinement_confines_nothing() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("landlock=0,seccomp=off,namespaces=off", OnGap::Refuse);
    assert!(succeeds(&mut session, confined(place.spec("echo x >> $OUT/file", ""), [])).await);
}

#[tokio::test]
async fn shared_memory_of_others_is_out_of_reach() {
    let place = Place::new();
    let (_engine, mut session) = engine_with("", OnGap::Refuse);
    let attach = "import ctypes; l = ctypes.CDLL(None); l.shmget(KEY, 4096, FLAGS) >= 0 or exit(1)";
    let key = std::process::id() | 0x0500_0000;
    let python = |flags: &str| attach.replace("KEY", &key.to_string()).replace("FLAGS", flags);
    let outside = |code: String| Command::new("/usr/bin/python3").args(["-c", &code]).status().unwrap();
    assert!(outside(python("0o1600")).success());
    let inside = format!("/usr/bin/python3 -c '{}'", python("0"));
    let reached = succeeds(&mut session, place.spec(&inside, "workspace-write")).await;
    let remove = format!("import ctypes; l = ctypes.CDLL(None); l.shmctl(l.shmget({key}, 0, 0), 0, None)");
    assert!(outside(remove).success());
    assert!(!reached);
}
