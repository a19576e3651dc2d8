//! Memory of `rexd exec-server` and of the released server: idle, and with a thousand connections.

use std::time::Duration;

use anyhow::Result;

use crate::peers::codex::{self, Codex, Transport};
use crate::peers::peer::JsonPeer;
use crate::peers::{Commands, ignore};
use crate::proc::memory;
use crate::report::{Bound, Findings, compare};
use crate::stats::mib;
use crate::world::World;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let count = world.amount(1000, 100);
    let [our_idle, our_crowd] =
        measure(codex::ours(&world.rexd, &world.directory, Transport::WebSocket)?, count)?;
    let [their_idle, their_crowd] =
        measure(codex::start(&world.home, &world.directory, Transport::WebSocket, 1)?, count)?;
    let mut findings = Findings::new("exec-server: memory, RSS");
    let line = |name: &str, idle, crowd| vec![name.to_owned(), mib(idle), mib(crowd)];
    findings.table(
        &["server", "idle", &format!("{count} connections")],
        vec![line("rexd exec-server", our_idle, our_crowd), line("codex", their_idle, their_crowd)],
    );
    let codex = ("codex", their_idle);
    findings.targets.push(compare("memory idle", our_idle, codex, Bound::AtMost(0.1), mib));
    let codex = ("codex", their_crowd);
    let work = format!("memory with {count} connections");
    findings.targets.push(compare(&work, our_crowd, codex, Bound::AtMost(0.25), mib));
    Ok(findings)
}

/// Memory after one command, and with many connections after the handshake.
fn measure(mut peer: JsonPeer<Codex>, count: usize) -> Result<[f64; 2]> {
    let settle = || std::thread::sleep(Duration::from_millis(500));
    peer.run(&["/bin/true"], &mut ignore)?;
    settle();
    let idle = memory(peer.server.id())?.rss;
    let crowd: Result<Vec<_>> = (1..count).map(|_| codex::another(&peer)).collect();
    let crowd = crowd?;
    settle();
    let crowded = memory(peer.server.id())?.rss;
    drop(crowd);
    Ok([idle, crowded])
}
