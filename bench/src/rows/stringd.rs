//! stringd: commands against other requests of the same run, many open topics, and a large document.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::{median, table};
use crate::peers::daemon::Daemon;
use crate::peers::rexd_http::ExitSource;
use crate::peers::stringd::Stringd;
use crate::peers::{Commands, Terminals, ignore};
use crate::proc::memory;
use crate::report::{Bound, Findings, compare, fact, limit};
use crate::stats::{Samples, interleave, quantile, rate, time, timed};
use crate::world::World;

/// The size of the large document.
const DOCUMENT_BYTES: usize = 1_000_000;
/// Bytes per second of parsing and rendering.
const DOCUMENT_RATE: f64 = 50e6;
/// The memory of an idle topic without a shell.
const TOPIC_BYTES: f64 = 64.0 * 1024.0;
const FEW: usize = 10;
const MANY: usize = 500;

/// One kind of request: its name, and one run with its time in seconds.
type Work<'a> = (&'static str, Box<dyn FnMut() -> Result<f64> + 'a>);

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let mut findings = Findings::new("stringd");
    requests(world, &mut findings)?;
    topics(world, &mut findings)?;
    document(world, &mut findings);
    Ok(findings)
}

fn requests(world: &World, findings: &mut Findings) -> Result<()> {
    let stringd = RefCell::new(Stringd::start(&world.setup())?);
    let daemon = Daemon::start(world.setup())?;
    let mut http = daemon.http(ExitSource::Waited)?;
    let mut terminal = world.setup().start()?;
    Terminals::open(&mut terminal)?;
    let exec = |topic: &'static str, cmd: &'static str| {
        let stringd = &stringd;
        move || Ok(timed(|| stringd.borrow_mut().exec(topic, cmd))?.0)
    };
    let mut works: Vec<Work<'_>> = vec![
        ("GET /health", Box::new(|| Ok(timed(|| stringd.borrow_mut().health())?.0))),
        ("/info", Box::new(exec("file:a", "/info"))),
        ("/exec true", Box::new(exec("file:a", "/exec true"))),
        ("bash topic: true", Box::new(exec("bash:a", "true"))),
        (
            "rexd http: bash -c true",
            Box::new(move || {
                let (seconds, code) = timed(|| http.run(&["/bin/bash", "-c", "true"], &mut ignore))?;
                ensure!(code == 0, "bash -c true exited with {code}");
                Ok(seconds)
            }),
        ),
        ("rexd: keystroke to echo", Box::new(move || Ok(terminal.key(b'k')?.as_secs_f64()))),
    ];
    let each = world.amount(100, 20);
    let samples =
        interleave(&mut works, world.amount(10, 2), |(_, work)| (0..each).map(|_| work()).collect())?;
    let names: Vec<String> = works.iter().map(|(name, _)| (*name).to_owned()).collect();
    table(findings, "request", &names, &samples, time);
    for (work, peer, most) in [
        ("/info", "GET /health", 5.0),
        ("/exec true", "rexd http: bash -c true", 1.25),
        ("bash topic: true", "rexd: keystroke to echo", 3.0),
    ] {
        let (ours, theirs) = (median(&names, &samples, work)?, median(&names, &samples, peer)?);
        let work = format!("stringd {work}, p50");
        findings.targets.push(compare(&work, ours, (peer, theirs), Bound::AtMost(most), time));
    }
    Ok(())
}

fn topics(world: &World, findings: &mut Findings) -> Result<()> {
    let mut stringd = Stringd::start(&world.setup())?;
    let open = |stringd: &mut Stringd, topics: std::ops::Range<usize>| -> Result<(f64, f64)> {
        for topic in topics {
            stringd.exec(&format!("file:t{topic}"), "/info")?;
        }
        let mut samples = Samples::default();
        for _ in 0..world.amount(10, 2) {
            let round = (0..world.amount(100, 20)).map(|_| Ok(timed(|| stringd.exec("file:t5", "/info"))?.0));
            samples.push(round.collect::<Result<_>>()?);
        }
        std::thread::sleep(Duration::from_millis(500));
        Ok((samples.p50(), memory(stringd.id())?.rss))
    };
    let (few, before) = open(&mut stringd, 0..FEW)?;
    let (many, after) = open(&mut stringd, FEW..MANY)?;
    let each = (after - before).max(0.0) / (MANY - FEW) as f64;
    let show = |bytes: f64| format!("{:.1} KiB", bytes / 1024.0);
    findings.table(
        &["open topics", "/info, p50", "memory per further topic"],
        vec![
            vec![FEW.to_string(), time(few), "-".to_owned()],
            vec![MANY.to_string(), time(many), show(each)],
        ],
    );
    let work = format!("stringd /info in one of {MANY} topics, p50");
    findings.targets.push(compare(&work, many, ("with 10 topics", few), Bound::AtMost(1.5), time));
    findings.targets.push(limit("memory of an idle stringd topic", each, TOPIC_BYTES, show));
    Ok(())
}

/// Parses and renders in this process, as `/open` does: prose, and a document of nothing but links by reference.
fn document(world: &World, findings: &mut Findings) {
    let section =
        "## Section {#s}\n\nText with a [link](other.md), `code` and **bold** words.\n\n- one\n- two\n\n";
    let prose = section.repeat(DOCUMENT_BYTES / section.len());
    let line = "[t][r] [t][r] [t][r] [t][r] [t][r] [t][r] [t][r] [t][r]\n";
    let links = format!("[r]: https://r.test/\n\n{}", line.repeat(DOCUMENT_BYTES / line.len()));
    for (what, text) in [("1 MB of prose", prose), ("1 MB of [t][r]", links)] {
        let rates = (0..world.amount(30, 5)).map(|_| {
            let source = text.clone();
            let start = std::time::Instant::now();
            let document = sfmd::document::Document::parse(source);
            std::hint::black_box(sfmd::render::document(&document, None));
            text.len() as f64 / start.elapsed().as_secs_f64()
        });
        let reached = quantile(rates.collect(), 0.5);
        let target = format!("at least {}", rate(DOCUMENT_RATE));
        let work = format!("stringd: parse and render {what}");
        findings.targets.push(fact(&work, rate(reached), &target, reached >= DOCUMENT_RATE));
    }
}
