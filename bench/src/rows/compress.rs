//! The same text over a slow link, plain and compressed.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{median, table};
use crate::peers::Commands;
use crate::peers::daemon::Daemon;
use crate::peers::peer::JsonPeer;
use crate::peers::rexd::{Encoding, Rexd};
use crate::peers::throttle::throttle;
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, rate, timed};
use crate::world::{Expected, World};

/// The rate of the link.
const LINK: f64 = 10e6;
const SIZE: usize = 32 << 20;

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let daemon = Daemon::start(world.setup())?;
    let size = world.amount(SIZE, SIZE / 16);
    let (path, block) = world.sources(size)?;
    let path = path.to_str().context("a path that is not text")?.to_owned();
    let client = |label: &str, encoding, wishes, is_slow| -> Result<JsonPeer<Rexd>> {
        let port = if is_slow { throttle(daemon.port, LINK)? } else { daemon.port };
        let mut peer = daemon.through(port, label, encoding)?;
        let answer = peer.open(wishes)?;
        ensure!(
            (answer["compress"] == "zstd") == label.contains("zstd"),
            "compressed: {}",
            answer["compress"]
        );
        Ok(peer)
    };
    let zstd = || json!({"compress": "zstd"});
    let mut peers = vec![
        client("utf8", Encoding::Utf8, json!({}), true)?,
        client("base64", Encoding::Base64, json!({}), true)?,
        client("utf8 zstd", Encoding::Utf8, zstd(), true)?,
        client("base64 zstd", Encoding::Base64, zstd(), true)?,
        client("utf8 zstd, fast link", Encoding::Utf8, zstd(), false)?,
    ];
    let names: Vec<String> = peers.iter().map(Commands::name).collect();
    let samples = interleave(&mut peers, world.amount(3, 1), |peer| {
        let mut expected = Expected::repeating(&block);
        let (seconds, code) = timed(|| peer.run(&["/bin/cat", &path], &mut |bytes| expected.take(bytes)))
            .with_context(|| Commands::name(peer))?;
        ensure!(code == 0, "cat exited with {code}");
        expected.end(size as u64).with_context(|| Commands::name(peer))?;
        Ok(vec![size as f64 / seconds])
    })?;
    let mut findings = Findings::new("A link of 10 MB/s, with and without compression");
    table(&mut findings, "text over WebSocket", &names, &samples, rate);
    findings.note(
        "The text is this program's own sources, 32 MiB of them; a proxy in front of the daemon limits the rate to 10 MB/s. \
         Every message is compressed separately. Every byte was compared.",
    );
    let plain = ("rexd utf8", median(&names, &samples, "rexd utf8")?);
    let ours = median(&names, &samples, "rexd utf8 zstd")?;
    findings.targets.push(compare("text over 10 MB/s, zstd", ours, plain, Bound::AtLeast(2.0), rate));
    Ok(findings)
}
