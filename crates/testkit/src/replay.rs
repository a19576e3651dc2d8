//! ReplayTransport: the transport of a transcript over the sockets of a daemon.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::carrier::Carrier as _;
use crate::client::AnyClient;
use crate::serve::{CarrierKind, ServedDaemon};
use crate::transcript::Transport;

/// The deadline of a response after the end of the transcript.
const LAST_ANSWERS: Duration = Duration::from_secs(60);

/// One client's conversation with its own daemon.
#[derive(Debug)]
pub struct ReplayTransport {
    served: ServedDaemon,
    client: AnyClient,
    /// Lines received while waiting for the last responses.
    early: VecDeque<String>,
    /// Requests without a response.
    open: usize,
    /// Whether the last line is complete.
    is_line_whole: bool,
}

impl ReplayTransport {
    /// Connects to a daemon with this carrier.
    pub fn new(served: ServedDaemon, way: CarrierKind) -> ReplayTransport {
        let client = served.client(way);
        ReplayTransport { served, client, early: VecDeque::new(), open: 0, is_line_whole: true }
    }

    fn next_line(&mut self, within: Duration) -> Result<Option<String>> {
        let line = self.client.line_within(within)?;
        if let Some(line) = &line {
            self.open = self.open.saturating_sub(count(line, |message| !message["id"].is_null()));
        }
        Ok(line)
    }
}

impl Transport for ReplayTransport {
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let is_request = |message: &Value| {
            let is_answer = message.get("result").is_some() || message.get("error").is_some();
            !is_answer && matches!(message["id"], Value::Number(_) | Value::String(_))
        };
        if let Ok((header, _payload)) = wire::binary::split(&bytes::Bytes::copy_from_slice(bytes)) {
            self.open += count(&String::from_utf8_lossy(&header), is_request);
            return self.client.carrier.send(bytes).with_context(|| self.client.log());
        }
        self.is_line_whole = bytes.ends_with(b"\n");
        for line in String::from_utf8_lossy(bytes).lines() {
            self.open += count(line, is_request);
        }
        self.client.carrier.send(bytes).with_context(|| self.client.log())
    }

    fn recv_line(&mut self, within: Duration) -> Result<Option<String>> {
        match self.early.pop_front() {
            Some(line) => Ok(Some(line)),
            None => self.next_line(within),
        }
    }

    fn close(&mut self) -> Result<()> {
        if !self.client.carrier.answers_after_the_end() {
            if !self.is_line_whole {
                self.client.carrier.send(b"\n")?;
            }
            while self.open > 0 {
                let line = self.next_line(LAST_ANSWERS)?.context("the end came before the answers")?;
                self.early.push_back(line);
            }
        }
        Ok(self.client.carrier.finish()?)
    }

    fn exit_code(&mut self) -> Result<i32> {
        let status = self.served.stop();
        let log = self.served.log.text();
        ensure!(!log.contains("panicked"), "{log}");
        status.code().with_context(|| format!("{status}; the log: {log}"))
    }
}

/// The number of matching messages in a line or a batch.
fn count(line: &str, fits: impl Fn(&Value) -> bool) -> usize {
    match serde_json::from_str(line.trim()) {
        Ok(Value::Array(messages)) => messages.iter().filter(|message| fits(message)).count(),
        Ok(message) => usize::from(fits(&message)),
        Err(_no_json) => 0,
    }
}
