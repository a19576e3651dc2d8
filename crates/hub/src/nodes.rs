//! What a node does about the wake-ups of the other nodes: it shows their events to its apps, and ends connections of hosts
//! that have a newer one elsewhere.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use wire::hub::v1::{HostPresence, kind};

use crate::api;
use crate::auth::now_ms;
use crate::publisher::read_stored;
use crate::services::{Services, addressed};
use crate::wakeups::{RunRange, Topic, Wakeup};

/// Runs of other nodes whose position is remembered; beyond it, all are forgotten.
const REMEMBERED_RUNS: usize = 100_000;

/// Handles wake-ups until the hub stops.
pub(crate) async fn run(services: Arc<Services>, wakeups: broadcast::Receiver<Wakeup>) {
    let stop = services.stop.clone();
    stop.run_until_cancelled(follow(&services, wakeups)).await;
}

async fn follow(services: &Services, mut wakeups: broadcast::Receiver<Wakeup>) {
    // The last event of each run of another node that was published here.
    let mut published: HashMap<Arc<str>, i64> = HashMap::new();
    loop {
        let wakeup = match wakeups.recv().await {
            Ok(wakeup) => wakeup,
            Err(RecvError::Lagged(missed)) => {
                tracing::warn!(missed, "wake-ups of other nodes were missed; apps compare with the store");
                services.feed.resync();
                continue;
            }
            Err(RecvError::Closed) => return,
        };
        if wakeup.node == services.wakeups.node {
            continue;
        }
        match wakeup.topic {
            // `auth` handles it.
            Topic::Revision => {}
            Topic::Runs(ranges) => {
                for range in ranges.iter().filter(|_| services.feed.apps() > 0) {
                    show(services, &mut published, range).await;
                }
                if published.len() > REMEMBERED_RUNS {
                    published.clear();
                }
            }
            Topic::Host(host) => host_changed(services, &host).await,
        }
    }
}

/// Shows events that another node has stored.
async fn show(services: &Services, published: &mut HashMap<Arc<str>, i64>, range: &RunRange) {
    let position = published.entry(range.run_id.clone()).or_insert(range.after);
    let from = std::mem::replace(position, range.last_seq.max(*position));
    if from < range.last_seq {
        let mut live = Vec::new();
        read_stored(&services.store, &range.host_id, &range.run_id, (from, range.last_seq), &mut live).await;
        services.feed.publish(&live);
    }
}

/// Ends an older connection of a host to this node, and informs the apps of this node.
async fn host_changed(services: &Services, id: &str) {
    let host = match services.store.host(id, now_ms()).await {
        Ok(Some(host)) => host,
        // Removed: its connections end because of that.
        Ok(None) => return,
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, host = id, "reading a host failed");
            return;
        }
    };
    services.hosts.replace_older(id, host.generation);
    let word = if host.node.is_some() { kind::HOST_ONLINE } else { kind::HOST_OFFLINE };
    let is_older = host.version.as_deref().map(|version| api::is_older(Some(version)));
    let presence = HostPresence { name: host.name, version: host.version, is_older };
    services.feed.publish_frame(&addressed(word, &presence, Some(id), None));
}
