//! Resuming after a disconnect with 100 MiB missed: throughput compared with streaming the same text.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{median, table};
use crate::peers::daemon::Daemon;
use crate::peers::peer::{JsonPeer, StdioKind};
use crate::peers::rexd::{Encoding, Rexd};
use crate::proc::cpu;
use crate::report::{Bound, Findings, compare, fact};
use crate::stats::{Samples, interleave, quantile, rate, timed, within};
use crate::world::World;

const MISSED: u64 = 100 << 20;
/// Limit for a process without a reader to print everything.
const PATIENCE: Duration = Duration::from_secs(60);

/// The way in which the client receives the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As the process prints it.
    Streamed,
    /// By `session.resume` on another WebSocket, when all was printed.
    Resumed,
    /// By `exec.attach` to a detached process, when all was printed.
    Attached,
}

const WAYS: [(Way, &str); 3] =
    [(Way::Streamed, "streamed"), (Way::Resumed, "session.resume"), (Way::Attached, "exec.attach")];

/// Processor time of the daemon and of this client, relative to the elapsed time.
#[derive(Debug, Default)]
struct Load {
    daemon: Vec<f64>,
    client: Vec<f64>,
}

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let daemon = Daemon::start(world.setup())?;
    let size = world.amount(MISSED, MISSED / 10);
    let mut turns: Vec<(Way, Load)> = WAYS.map(|(way, _)| (way, Load::default())).into();
    let samples = interleave(&mut turns, world.amount(7, 2), |(way, load)| {
        let turn = Turn { world, daemon: &daemon, size };
        let seconds = turn.run(*way, load).with_context(|| format!("{way:?}"))?;
        Ok(vec![size as f64 / seconds])
    })?;
    let names = WAYS.map(|(_, name)| name.to_owned());
    let mut findings = Findings::new("100 MiB missed in a cut");
    table(&mut findings, "over WebSocket", &names, &samples, rate);
    let percent = |shares: &[f64]| format!("{:.0} %", 100.0 * quantile(shares.to_vec(), 0.5));
    let line = |(name, (_, load)): (&String, &(Way, Load))| {
        vec![name.clone(), percent(&load.daemon), percent(&load.client)]
    };
    let lines = names.iter().zip(&turns).map(line).collect();
    findings.table(&["processor used, of one core", "daemon", "client"], lines);
    findings.note(
        "The client is disconnected before the process prints; rexd keeps 8 MiB of events in memory and the rest in a file, \
         the keeper all of it in files. The time is measured from the request to the last byte; every byte was compared \
         with the known text.",
    );
    findings.note(
        "On loopback the CPU time of the daemon is the limit, and resuming costs no more than streaming. With a disk or a \
         network that is slower than these figures, that is the limit instead.",
    );
    targets(&mut findings, &names, &samples)?;
    Ok(findings)
}

fn targets(findings: &mut Findings, names: &[String], samples: &[Samples]) -> Result<()> {
    let streamed = ("streamed", median(names, samples, "streamed")?);
    for name in ["session.resume", "exec.attach"] {
        let ours = median(names, samples, name)?;
        let work = format!("100 MiB after a cut, {name}");
        findings.targets.push(fact(&work, rate(ours), "stated", true));
        findings.targets.push(compare(&work, ours, streamed, Bound::AtLeast(0.7), rate));
    }
    Ok(())
}

/// One transfer.
struct Turn<'a> {
    world: &'a World,
    daemon: &'a Daemon,
    size: u64,
}

impl Turn<'_> {
    /// Seconds that the text took.
    fn run(&self, way: Way, load: &mut Load) -> Result<f64> {
        let mark = self.world.directory.join("printed");
        drop(fs::remove_file(&mark));
        let script = self.script(&mark)?;
        let mut peer = self.client()?;
        let opened = peer.open(json!({"resume": way == Way::Resumed}))?;
        let argv = ["/bin/sh", "-c", script.as_str()];
        if way == Way::Streamed {
            let (process, seconds) = (peer.start(&argv, StdioKind::Pipes)?, self.follow(load));
            return seconds(&mut peer, &process, None);
        }
        let session = peer.dialect.session.clone();
        let params = json!({"session_id": session, "argv": argv, "detach": way == Way::Attached});
        let started = peer.call("exec.start", &params)?;
        let process = started["process_id"].as_str().context("no process_id")?.to_owned();
        drop(peer);
        within(PATIENCE, || mark.exists()).context("the process did not finish without a reader")?;
        let mut peer = self.client()?;
        let (method, params) = match way {
            Way::Attached => {
                peer.open(json!({}))?;
                let session = &peer.dialect.session;
                ("exec.attach", json!({"session_id": session, "process_id": process, "cursor": 0}))
            }
            _ => ("session.resume", resume(&opened)),
        };
        self.follow(load)(&mut peer, &process, Some((method, params)))
    }

    /// Prints the text after the client has disconnected, or at once if it stays.
    fn script(&self, mark: &Path) -> Result<String> {
        let text = self.world.text(self.size)?;
        Ok(format!("sleep 0.2; cat {}; touch {}", text.display(), mark.display()))
    }

    fn client(&self) -> Result<JsonPeer<Rexd>> {
        self.daemon.through(self.daemon.port, "ws", Encoding::Base64)
    }

    /// Requests missed output, if any, and reads until the process ends; the clock runs from the request,
    /// or from the first byte.
    fn follow<'a>(
        &'a self,
        load: &'a mut Load,
    ) -> impl FnOnce(&mut JsonPeer<Rexd>, &str, Option<(&'static str, Value)>) -> Result<f64> + 'a {
        move |peer, process, asking| {
            let mut expected = self.world.expect();
            let pids = [self.daemon.server.id(), std::process::id()];
            let mut before = [cpu(pids[0])?, cpu(pids[1])?];
            let mut began = std::time::Instant::now();
            let mut is_first = asking.is_none();
            if let Some((method, params)) = &asking {
                let answer = peer.call(method, params)?;
                ensure!(answer["lost"].as_u64() == Some(0), "{} is lost", answer["lost"]);
            }
            let (_, code) = timed(|| {
                peer.follow(process, &mut |bytes| {
                    if std::mem::take(&mut is_first) {
                        before = [cpu(pids[0])?, cpu(pids[1])?];
                        began = std::time::Instant::now();
                    }
                    expected.take(bytes)
                })
            })?;
            let seconds = began.elapsed().as_secs_f64();
            ensure!(code == 0, "the process exited with {code}");
            expected.end(self.size)?;
            load.daemon.push((cpu(pids[0])? - before[0]) / seconds);
            load.client.push((cpu(pids[1])? - before[1]) / seconds);
            Ok(seconds)
        }
    }
}

fn resume(opened: &Value) -> Value {
    json!({"session_id": opened["session_id"], "resume_token": opened["resume_token"], "last_event_id": 0})
}
