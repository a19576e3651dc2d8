//! Periodic work of a node: leases, requests to absent hosts, old runs, overdue requests, old failures, checkpoints.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::auth::{now, now_ms};
use crate::routing;
use crate::services::Services;
use crate::store::{HostLease, Retention, StoreError};
use crate::uplink::lease_ms;

/// How often SQLite's write-ahead log is copied into its file.
const CHECKPOINT: Duration = Duration::from_millis(500);
/// A request is settled by the hub when its host has not said so for this long after its deadline, in milliseconds.
const OVERDUE_MS: i64 = 60_000;

/// Runs until the hub stops.
pub(crate) async fn run(services: Arc<Services>, keep: Retention) {
    tokio::join!(maintain(&services, keep), checkpoint(&services));
}

/// Copies SQLite's write-ahead log into its file, so that commits do not have to. Beside the other work, which may be long.
async fn checkpoint(services: &Services) {
    let mut ticks = interval_at(Instant::now() + CHECKPOINT, CHECKPOINT);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while services.stop.run_until_cancelled(ticks.tick()).await.is_some() {
        if let Err(error) = services.store.checkpoint().await {
            tracing::error!(error = &error as &dyn std::error::Error, "a checkpoint of the database failed");
        }
    }
}

async fn maintain(services: &Services, keep: Retention) {
    let stop = services.stop.clone();
    let every = |period| {
        let mut ticks = interval_at(Instant::now() + period, period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    };
    let (mut leases, mut cleanups) = (every(services.limits.lease / 3), every(services.limits.cleanup));
    loop {
        let done = tokio::select! {
            () = stop.cancelled() => return,
            _ = leases.tick() => {
                routing::fail(services, services.hosts.abandon_overdue());
                renew(services).await
            }
            _ = cleanups.tick() => clean_up(services, keep).await,
        };
        if let Err(error) = done {
            tracing::error!(error = &error as &dyn std::error::Error, "periodic work failed");
        }
    }
}

async fn renew(services: &Services) -> Result<(), StoreError> {
    let now_ms = now_ms();
    let lease = HostLease { node: &services.wakeups.node, lease_ms: now_ms + lease_ms(services), now_ms };
    services.store.renew_leases(&lease).await
}

async fn clean_up(services: &Services, keep: Retention) -> Result<(), StoreError> {
    let removed = services.store.remove_old_runs(keep, now_ms()).await?;
    if removed > 0 {
        tracing::info!(runs = removed, "removed old runs");
    }
    services.store.expire_approvals(now_ms() - OVERDUE_MS).await?;
    services.store.forget_old_failures(services.limits.login_failures, now()).await
}
