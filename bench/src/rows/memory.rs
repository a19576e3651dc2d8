//! Memory of the server: idle, with 100 processes, with 1,000 sessions.

use std::time::Duration;

use anyhow::Result;

use crate::peers::codex::{self, Transport};
use crate::peers::peer::StdioKind;
use crate::peers::ssh::Ssh;
use crate::peers::sshd::Sshd;
use crate::peers::swerex::Swerex;
use crate::peers::{Commands, ignore};
use crate::proc::{Memory, memory, memory_of_all};
use crate::report::{Findings, limit};
use crate::stats::mib;
use crate::world::World;

/// An idle process that exits on its own after a while.
const IDLE: [&str; 2] = ["/bin/sleep", "60"];
const PROCESSES: usize = 100;
const SESSIONS: usize = 1000;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let ours = rexd(world)?;
    let lines = vec![
        line("rexd", &ours.map(Some)),
        line("codex stdio", &codex(world)?),
        line("ssh mux (daemon, connection, master)", &ssh()?),
        line("swe-rex", &swerex(world)?),
    ];
    let mut findings = Findings::new("Memory of the server, RSS (PSS)");
    findings.table(&["peer", "idle", "100 processes", "1,000 sessions"], lines);
    findings.note("Idle means: after one command. Processes are `sleep`; their own memory is not counted.");
    let [idle, processes, sessions] = ours.map(|memory| memory.rss);
    let megabytes = |count: u32| f64::from(count << 20);
    findings.targets.push(limit("memory idle", idle, megabytes(4), mib));
    findings.targets.push(limit("memory with 100 processes", processes, megabytes(8), mib));
    findings.targets.push(limit("memory with 1,000 sessions", sessions, megabytes(12), mib));
    let private = ours.map(|memory| memory.private_dirty);
    let works = ["idle", "with 100 processes", "with 1,000 sessions"];
    for ((work, bytes), most) in works.iter().zip(private).zip([1, 4, 8]) {
        findings.targets.push(limit(&format!("private memory {work}"), bytes, megabytes(most), mib));
    }
    Ok(findings)
}

fn line(name: &str, figures: &[Option<Memory>]) -> Vec<String> {
    let cell = |figure: &Option<Memory>| {
        figure.map_or("-".to_owned(), |memory| format!("{} ({})", mib(memory.rss), mib(memory.pss)))
    };
    [name.to_owned()].into_iter().chain(figures.iter().map(cell)).collect()
}

/// Waits until the server is idle.
fn settle() {
    std::thread::sleep(Duration::from_millis(300));
}

fn rexd(world: &World) -> Result<[Memory; 3]> {
    let mut peer = world.setup().start()?;
    peer.run(&["/bin/true"], &mut ignore)?;
    settle();
    let idle = memory(peer.server.id())?;
    for _ in 0..PROCESSES {
        peer.start(&IDLE, StdioKind::Pipes)?;
    }
    settle();
    let processes = memory(peer.server.id())?;
    drop(peer);
    let mut peer = world.setup().start()?;
    for _ in 1..SESSIONS {
        peer.open_session()?;
    }
    settle();
    Ok([idle, processes, memory(peer.server.id())?])
}

fn codex(world: &World) -> Result<[Option<Memory>; 3]> {
    let mut peer = codex::start(&world.home, &world.directory, Transport::Stdio, 1)?;
    peer.run(&["/bin/true"], &mut ignore)?;
    settle();
    let idle = memory(peer.server.id())?;
    for _ in 0..PROCESSES {
        peer.start(&IDLE, StdioKind::Pipes)?;
    }
    settle();
    Ok([Some(idle), Some(memory(peer.server.id())?), None])
}

fn ssh() -> Result<[Option<Memory>; 3]> {
    let sshd = Sshd::start()?;
    let mut peer = Ssh::new(sshd.control());
    peer.run(&["/bin/true"], &mut ignore)?;
    settle();
    let idle = memory_of_all(&sshd.processes())?;
    let started: Result<Vec<_>> = (0..PROCESSES).map(|_| peer.start("exec sleep 10")).collect();
    let started = started?;
    settle();
    let processes = memory_of_all(&sshd.processes())?;
    drop(started);
    Ok([Some(idle), Some(processes), None])
}

fn swerex(world: &World) -> Result<[Option<Memory>; 3]> {
    let mut peer = Swerex::start(&world.home)?;
    peer.run(&["/bin/true"], &mut ignore)?;
    settle();
    Ok([Some(memory(peer.server.id())?), None, None])
}
