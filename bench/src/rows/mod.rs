//! One file per row of the report; each starts its peers and returns its findings.

pub(crate) mod cold;
pub(crate) mod compress;
pub(crate) mod connections;
pub(crate) mod detached;
pub(crate) mod exec_server;
pub(crate) mod exec_server_files;
pub(crate) mod exec_server_memory;
pub(crate) mod exec_server_relay;
pub(crate) mod floods;
pub(crate) mod growth;
pub(crate) mod latency;
pub(crate) mod memory;
pub(crate) mod policy;
pub(crate) mod pty;
pub(crate) mod rate;
pub(crate) mod read;
pub(crate) mod resume;
pub(crate) mod rex_cp;
pub(crate) mod rex_exec;
pub(crate) mod rex_hub;
pub(crate) mod rex_mcp;
pub(crate) mod rex_start;
pub(crate) mod sandbox;
pub(crate) mod size;
pub(crate) mod stall;
pub(crate) mod stream;
pub(crate) mod stringd;
pub(crate) mod tree;
pub(crate) mod write;

use std::time::Duration;

use anyhow::{Context, Result};

use crate::report::Findings;
use crate::stats::{Samples, times};
use crate::world::World;

/// A row: its name, its time limit and its function.
pub(crate) struct Row {
    /// The name on the command line.
    pub(crate) name: &'static str,
    /// The time limit of the row.
    pub(crate) limit: Duration,
    /// The function that measures.
    pub(crate) run: fn(&World) -> Result<Findings>,
}

const MINUTE: Duration = Duration::from_secs(60);

/// Every row, in the order of the report.
pub(crate) const ALL: [Row; 29] = [
    Row { name: "true", limit: MINUTE.saturating_mul(15), run: latency::run },
    Row { name: "rate", limit: MINUTE.saturating_mul(15), run: rate::run },
    Row { name: "stream", limit: MINUTE.saturating_mul(20), run: stream::run },
    Row { name: "stall", limit: MINUTE.saturating_mul(15), run: stall::run },
    Row { name: "read", limit: MINUTE.saturating_mul(15), run: read::run },
    Row { name: "write", limit: MINUTE.saturating_mul(15), run: write::run },
    Row { name: "cold", limit: MINUTE.saturating_mul(15), run: cold::run },
    Row { name: "memory", limit: MINUTE.saturating_mul(15), run: memory::run },
    Row { name: "pty", limit: MINUTE.saturating_mul(15), run: pty::run },
    Row { name: "floods", limit: MINUTE.saturating_mul(10), run: floods::run },
    Row { name: "tree", limit: MINUTE.saturating_mul(20), run: tree::run },
    Row { name: "size", limit: MINUTE, run: size::run },
    Row { name: "growth", limit: MINUTE.saturating_mul(15), run: growth::run },
    Row { name: "connections", limit: MINUTE.saturating_mul(5), run: connections::run },
    Row { name: "detached", limit: MINUTE.saturating_mul(5), run: detached::run },
    Row { name: "resume", limit: MINUTE.saturating_mul(10), run: resume::run },
    Row { name: "compress", limit: MINUTE.saturating_mul(10), run: compress::run },
    Row { name: "sandbox", limit: MINUTE.saturating_mul(10), run: sandbox::run },
    Row { name: "policy", limit: MINUTE, run: policy::run },
    Row { name: "exec-server", limit: MINUTE.saturating_mul(20), run: exec_server::run },
    Row { name: "exec-server-files", limit: MINUTE.saturating_mul(15), run: exec_server_files::run },
    Row { name: "exec-server-memory", limit: MINUTE.saturating_mul(10), run: exec_server_memory::run },
    Row { name: "exec-server-relay", limit: MINUTE.saturating_mul(10), run: exec_server_relay::run },
    Row { name: "stringd", limit: MINUTE.saturating_mul(10), run: stringd::run },
    Row { name: "rex-exec", limit: MINUTE.saturating_mul(10), run: rex_exec::run },
    Row { name: "rex-cp", limit: MINUTE.saturating_mul(20), run: rex_cp::run },
    Row { name: "rex-hub", limit: MINUTE.saturating_mul(5), run: rex_hub::run },
    Row { name: "rex-mcp", limit: MINUTE.saturating_mul(5), run: rex_mcp::run },
    Row { name: "rex-start", limit: MINUTE.saturating_mul(5), run: rex_start::run },
];

/// Adds the usual table: one line per peer, with its quotient to the first one.
fn table(
    findings: &mut Findings,
    what: &str,
    names: &[String],
    samples: &[Samples],
    show: fn(f64) -> String,
) {
    let first = samples.first().map_or(f64::NAN, Samples::p50);
    let base = names.first().map_or("", String::as_str);
    let line = |(name, samples): (&String, &Samples)| {
        let quotient = times(samples.p50() / first);
        let figures = [samples.p50(), samples.p99(), samples.min(), samples.max()].map(show);
        [vec![name.clone()], figures.to_vec(), vec![quotient, samples.count()]].concat()
    };
    let lines = names.iter().zip(samples).map(line).collect();
    findings.table(&[what, "p50", "p99", "min", "max", &format!("p50 / {base}"), "samples in rounds"], lines);
}

/// The median of the peer with that name.
fn median(names: &[String], samples: &[Samples], name: &str) -> Result<f64> {
    let index =
        names.iter().position(|known| known == name).with_context(|| format!("{name} did not run"))?;
    Ok(samples.get(index).context("no samples")?.p50())
}
