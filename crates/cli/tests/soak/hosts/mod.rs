//! The fault run with hosts: runs of a host print numbered lines, apps type into them and have operations approved, while host
//! and hub are killed and connections are cut.
//!
//! | fault | may | must not |
//! |---|---|---|
//! | any | delay; leave an operation that was running when the host was killed in doubt, which is reported | lose or repeat a line, an input, an approval or an event, at an app or in the store; start a run twice |

mod app;
mod check;
mod faults;
mod system;
mod view;
mod work;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use app::App;
use system::{HostPart, HostSystem, StoreKind};
use work::Job;

use crate::RECOVERY;
use crate::counters::{Counters, Work};
use crate::settings::Settings;

/// Runs at the same time.
const RUNS: u64 = 3;

/// All that the parts of the run use.
struct HostStage {
    system: HostSystem,
    settings: Settings,
    counters: Counters,
    /// Every run that was started.
    runs: Mutex<Vec<String>>,
    is_calm: AtomicBool,
    /// Whether the last run has ended.
    is_over: AtomicBool,
}

impl HostStage {
    /// Whether the faults have ended.
    fn is_calm(&self) -> bool {
        self.is_calm.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn app(&self, name: &'static str) -> App {
        App::new(name, self.system.apps.addresses.http, &self.system.token)
    }

    /// Whether an app has everything of all runs.
    fn is_complete(&self, app: &mut App) -> bool {
        let runs = self.runs.lock().unwrap();
        runs.iter().for_each(|run| app.watch(run));
        runs.iter().all(|run| app.view(run).has_exited())
    }
}

#[test]
fn hosts_lose_nothing_and_repeat_nothing() {
    under_faults(StoreKind::Sqlite);
}

#[test]
fn hosts_lose_nothing_and_repeat_nothing_with_postgresql() {
    under_faults(StoreKind::Postgres);
}

fn under_faults(store: StoreKind) {
    let stage = HostStage {
        system: HostSystem::start(store),
        settings: Settings::from_environment(),
        counters: Counters::new(Work::HOSTS),
        runs: Mutex::default(),
        is_calm: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
    };
    let (table, jobs, apps) = std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(&stage));
        let approver = scope.spawn(|| approve(&stage));
        let watcher = scope.spawn(|| watch(&stage));
        let table = faults::run(&stage);
        stage.is_calm.store(true, Ordering::Relaxed);
        let (jobs, app) = worker.join().unwrap();
        stage.is_over.store(true, Ordering::Relaxed);
        (table, jobs, [app, approver.join().unwrap(), watcher.join().unwrap()])
    });
    let logs =
        format!("host:\n{}\nhub:\n{}", stage.system.log(HostPart::Host), stage.system.log(HostPart::Hub));
    stage.system.stop(&stage.counters);
    for job in &jobs {
        let run = job.run.as_deref().unwrap_or_default();
        for (name, app) in ["the worker", "the approver", "the watcher"].iter().zip(&apps) {
            check::compare_view(&stage, name, job, app.view(run));
        }
    }
    check::compare_effects(&stage, &jobs);
    let stored = stage.system.stored();
    check::compare_store(&stage, &stored, &jobs, &apps[0]);
    let report = report(&stage, store, &table, (&jobs[..], stored.len()), &apps);
    println!("{report}");
    assert!(stage.counters.is_clean(), "{report}\n{}\n{logs}", stage.counters.notes());
}

fn report(
    stage: &HostStage,
    store: StoreKind,
    table: &str,
    (jobs, stored): (&[Job], usize),
    apps: &[App],
) -> String {
    let lines = jobs.iter().filter_map(|job| Some(apps[0].view(job.run.as_deref()?).lines().len()));
    let connections: u64 = apps.iter().map(|app| app.connections).sum();
    let (settings, lines, counters) = (&stage.settings, lines.sum::<usize>(), stage.counters.table());
    format!(
        "{settings}\nhosts, the store in {store:?}: {lines} lines in {stored} events, {connections} connections of 3 apps\n{table}\n{counters}"
    )
}

/// Starts runs, types into them and has operations done, until the last run of each row has ended after the faults.
fn work(stage: &HostStage) -> (Vec<Job>, App) {
    let mut app = stage.app("the worker");
    let mut randoms: Vec<_> = (0..RUNS).map(|row| stage.settings.random(2100 + row)).collect();
    let (mut started, mut done) = (0, Vec::new());
    let mut start = |random: &mut _| {
        started += 1;
        stage.counters.started(Work::Runs);
        Job::new(format!("j{started}"), random)
    };
    let mut jobs: Vec<Option<Job>> = randoms.iter_mut().map(|random| Some(start(random))).collect();
    let mut calm_since = None;
    while jobs.iter().any(Option::is_some) {
        app.step(&stage.counters);
        if stage.is_calm() && calm_since.get_or_insert_with(Instant::now).elapsed() > RECOVERY {
            for job in jobs.iter().flatten() {
                stage.counters.unanswered(Work::Runs, format!("a run does not end: {}", job.outstanding()));
            }
            // The other apps do not have to wait for these.
            let ended = |run: &String| done.iter().any(|job: &Job| job.run.as_ref() == Some(run));
            stage.runs.lock().unwrap().retain(ended);
            break;
        }
        for (row, random) in jobs.iter_mut().zip(&mut randoms) {
            let Some(job) = row else { continue };
            job.step(stage, &mut app, random);
            if job.is_over {
                done.extend(row.take());
                *row = (!stage.is_calm()).then(|| start(random));
            }
        }
    }
    (done, app)
}

/// Approves and denies until the last run has ended.
fn approve(stage: &HostStage) -> App {
    let (mut app, mut asked) = (stage.app("the approver"), BTreeMap::new());
    follow(stage, &mut app, |app| work::decide(app, &mut asked));
    app
}

/// Only watches.
fn watch(stage: &HostStage) -> App {
    let mut app = stage.app("the watcher");
    follow(stage, &mut app, |_| {});
    app
}

/// Watches all runs until the last one has ended and all its events have arrived.
fn follow(stage: &HostStage, app: &mut App, mut act: impl FnMut(&mut App)) {
    let mut over_since = None;
    while !(stage.is_complete(app) && stage.is_over()) {
        app.step(&stage.counters);
        act(app);
        if stage.is_over() && over_since.get_or_insert_with(Instant::now).elapsed() > RECOVERY {
            return stage.counters.unanswered(Work::Runs, "an app does not receive the end".to_owned());
        }
    }
}
