//! Detached processes: memory of their keepers, and start time compared with attached processes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{median, table};
use crate::peers::daemon::Daemon;
use crate::peers::peer::{Dialect, JsonPeer};
use crate::peers::rexd::Rexd;
use crate::proc::{lives, memory, parent};
use crate::report::{Bound, Findings, compare, limit};
use crate::stats::{Samples, interleave, mib, time, timed, within};
use crate::world::World;

const KEEPERS: usize = 10;
/// Limit for the memory of a keeper.
const MOST: f64 = (3 << 20) as f64;
/// Pause between two starts, in which rexd prepares a keeper.
const PAUSE: Duration = Duration::from_millis(30);

/// How a process is started.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    detach: bool,
    pause: Duration,
}

const WAYS: [Way; 3] = [
    Way { name: "attached", detach: false, pause: PAUSE },
    Way { name: "detached", detach: true, pause: PAUSE },
    Way { name: "detached, one right after another", detach: true, pause: Duration::ZERO },
];

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let daemon = Daemon::start(world.setup())?;
    let mut peer = daemon.unix()?;
    let (names, samples) = starts(world, &mut peer)?;
    let keepers = keepers(&mut peer)?;
    let mut findings = Findings::new("Detached processes");
    table(&mut findings, "`exec.start` answered", &names, &samples, time);
    let lines = vec![
        line("PSS", keepers.iter().map(|keeper| keeper.pss).collect()),
        line("RSS", keepers.iter().map(|keeper| keeper.rss).collect()),
    ];
    findings.table(&["each of 10 keepers", "mean", "largest"], lines);
    findings.note(
        "PSS divides the pages of the program among the keepers and the daemon that share it. A keeper is the parent \
         of its process.",
    );
    let mean = keepers.iter().map(|keeper| keeper.pss).sum::<f64>() / keepers.len() as f64;
    findings.targets.push(limit("memory of a keeper, PSS, with 10 of them", mean, MOST, mib));
    let attached = ("attached", median(&names, &samples, "attached")?);
    let ours = median(&names, &samples, "detached")?;
    findings.targets.push(compare("start of a detached process", ours, attached, Bound::AtMost(3.0), time));
    Ok(findings)
}

fn line(what: &str, values: Vec<f64>) -> Vec<String> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    vec![what.to_owned(), mib(mean), mib(values.into_iter().fold(0.0, f64::max))]
}

fn starts(world: &World, peer: &mut JsonPeer<Rexd>) -> Result<(Vec<String>, Vec<Samples>)> {
    let mut ways = WAYS;
    let each = world.amount(5, 2);
    let samples = interleave(&mut ways, world.amount(20, 2), |way| {
        let mut started = Vec::new();
        let mut one = || -> Result<f64> {
            std::thread::sleep(way.pause);
            let (seconds, id) = timed(|| start(peer, way.detach))?;
            started.push(id);
            Ok(seconds)
        };
        let round = (0..each).map(|_| one()).collect::<Result<Vec<f64>>>().with_context(|| way.name);
        for id in &started {
            kill(peer, id)?;
        }
        round
    })?;
    Ok((WAYS.iter().map(|way| way.name.to_owned()).collect(), samples))
}

fn start(peer: &mut JsonPeer<Rexd>, detach: bool) -> Result<String> {
    let session = peer.dialect.session.clone();
    let params = json!({"session_id": session, "argv": ["/bin/sleep", "60"], "detach": detach});
    let answer = peer.call("exec.start", &params)?;
    answer["process_id"].as_str().map(str::to_owned).context("no process_id")
}

fn kill(peer: &mut JsonPeer<Rexd>, process: &str) -> Result<()> {
    let (method, params) = peer.dialect.kill(process);
    peer.call(method, &params).map(drop)
}

/// Memory of the keepers of ten processes; kills the processes afterwards.
fn keepers(peer: &mut JsonPeer<Rexd>) -> Result<Vec<crate::proc::Memory>> {
    let processes = (0..KEEPERS).map(|_| start(peer, true)).collect::<Result<Vec<String>>>()?;
    std::thread::sleep(Duration::from_millis(500));
    let pids = pids(peer, &processes)?;
    let weighed = pids.iter().map(|pid| memory(parent(*pid)?)).collect::<Result<Vec<_>>>();
    for process in &processes {
        kill(peer, process)?;
    }
    let gone = within(Duration::from_secs(5), || pids.iter().all(|pid| !lives(&pid.to_string())));
    gone.context("a detached process outlived its kill")?;
    weighed
}

/// The process ids of these processes.
fn pids(peer: &mut JsonPeer<Rexd>, processes: &[String]) -> Result<Vec<u32>> {
    let session = peer.dialect.session.clone();
    let listed = peer.call("exec.list", &json!({"session_id": session}))?;
    let listed = listed["processes"].as_array().context("no list")?;
    let ours = listed.iter().filter(|entry| processes.iter().any(|id| entry["process_id"] == **id));
    let pids: Vec<u32> =
        ours.filter_map(|entry| entry["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok())).collect();
    ensure!(pids.len() == processes.len(), "{} of {} processes are listed", pids.len(), processes.len());
    Ok(pids)
}
