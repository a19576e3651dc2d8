//! SWE-ReX's server from PyPI over keep-alive HTTP, without its own client, which is slower.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::http::Http;
use super::json::Splitter;
use super::{Commands, Files, Sink};
use crate::stats::within;
use crate::watchdog::{Server, tied};

/// The server accepts any token.
const TOKEN: &str = "rexd-bench";
const CREDENTIALS: &str = "X-API-Key: rexd-bench";

/// A client of this peer.
#[derive(Debug)]
pub(crate) struct Swerex {
    /// The process behind the port.
    pub(crate) server: Server,
    port: u16,
    http: Http,
    splitter: Splitter,
}

impl Swerex {
    /// Starts the server and waits until it answers.
    pub(crate) fn start(home: &Path) -> Result<Self> {
        let program = home.join("venv/bin/swerex-remote");
        ensure!(program.exists(), "no {}: run bench/setup.sh", program.display());
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let server = Server::start(
            tied(program)
                .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--auth-token", TOKEN])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        )?;
        let mut connection = None;
        within(Duration::from_secs(30), || {
            connection = Http::connect(port, CREDENTIALS).ok();
            connection.is_some()
        });
        let mut http = connection.context("SWE-ReX did not listen in 30 s")?;
        http.get("/is_alive")?;
        Ok(Self { server, port, http, splitter: Splitter::new(&["\"stdout\":\"", "\"content\":\""]) })
    }
}

fn execute(argv: &[&str]) -> String {
    json!({"command": argv, "shell": false}).to_string()
}

impl Commands for Swerex {
    fn name(&self) -> String {
        "swe-rex".to_owned()
    }

    fn run(&mut self, argv: &[&str], out: Sink<'_>) -> Result<i64> {
        let split = self.splitter.split(self.http.post("/execute", &execute(argv))?)?;
        out(split.payload.context("no stdout in the answer")?)?;
        split.rest["exit_code"].as_i64().context("no exit code")
    }

    fn burst(&mut self, argv: &[&str], total: usize, flight: usize) -> Result<usize> {
        let body = execute(argv);
        let connections: Result<Vec<Http>> =
            (0..flight).map(|_| Http::connect(self.port, CREDENTIALS)).collect();
        let mut connections = connections?;
        let mut wrong = 0;
        for connection in connections.iter_mut().take(total) {
            connection.send("POST", "/execute", &body)?;
        }
        // The server handles one request at a time; each connection sends its next request after its response.
        for number in 0..total {
            let connection = connections.get_mut(number % flight).context("no connection")?;
            let split = self.splitter.split(connection.body()?)?;
            wrong += usize::from(split.rest["exit_code"] != 0);
            if number + flight < total {
                connection.send("POST", "/execute", &body)?;
            }
        }
        Ok(wrong)
    }
}

impl Files for Swerex {
    fn name(&self) -> String {
        "swe-rex".to_owned()
    }

    fn read(&mut self, path: &Path, out: Sink<'_>) -> Result<()> {
        let body = json!({"path": path}).to_string();
        let split = self.splitter.split(self.http.post("/read_file", &body)?)?;
        out(split.payload.context("no content in the answer")?)
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        let body = json!({"path": path, "content": std::str::from_utf8(content)?}).to_string();
        self.http.post("/write_file", &body).map(drop)
    }
}

/// The version of the installed server.
pub(crate) fn version(home: &Path) -> Result<String> {
    let output = Command::new(home.join("venv/bin/swerex-remote"))
        .arg("--version")
        .output()
        .context("no SWE-ReX: run bench/setup.sh")?;
    Ok(format!("swe-rex {}", String::from_utf8_lossy(&output.stdout).trim()))
}
