//! rexd over HTTP: requests by POST; the exit status by `exec.wait` or from the event stream.

use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::http::{Chunks, Http};
use super::{Commands, Sink};
use crate::watchdog::Server;

/// How a client receives the exit of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitSource {
    /// By a second request, `exec.wait`.
    Waited,
    /// By the event `exec.exit`, on a second connection that stays open.
    Heard,
}

/// A client of this peer.
#[derive(Debug)]
pub(crate) struct RexdHttp {
    _server: Rc<Server>,
    http: Http,
    session: String,
    events: Option<Chunks>,
}

impl RexdHttp {
    /// Opens a session, and its event stream if the mode needs it.
    pub(super) fn open(
        server: Rc<Server>,
        port: u16,
        credentials: &'static str,
        ending: ExitSource,
    ) -> Result<Self> {
        let mut http = Http::connect(port, credentials)?;
        let opened = call(&mut http, "session.open", &json!({"client_name": "rexd-bench"}))?;
        let session = opened["session_id"].as_str().context("no session_id")?.to_owned();
        let events = match ending {
            ExitSource::Waited => None,
            ExitSource::Heard => {
                let path = format!("/events?session_id={session}");
                Some(Http::connect(port, credentials)?.stream(&path)?)
            }
        };
        Ok(Self { _server: server, http, session, events })
    }
}

fn call(http: &mut Http, method: &str, params: &Value) -> Result<Value> {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let mut answer: Value = serde_json::from_slice(http.post("/rpc", &body)?)?;
    ensure!(answer["error"].is_null(), "refused: {}", answer["error"]);
    Ok(answer["result"].take())
}

impl Commands for RexdHttp {
    fn name(&self) -> String {
        let how = if self.events.is_some() { "start, events" } else { "start, wait" };
        format!("rexd http ({how})")
    }

    fn run(&mut self, argv: &[&str], _out: Sink<'_>) -> Result<i64> {
        let started = call(&mut self.http, "exec.start", &json!({"session_id": self.session, "argv": argv}))?;
        let process = &started["process_id"];
        let Some(events) = &mut self.events else {
            let params = json!({"session_id": self.session, "process_id": process});
            return call(&mut self.http, "exec.wait", &params)?["exit_code"].as_i64().context("no exit code");
        };
        loop {
            let piece = std::str::from_utf8(events.next()?)?;
            let Some(event) = piece.lines().find_map(|line| line.strip_prefix("data: ")) else { continue };
            let event: Value = serde_json::from_str(event)?;
            if event["method"] == "exec.exit" && event["params"]["process_id"] == *process {
                return event["params"]["exit_code"].as_i64().context("no exit code");
            }
        }
    }

    fn burst(&mut self, _argv: &[&str], _total: usize, _flight: usize) -> Result<usize> {
        bail!("one request at a time")
    }
}
