//! The Codex exec-server from npm, over stdio and over a WebSocket.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::json;
use super::peer::{Dialect, JsonPeer, Meaning, StdioKind};
use super::websocket::{WebSocket, WebSocketAddress};
use super::wire::Wire;
use crate::watchdog::{Server, tied};

/// Where the npm package keeps its native program; the wrapper script in front of it would only cost time.
const NATIVE: &str = "npm/node_modules/@openai";

/// The dialect exec-server v1, as release 0.166 speaks it.
#[derive(Debug, Clone)]
pub(crate) struct Codex {
    name: String,
    directory: PathBuf,
    /// Whether commands are confined to writing in the directory.
    is_confined: bool,
    /// Processes with one of `exited` (with its code) and `closed` received.
    ending: HashMap<String, Option<Option<i64>>>,
    /// Where its server listens, if it does.
    address: Option<String>,
}

impl Codex {
    fn sandbox(&self) -> Value {
        let entries = json!([
            { "path": { "type": "special", "value": { "kind": "root" } }, "access": "read" },
            { "path": { "type": "path", "path": uri(&self.directory) }, "access": "write" },
        ]);
        let files = json!({ "type": "restricted", "entries": entries });
        json!({
            "permissions": { "type": "managed", "file_system": files, "network": "restricted" },
            "cwd": uri(&self.directory), "windowsSandboxLevel": "disabled",
        })
    }

    /// A process has ended when both `exited` and `closed` came. Different tasks send them, so either may be first.
    fn half_ended(&mut self, process: String, exited: Option<Option<i64>>) -> Meaning {
        match self.ending.remove(&process) {
            Some(other) => Meaning::Exit { process, code: exited.or(other).flatten() },
            None => {
                self.ending.insert(process, exited);
                Meaning::Other
            }
        }
    }
}

/// Which connection to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Pipes.
    Stdio,
    /// A WebSocket on loopback.
    WebSocket,
}

/// Starts `codex exec-server` without a handshake.
pub(crate) fn spawn(
    home: &Path,
    directory: &Path,
    transport: Transport,
    concurrent: usize,
) -> Result<JsonPeer<Codex>> {
    let (program, more) = (program(home)?, ["--concurrent-requests".to_owned(), concurrent.to_string()]);
    let name = if concurrent > 1 { format!(" c{concurrent}") } else { String::new() };
    serve((&program, &more), directory, transport, &|transport| format!("codex {transport}{name}"))
}

/// Starts `rexd exec-server` and does the handshake.
pub(crate) fn ours(rexd: &Path, directory: &Path, transport: Transport) -> Result<JsonPeer<Codex>> {
    let name = |transport: &str| format!("rexd exec-server {transport}");
    let mut peer =
        serve((rexd, &[]), directory, transport, &name).context("rexd exec-server did not start")?;
    peer.greet()?;
    Ok(peer)
}

/// Another connection to the server of a peer that has a WebSocket.
pub(crate) fn another(of: &JsonPeer<Codex>) -> Result<JsonPeer<Codex>> {
    let address = of.dialect.address.clone().context("it has no address")?;
    let wire = WebSocket::connect(&WebSocketAddress { address, path: "/", token: None, acknowledges: true })?;
    let dialect = Codex { ending: HashMap::new(), ..of.dialect.clone() };
    let mut peer = JsonPeer::new(dialect, of.server.clone(), Wire::WebSocket(wire));
    peer.greet()?;
    Ok(peer)
}

fn serve(
    (program, more): (&Path, &[String]),
    directory: &Path,
    transport: Transport,
    name: &dyn Fn(&str) -> String,
) -> Result<JsonPeer<Codex>> {
    let state = directory.join("codex-home");
    std::fs::create_dir_all(&state)?;
    let listen = if transport == Transport::Stdio { "stdio" } else { "ws://127.0.0.1:0" };
    let mut command = if transport == Transport::Stdio { Command::new(program) } else { tied(program) };
    let mut server = Server::start(
        command
            .args(["exec-server", "--listen", listen])
            .args(more)
            .env("CODEX_HOME", &state)
            .env("XDG_STATE_HOME", &state)
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null()),
    )?;
    let mut reached = None;
    let name = match transport {
        Transport::Stdio => name("stdio"),
        Transport::WebSocket => name("ws"),
    };
    let wire = match transport {
        Transport::Stdio => Wire::lines(server.stdin()?, server.stdout()?),
        Transport::WebSocket => {
            let address = address(&mut server)?;
            reached = Some(address.clone());
            Wire::WebSocket(WebSocket::connect(&WebSocketAddress {
                address,
                path: "/",
                token: None,
                acknowledges: true,
            })?)
        }
    };
    let server = Rc::new(server.ends_with_stdin());
    Ok(JsonPeer::new(
        Codex {
            name,
            directory: directory.to_owned(),
            is_confined: false,
            ending: HashMap::new(),
            address: reached,
        },
        server,
        wire,
    ))
}

