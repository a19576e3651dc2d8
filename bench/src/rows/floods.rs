//! The response time of another connection while 50 terminals, or 50 pipes, print without end.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{median, table};
use crate::peers::daemon::Daemon;
use crate::peers::peer::JsonPeer;
use crate::peers::rexd::Rexd;
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, time, timed, within};
use crate::world::World;

/// Programs that print.
const FLOODS: usize = 50;
/// Limit for the start and for the end of all of them.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let daemon = Daemon::start(world.setup())?;
    let mut pinger = daemon.unix()?;
    let pings = world.amount(300, 30);
    let mut kinds = [("no flood", None), ("pipes", Some("exec.start")), ("terminals", Some("pty.open"))];
    let names = kinds.map(|(name, _)| name.to_owned());
    let samples = interleave(&mut kinds, world.amount(10, 2), |(name, method)| {
        round(&daemon, &mut pinger, *method, pings).with_context(|| (*name).to_owned())
    })?;
    let mut findings = Findings::new("A ping beside programs that print without end");
    table(&mut findings, "server.ping", &names, &samples, time);
    findings.note(format!(
        "{FLOODS} `yes`, whose output another client reads and discards on a thread of this program; new ones in each round."
    ));
    let pipes = ("on pipes", median(&names, &samples, "pipes")?);
    let terminals = median(&names, &samples, "terminals")?;
    let work = format!("server.ping beside {FLOODS} floods on terminals, p50");
    findings.targets.push(compare(&work, terminals, pipes, Bound::AtMost(3.0), time));
    Ok(findings)
}

fn round(
    daemon: &Daemon,
    pinger: &mut JsonPeer<Rexd>,
    method: Option<&str>,
    pings: usize,
) -> Result<Vec<f64>> {
    let floods = method.map(|method| Floods::start(daemon, method)).transpose()?;
    wait_for(pinger, if floods.is_some() { FLOODS } else { 0 })?;
    let times = (0..pings).map(|_| timed(|| pinger.call("server.ping", &json!({}))).map(|(time, _)| time));
    let times = times.collect();
    drop(floods);
    wait_for(pinger, 0)?;
    times
}

/// Waits until so many programs run.
fn wait_for(pinger: &mut JsonPeer<Rexd>, wanted: usize) -> Result<()> {
    let params = json!({"session_id": pinger.dialect.session});
    let mut seen = Ok(Value::Null);
    within(PATIENCE, || {
        seen = pinger.call("exec.list", &params);
        let running = seen.as_ref().map(|listed| {
            listed["processes"]
                .as_array()
                .map_or(0, |all| all.iter().filter(|process| process["status"] == "running").count())
        });
        running.map_or(true, |count| count == wanted)
    })
    .with_context(|| format!("not {wanted} programs run"))?;
    seen.map(drop)
}

/// A session whose programs print without end. Dropping it closes the connection, which ends them.
struct Floods {
    stream: UnixStream,
    reader: Option<JoinHandle<()>>,
}

impl Floods {
    fn start(daemon: &Daemon, method: &str) -> Result<Floods> {
        let mut stream = UnixStream::connect(daemon.socket_path())?;
        let mut received = stream.try_clone()?;
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            while received.read(&mut buffer).is_ok_and(|count| count > 0) {}
        });
        let request = |id: usize, method: &str, params: Value| {
            format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
        };
        let opened = json!({"client_name": "rexd-bench", "output_encoding": "base64"});
        let mut requests = request(0, "session.open", opened);
        for id in 1..=FLOODS {
            requests += &request(id, method, json!({"session_id": "@last", "argv": ["/usr/bin/yes"]}));
        }
        stream.write_all(requests.as_bytes())?;
        Ok(Floods { stream, reader: Some(reader) })
    }
}

impl Drop for Floods {
    fn drop(&mut self) {
        // Fails only if the daemon has closed it.
        drop(self.stream.shutdown(std::net::Shutdown::Both));
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
    }
}
