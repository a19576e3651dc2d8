//! The client does not read for ten seconds while a process prints 1 GiB: memory, other commands, and kill.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::peers::codex::{self, Transport};
use crate::peers::peer::{Dialect, JsonPeer, StdioKind};
use crate::peers::rexd::LOG_BYTES;
use crate::peers::{Commands, ignore};
use crate::proc::{lives, memory};
use crate::report::{Findings, fact, limit};
use crate::stats::{mib, time, within};
use crate::world::{TEXT_BYTES, World};

/// The number of repetitions of the text.
const COPIES: u64 = 4;
/// Limit for memory growth beyond the configured log.
const GROWTH: f64 = (2 << 20) as f64;
/// Limit for a command or a kill during the stall.
const PATIENCE: Duration = Duration::from_secs(3);

/// The measurements of one peer.
struct Outcome {
    name: String,
    before: f64,
    peak: f64,
    /// Time until a command started during the stall has finished its work.
    touched: Option<Duration>,
    /// Time until a process killed during the stall has ended.
    killed: Option<Duration>,
    drained: Duration,
}

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let rexd = measure(world, world.setup().start()?)?;
    let codex = measure(world, codex::start(&world.home, &world.directory, Transport::Stdio, 1)?)?;
    let mut findings = Findings::new("The reader stalls for 10 s while a process prints 1 GiB");
    let took =
        |time: Option<Duration>| time.map_or("never".to_owned(), |time| format!("{} ms", time.as_millis()));
    let line = |outcome: &Outcome| {
        vec![
            outcome.name.clone(),
            mib(outcome.before),
            mib(outcome.peak),
            took(outcome.touched),
            took(outcome.killed),
            time(outcome.drained.as_secs_f64()),
        ]
    };
    let head = [
        "peer",
        "RSS before",
        "RSS peak",
        "other command ran after",
        "kill took",
        "drained after the stall in",
    ];
    findings.table(&head, vec![line(&rexd), line(&codex)]);
    findings.note(format!(
        "The log is configured to {}. The file that the other command creates shows whether it ran, and `/proc` whether the kill \
         worked; all of the 1 GiB was compared with the known text afterwards.",
        mib(LOG_BYTES as f64)
    ));
    let growth = rexd.peak - rexd.before;
    findings.targets.push(limit(
        "RSS growth in a stall, log included",
        growth,
        LOG_BYTES as f64 + GROWTH,
        mib,
    ));
    let (touched, killed) = (rexd.touched.is_some(), rexd.killed.is_some());
    findings.targets.push(fact("another command runs in a stall", took(rexd.touched), "runs", touched));
    findings.targets.push(fact("a kill works in a stall", took(rexd.killed), "works", killed));
    Ok(findings)
}

fn measure<D: Dialect>(world: &World, mut peer: JsonPeer<D>) -> Result<Outcome> {
    let name = Commands::name(&peer);
    let text = world.text(world.amount(TEXT_BYTES, TEXT_BYTES / 8))?;
    let size = fs::metadata(&text)?.len();
    let text = text.to_str().context("a path that is not text")?;
    peer.run(&["/bin/cat", text], &mut ignore)?;
    let before = memory(peer.server.id())?.rss;
    let printer = peer.start(&[&["/bin/cat"][..], &[text; COPIES as usize]].concat(), StdioKind::Pipes)?;
    let stall = Instant::now();
    let (mut peak, mut touched) = (before, None);
    while stall.elapsed() < world.amount(Duration::from_secs(10), Duration::from_secs(2)) {
        peak = peak.max(memory(peer.server.id())?.rss);
        std::thread::sleep(Duration::from_millis(20));
        if touched.is_none() && stall.elapsed() > Duration::from_secs(1) {
            touched = Some(touch(&mut peer, &world.directory.join(format!("touched by {name}")))?);
        }
    }
    let drain = Instant::now();
    let mut expected = world.expect_files(size)?;
    peer.follow(&printer, &mut |bytes| expected.take(bytes)).with_context(|| name.clone())?;
    expected.end(COPIES * size).with_context(|| name.clone())?;
    let drained = drain.elapsed();
    let killed = kill(&mut peer, world, text)?;
    Ok(Outcome { name, before, peak, touched: touched.flatten(), killed, drained })
}

/// Starts a command without reading its response, and waits for the file that it creates.
fn touch<D: Dialect>(peer: &mut JsonPeer<D>, mark: &Path) -> Result<Option<Duration>> {
    let mark_text = mark.to_str().context("a path that is not text")?;
    peer.begin(&["/usr/bin/touch", mark_text])?;
    Ok(within(PATIENCE, || mark.exists()))
}

/// Kills a process with unread output, and waits for its end.
fn kill<D: Dialect>(peer: &mut JsonPeer<D>, world: &World, text: &str) -> Result<Option<Duration>> {
    let note = world.directory.join("printer.pid");
    drop(fs::remove_file(&note));
    let script = format!("echo $$ > {}; exec cat {text} {text} {text} {text}", note.display());
    let printer = peer.start(&["/bin/sh", "-c", &script], StdioKind::Pipes)?;
    let pid = || fs::read_to_string(&note).unwrap_or_default();
    within(PATIENCE, || pid().ends_with('\n')).context("the printer did not start")?;
    std::thread::sleep(Duration::from_secs(1));
    let (method, params) = peer.dialect.kill(&printer);
    peer.send(method, &params)?;
    let gone = within(PATIENCE, || !lives(&pid()));
    peer.follow_to_end(&printer)?;
    Ok(gone)
}
