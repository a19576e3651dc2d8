//! Kills: a program receives SIGKILL. The programs of the system are started again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::last;
use crate::Stage;
use crate::leftovers::users_of;
use crate::random::Random;
use crate::system::Part;

/// The time to wait for a keeper or a `rex cp` to exist.
const APPEARS: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(20);
/// The name of a keeper's process.
const KEEPER: &str = "rexd-keeper";

pub(super) async fn program(stage: &Stage, part: Part) {
    let system = stage.system.clone();
    tokio::task::spawn_blocking(move || system.restart(part)).await.unwrap();
}

pub(super) async fn keeper(stage: &Stage, random: &mut Random) {
    if let Some((process_id, pid)) = running_keeper(stage, random).await {
        stage.system.remember_tree(pid);
        stage.history.kills_keeper_of(&process_id);
        kill(pid);
    }
}

pub(super) async fn rex(stage: &Stage, random: &mut Random) {
    if let Some(pid) = running_rex(stage, random).await {
        kill(pid);
    }
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended by itself.
        kill_process(pid, Signal::KILL).ok();
    }
}

/// A keeper with a detached process, once there is one: the id of the process and the keeper's own number.
pub(super) async fn running_keeper(stage: &Stage, random: &mut Random) -> Option<(String, i32)> {
    find(random, || keepers(stage)).await
}

/// A running `rex cp`, once there is one.
pub(super) async fn running_rex(stage: &Stage, random: &mut Random) -> Option<i32> {
    find(random, || stage.system.rex.lock().unwrap().iter().copied().collect()).await
}

async fn find<T: Clone>(random: &mut Random, all: impl Fn() -> Vec<T>) -> Option<T> {
    let deadline = Instant::now() + APPEARS;
    while Instant::now() < deadline {
        let found = all();
        if !found.is_empty() {
            let number = usize::try_from(random.within(0..found.len() as u64)).unwrap();
            return found.into_iter().nth(number);
        }
        last(TICK).await;
    }
    None
}

fn keepers(stage: &Stage) -> Vec<(String, i32)> {
    let directory = stage.system.disk.path().join("state/rexd/keepers");
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let of_processes = entries.filter(|entry| {
        let is_over = entry.path().join("status.json").exists();
        entry.file_name().to_string_lossy().starts_with("p_") && !is_over
    });
    let mut keepers = BTreeMap::new();
    for entry in of_processes {
        let users = users_of(&entry.path());
        if let Some(pid) = users.into_iter().find(|pid| testkit::proc::name(*pid) == KEEPER) {
            keepers.insert(entry.file_name().to_string_lossy().into_owned(), pid);
        }
    }
    keepers.into_iter().collect()
}
