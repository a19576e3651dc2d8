//! `rex runs watch`: prints the output of a run until it ends.

use client::hub::v1::{Envelope, RunAwaitingInput, RunExited, RunLost, RunOutput, kind};
use client::hub::{HubConnection, RunEvent, RunEvents};
use client::stdio::{self, Output};
use tokio::io::AsyncWriteExt as _;

use super::find;
use crate::args::RunWatchArgs;
use crate::failure::{CommandStatus, Failure};
use crate::hub::selection::SelectedHub;
use crate::output;

pub(super) async fn run(
    hub: &SelectedHub,
    json: bool,
    args: &RunWatchArgs,
) -> Result<CommandStatus, Failure> {
    let run = find(hub, &args.id).await?;
    let connection = HubConnection::open(hub.client.clone()).await?;
    let mut events = RunEvents::subscribe(connection, &run.id, args.after).await?;
    let since = args.since.and_then(|age| jiff::Timestamp::now().checked_sub(age).ok());
    let mut screen = RunOutputPrinter {
        stdout: stdio::output(rustix::stdio::stdout())?,
        stderr: stdio::output(rustix::stdio::stderr())?,
        json,
        since,
        is_incomplete: false,
    };
    loop {
        match events.next().await? {
            RunEvent::Missing { first, last } => {
                screen.is_incomplete = true;
                output::note(format_args!(
                    "output is incomplete: the hub no longer has the events {first} to {last}"
                ));
            }
            RunEvent::Event(event) => {
                if let Some(exit) = screen.show(&event).await? {
                    return screen.status(&exit);
                }
            }
        }
    }
}

/// Where the output of a run is written.
struct RunOutputPrinter {
    stdout: Output,
    stderr: Output,
    json: bool,
    /// Output before this time is skipped.
    since: Option<jiff::Timestamp>,
    /// Whether some output is lost.
    is_incomplete: bool,
}

impl RunOutputPrinter {
    /// Prints one event; returns the exit if it is one.
    async fn show(&mut self, event: &Envelope) -> Result<Option<RunExited>, Failure> {
        let invalid = |error: serde_json::Error| {
            Failure::new(format!("protocol error: invalid event {}: {error}", event.kind))
        };
        if self.is_skipped(event) {
            return Ok(None);
        }
        if self.json {
            output::json_line(event)?;
        }
        match event.kind.as_str() {
            kind::RUN_OUTPUT if !self.json => self.write(&event.decode().map_err(invalid)?).await?,
            kind::RUN_LOST => {
                let lost: RunLost = event.decode().map_err(invalid)?;
                self.is_incomplete = true;
                output::note(format_args!("output is incomplete: the host dropped {} bytes", lost.bytes));
            }
            kind::RUN_AWAITING_INPUT if !self.json => {
                let waiting: RunAwaitingInput = event.decode().map_err(invalid)?;
                let prompt = waiting.prompt.unwrap_or_default();
                output::note(format_args!("the run waits for input: {}", crate::escape::line(&prompt)));
            }
            kind::RUN_EXITED => return event.decode().map(Some).map_err(invalid),
            _ => {}
        }
        Ok(None)
    }

    fn is_skipped(&self, event: &Envelope) -> bool {
        let made_at = event.ts.as_deref().and_then(|ts| ts.parse::<jiff::Timestamp>().ok());
        let is_old = self.since.is_some_and(|since| made_at.is_some_and(|at| at < since));
        is_old && event.kind != kind::RUN_EXITED
    }

    async fn write(&mut self, chunk: &RunOutput) -> Result<(), Failure> {
        let exact = match &chunk.base64 {
            Some(text) => Some(client::decode_base64(text).map_err(|error| {
                Failure::new(format!("protocol error: invalid output of the run: {error}"))
            })?),
            None => None,
        };
        let bytes = exact.as_deref().unwrap_or(chunk.text.as_bytes());
        let stream = if chunk.stream == "stderr" { &mut self.stderr } else { &mut self.stdout };
        stream.write_all(bytes).await.map_err(output::write_error)
    }

    /// The exit status of the run. With status 0 a caller relies on complete output, so lost output is a failure.
    fn status(&self, exit: &RunExited) -> Result<CommandStatus, Failure> {
        match (u8::try_from(exit.exit_code).unwrap_or(255), self.is_incomplete) {
            (0, true) => {
                Err(Failure::new("output is incomplete: the run succeeded, but some of its output is lost"))
            }
            (status, _) => Ok(CommandStatus(status)),
        }
    }
}
