//! The fault run: commands, terminals, detached processes, copies, approvals and a relay work while connections are cut and
//! programs are stopped and killed. It counts what is lost, seen twice, left behind or unanswered, and fails on any.
//!
//! `make soak` runs it for two minutes (`SOAK_SECONDS`) with a random seed (`SOAK_SEED`); `make test` runs each fault once. See
//! docs/soak.md.
//!
//! # What a fault may do
//!
//! | fault | may | must not |
//! |---|---|---|
//! | cut, half-open connection | delay; make a request without a key ambiguous; refuse a request that needs an approver, if the approver is disconnected | lose a byte, a session or a process; repeat an event or an effect |
//! | stop and continue of any program | delay | the same |
//! | kill -9 of the daemon | end attached processes and sessions, which is reported as `Lost`; leave requests in flight in doubt | leave an attached process; end a detached process or lose a byte of it |
//! | kill -9 of a keeper | end its process, which is reported as killed by KILL; lose output that the keeper has not read | leave its process; lose output that was already delivered; end another process |
//! | kill -9 of the executor, of the hub | end sessions of the relay, which is reported as `Lost` | leave a process |
//! | kill -9 of `rex cp` | leave a partial file beside the target | change the target; prevent the next run |
//! | full disk | refuse a start or a write; drop output of detached or disconnected processes, which is reported with its size | lose output without a report; end a process |
//! | low limits | refuse a connection or a request | leave a request without an answer |
//!
//! A loss that is reported although no such fault occurred is counted as lost. After the last fault, every workload must
//! complete one more job.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed test panics")]
#![allow(clippy::print_stdout, reason = "a person reads the report")]

mod counters;
mod disk;
mod faults;
mod history;
mod hosts;
mod leftovers;
mod random;
mod records;
mod settings;
mod system;
mod workloads;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use counters::{Counters, Work};
use history::History;
use settings::Settings;
use system::System;
use tokio::task::{JoinSet, LocalSet};

/// The deadline of one request or event, longer than every timeout of the programs; without an answer then, there is none.
const ANSWER: Duration = Duration::from_secs(150);
/// The deadline for every workload to complete a job after the last fault.
const RECOVERY: Duration = Duration::from_secs(300);

/// All that workloads and faults use.
struct Stage {
    system: Arc<System>,
    settings: Settings,
    counters: Counters,
    history: History,
    /// Whether the faults have ended.
    is_calm: Cell<bool>,
}

#[test]
fn nothing_is_lost_and_nothing_is_left() {
    let settings = Settings::from_environment();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stage = Rc::new(Stage {
        system: Arc::new(System::start()),
        settings,
        counters: Counters::new(Work::SESSIONS),
        history: History::default(),
        is_calm: Cell::new(false),
    });
    runtime.block_on(LocalSet::new().run_until(run(stage.clone())));
    // Sessions that are still open must not outlive their runtime.
    runtime.shutdown_timeout(Duration::from_secs(10));
    stage.system.stop(&stage.counters);
    let report =
        format!("{}\n{}\n{}", stage.settings, stage.history.table(&stage.system), stage.counters.table());
    println!("{report}");
    assert!(stage.counters.is_clean(), "{report}\n{}", stage.counters.notes());
    assert_eq!(
        stage.history.missing(stage.settings.is_long()),
        Vec::<&str>::new(),
        "not every fault occurred\n{report}"
    );
}

/// Runs the workloads under faults, then without, until each has completed a job.
async fn run(stage: Rc<Stage>) {
    let mut working = JoinSet::new();
    workloads::start(&stage, &mut working);
    faults::run(&stage).await;
    stage.is_calm.set(true);
    let recovered = async {
        while let Some(ended) = working.join_next().await {
            // A panic of a workload is a failed expectation of the run itself.
            ended.unwrap();
        }
    };
    if tokio::time::timeout(RECOVERY, recovered).await.is_err() {
        stage.counters.unanswered(Work::System, format!("{} workloads do not recover", working.len()));
    }
    working.shutdown().await;
}
