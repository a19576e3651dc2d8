//! The work of a kill, counted in system calls. Alone in its file: it counts those of the whole test process.
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

mod keeper_support;

use std::process::{Child, Command};

use engine::process::{Containment, Signal};
use keeper_support::{House, eventually};

/// Processes that have nothing to do with the killed one.
const OTHERS: u64 = 300;

/// A kill must not read a file for each process of the machine: with n keepers that are killed together, that is n² reads.
#[tokio::test]
async fn a_kill_of_a_detached_process_reads_nothing_of_other_processes() {
    let house = House::new();
    for containment in [Containment::Best, Containment::Marks] {
        let few = reads_of_kill(&house, containment).await;
        let others = Others::start();
        let many = reads_of_kill(&house, containment).await;
        drop(others);
        assert!(many < few + OTHERS, "{containment:?}: {few} reads, and {many} beside {OTHERS} processes");
    }
}

/// The read system calls of this process and of a keeper, from a kill to the end of the keeper.
async fn reads_of_kill(house: &House, containment: Containment) -> u64 {
    let keepers = house.keepers_with(containment);
    let started = keepers.start(house.argv(&["sleep", "1000"]), "test").await.unwrap();
    let keeper = house.keeper_pid(&started.id);
    // A process has the system calls of the children that it has reaped.
    let before = reads("self") + reads(&keeper.to_string());
    let outcome = keepers.kill(&started.id, Signal::TERM).await.unwrap();
    assert_eq!(outcome.killed.iter().map(|member| member.pid).collect::<Vec<_>>(), [started.pid]);
    eventually("the keeper is reaped", || !std::fs::exists(format!("/proc/{keeper}")).unwrap()).await;
    reads("self") - before
}

fn reads(process: &str) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap();
    io.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap().parse().unwrap()
}

struct Others(Vec<Child>);

impl Others {
    fn start() -> Others {
        Others((0..OTHERS).map(|_| Command::new("sleep").arg("1000").spawn().unwrap()).collect())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().unwrap();
        }
        for child in &mut self.0 {
            child.wait().unwrap();
        }
    }
}
