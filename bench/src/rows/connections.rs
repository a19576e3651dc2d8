//! Memory of an idle WebSocket: a thousand connections, first without and then with a session each.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;

use crate::peers::daemon::Daemon;
use crate::peers::rexd::Encoding;
use crate::peers::{Commands, ignore};
use crate::proc::memory;
use crate::report::{Findings, limit};
use crate::stats::mib;
use crate::world::World;

/// Limit for the memory of one connection.
const MOST: f64 = 30.0 * 1024.0;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let count = world.amount(1000, 100);
    let daemon = Daemon::start(world.setup())?;
    let rss = || -> Result<f64> {
        std::thread::sleep(Duration::from_millis(500));
        Ok(memory(daemon.server.id())?.rss)
    };
    // The cost of the first connection is not counted.
    let mut first = daemon.websocket()?;
    ensure!(first.run(&["/bin/true"], &mut ignore)? == 0, "/bin/true failed");
    let idle = rss()?;
    let peers: Result<Vec<_>> =
        (0..count).map(|_| daemon.through(daemon.port, "ws", Encoding::Base64)).collect();
    let mut peers = peers?;
    let connected = rss()?;
    for peer in &mut peers {
        peer.open(json!({}))?;
    }
    let opened = rss()?;
    for peer in &mut peers {
        ensure!(peer.run(&["/bin/true"], &mut ignore)? == 0, "/bin/true failed");
    }
    let used = rss()?;
    ensure!(first.run(&["/bin/true"], &mut ignore)? == 0, "the first connection is gone");
    drop(peers);
    let left = rss()?;
    let mut findings = Findings::new(&format!("{count} idle WebSocket connections"));
    let each = |rss: f64| (rss - idle) / count as f64;
    let kib = |bytes: f64| format!("{:.1} KiB", bytes / 1024.0);
    let stages = [
        ("one connection", idle),
        ("connected", connected),
        ("with a session each", opened),
        ("after a command in each", used),
        ("all closed but the first", left),
    ];
    let line = |(stage, rss): (&str, f64)| vec![stage.to_owned(), mib(rss), kib(each(rss))];
    findings.table(&["stage", "RSS of the daemon", "each"], stages.map(line).to_vec());
    findings.note(
        "RSS is the daemon's own memory, without the socket buffers of the kernel. Freed pages are returned with a delay, so \
         the last line is not necessarily a leak.",
    );
    findings.targets.push(limit("an idle WebSocket", each(connected), MOST, kib));
    findings.targets.push(limit("an idle WebSocket with a session", each(opened), MOST, kib));
    Ok(findings)
}
