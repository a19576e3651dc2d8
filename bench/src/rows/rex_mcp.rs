//! The tool `bash` over MCP: its cost above the same command through rexd.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{median, table};
use crate::peers::rex::Rex;
use crate::peers::{Commands, ignore};
use crate::report::{Findings, limit};
use crate::stats::{interleave, time, timed};
use crate::watchdog::Server;
use crate::world::World;

/// Limit for the cost above rexd, in seconds.
const MOST: f64 = 1e-3;

/// Runs one operation and returns the seconds.
type Once<'a> = Box<dyn FnMut() -> Result<f64> + 'a>;

/// A minimal MCP client on standard streams.
struct Mcp {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
    _server: Server,
}

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let rex = Rex::new(world, None)?;
    let mut mcp = Mcp::start(&rex)?;
    let mut rexd = world.setup().start()?;
    let mut peers: Vec<(&str, Once<'_>)> = vec![
        (
            "rexd",
            Box::new(|| timed(|| rexd.run(&["bash", "-c", "true"], &mut ignore)).map(|(seconds, _)| seconds)),
        ),
        ("rex mcp", Box::new(|| timed(|| mcp.bash("true")).map(|(seconds, ())| seconds))),
    ];
    let names: Vec<String> = peers.iter().map(|(name, _)| (*name).to_owned()).collect();
    let each = world.amount(50, 5);
    let samples =
        interleave(&mut peers, world.amount(10, 2), |(_, once)| (0..each).map(|_| once()).collect())?;
    let mut findings = Findings::new("`bash` over MCP");
    table(&mut findings, "true", &names, &samples, time);
    let above = median(&names, &samples, "rex mcp")? - median(&names, &samples, "rexd")?;
    findings.targets.push(limit("MCP bash of true, above rexd", above, MOST, time));
    findings.note("Both run `bash -c true`; rex mcp starts its own rexd and keeps it.");
    Ok(findings)
}

impl Mcp {
    fn start(rex: &Rex) -> Result<Mcp> {
        let mut command = rex.command(&["-t", "local", "mcp"]);
        let mut server =
            Server::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()))?;
        let (input, output) = (server.stdin()?, BufReader::new(server.stdout()?));
        let mut mcp = Mcp { input, output, next: 0, _server: server.ends_with_stdin() };
        let about = json!({ "name": "bench", "version": "0" });
        mcp.call(
            "initialize",
            &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about }),
        )?;
        mcp.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(mcp)
    }

    fn bash(&mut self, line: &str) -> Result<()> {
        let result = self.call("tools/call", &json!({ "name": "bash", "arguments": { "command": line } }))?;
        ensure!(result["isError"] != true, "the tool failed: {result}");
        Ok(())
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut line = String::new();
            ensure!(self.output.read_line(&mut line)? > 0, "rex mcp ended");
            let mut message: Value = serde_json::from_str(&line).context("rex mcp sent no JSON")?;
            if message["id"] == id {
                ensure!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return Ok(message["result"].take());
            }
        }
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        self.input.write_all(format!("{message}\n").as_bytes())?;
        Ok(())
    }
}