/// Starts `codex exec-server` and does the handshake.
pub(crate) fn start(
    home: &Path,
    directory: &Path,
    transport: Transport,
    concurrent: usize,
) -> Result<JsonPeer<Codex>> {
    let mut peer =
        spawn(home, directory, transport, concurrent).context("Codex did not start: run bench/setup.sh")?;
    peer.greet()?;
    Ok(peer)
}

impl JsonPeer<Codex> {
    /// From now on commands run under a profile that reads everything and writes in the directory, without a network.
    pub(crate) fn confine(mut self) -> Self {
        self.dialect.is_confined = true;
        self.dialect.name += " workspace-write";
        self
    }

    /// Performs the exec-server handshake.
    pub(crate) fn greet(&mut self) -> Result<()> {
        self.call("initialize", &json!({"clientName": "rexd-bench"}))?;
        self.send_raw(json!({"method": "initialized"}).to_string())
    }
}

/// The line of `codex --version`.
pub(crate) fn version(home: &Path) -> Result<String> {
    let state = home.join("codex-home");
    std::fs::create_dir_all(&state)?;
    let output = Command::new(program(home)?).arg("--version").env("CODEX_HOME", state).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn program(home: &Path) -> Result<PathBuf> {
    let packages = home.join(NATIVE);
    let entries =
        std::fs::read_dir(&packages).with_context(|| format!("no Codex in {}", packages.display()))?;
    for entry in entries.flatten() {
        let Ok(targets) = std::fs::read_dir(entry.path().join("vendor")) else { continue };
        for target in targets.flatten() {
            let program = target.path().join("bin/codex");
            if program.is_file() {
                return Ok(program);
            }
        }
    }
    bail!("no native codex under {}", packages.display())
}

/// The address that the server prints when it is ready.
fn address(server: &mut Server) -> Result<String> {
    let mut lines = BufReader::new(server.stdout()?);
    let mut line = String::new();
    lines.read_line(&mut line)?;
    // The pipe stays open until the server has ended: it may print more.
    std::thread::spawn(move || drop(std::io::copy(&mut lines, &mut std::io::sink())));
    line.trim().strip_prefix("ws://").map(str::to_owned).context("Codex printed no address")
}

impl Dialect for Codex {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn openings(&self) -> &'static [&'static str] {
        &["\"chunk\":\"", "\"dataBase64\":\""]
    }

    fn request(&self, id: u64, method: &str, params: &Value) -> String {
        json!({"id": id, "method": method, "params": params}).to_string()
    }

    fn start(&self, number: u64, argv: &[&str], streams: StdioKind) -> (&'static str, Value) {
        let mut params = json!({
            "processId": number.to_string(), "argv": argv, "cwd": uri(&self.directory), "env": {},
            "tty": streams == StdioKind::Terminal, "pipeStdin": false, "arg0": null,
        });
        if self.is_confined {
            params["sandbox"] = self.sandbox();
        }
        ("process/start", params)
    }

    fn started(&self, number: u64, _answer: &Value) -> Option<String> {
        Some(number.to_string())
    }

    fn terminal(&self, number: u64, _answer: &Value) -> Option<String> {
        Some(number.to_string())
    }

    fn meaning(&mut self, message: &Value) -> Meaning {
        let params = &message["params"];
        let process = || params["processId"].as_str().unwrap_or_default().to_owned();
        match message["method"].as_str() {
            None => message["id"].as_u64().map_or(Meaning::Other, |id| Meaning::Answer { id }),
            Some("process/output") => Meaning::Output { process: process(), base64: true },
            Some("process/exited") => self.half_ended(process(), Some(params["exitCode"].as_i64())),
            Some("process/closed") => self.half_ended(process(), None),
            Some(_) => Meaning::Other,
        }
    }

    fn read(&self, path: &Path, _offset: u64) -> (&'static str, Value) {
        ("fs/readFile", json!({"path": uri(path)}))
    }

    fn content(&self, _answer: &Value) -> (bool, bool) {
        (true, false)
    }

    fn write(&self, id: u64, path: &Path) -> [String; 2] {
        let path = json!(uri(path));
        let front = format!(r#"{{"id":{id},"method":"fs/writeFile","params":{{"path":{path},"dataBase64":""#);
        [front, r#""}}"#.to_owned()]
    }

    fn key(&self, terminal: &str, byte: u8) -> (&'static str, Value) {
        static WRITES: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let write = WRITES.fetch_add(1, std::sync::atomic::Ordering::Relaxed).to_string();
        ("process/write", json!({"processId": terminal, "chunk": json::encode(&[byte]), "writeId": write}))
    }

    fn kill(&self, process: &str) -> (&'static str, Value) {
        ("process/terminate", json!({"processId": process}))
    }

    fn close(&self, terminal: &str) -> (&'static str, Value) {
        ("process/terminate", json!({"processId": terminal}))
    }
}

fn uri(path: &Path) -> String {
    format!("file://{}", path.display())
}
