//! Export: the one task that sends spans, in batches, again after a failure, and a last time at the end.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::otlp;
use super::settings::TraceSettings;
use super::span::FinishedSpan;
use crate::observe::metrics::{Metrics, QueueGauge};

/// The most spans in one request to the collector; more go into the next.
const BATCH: usize = 512;
/// The longest pause between two attempts, whatever a collector asks for.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The running export.
#[derive(Debug)]
pub struct ExporterHandle {
    task: JoinHandle<()>,
    ending: Arc<Shutdown>,
    farewell: Duration,
    _watched: QueueGauge,
}

impl ExporterHandle {
    pub(super) fn spawn(exporter: Exporter, watched: QueueGauge) -> ExporterHandle {
        let (ending, farewell) = (exporter.ending.clone(), exporter.settings.pace.farewell);
        ExporterHandle { task: tokio::spawn(exporter.run()), ending, farewell, _watched: watched }
    }

    /// Sends what is left, for at most [`super::Pace::farewell`].
    pub async fn finish(self) {
        self.ending.until.get_or_init(|| Instant::now() + self.farewell);
        self.ending.stop.cancel();
        // The task keeps to that deadline wherever it waits. One that panicked has nothing left to send.
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the export of spans ended early");
        }
    }
}

/// The end of the daemon, as the task sees it.
#[derive(Debug, Default)]
struct Shutdown {
    stop: CancellationToken,
    /// When the time for last words is up; set before `stop`.
    until: OnceLock<Instant>,
}

impl Shutdown {
    /// Returns when no attempt may go on any more.
    async fn is_over(&self) {
        self.stop.cancelled().await;
        if let Some(until) = self.until.get() {
            sleep_until(*until).await;
        }
    }
}

/// What the task has.
#[derive(Debug)]
pub(super) struct Exporter {
    settings: TraceSettings,
    metrics: Metrics,
    waiting: mpsc::Receiver<FinishedSpan>,
    ending: Arc<Shutdown>,
    /// Whether the last batch was lost, so that a collector that is away is told of once.
    is_failing: bool,
}

/// What came of one attempt.
enum ExportResult {
    /// The collector took it, all but this many spans.
    Taken(u64),
    /// It may take it later; perhaps it said when.
    Later(Option<Duration>, String),
    /// It will never take this.
    Never(String),
}

impl Exporter {
    pub(super) fn new(
        settings: TraceSettings,
        metrics: Metrics,
        waiting: mpsc::Receiver<FinishedSpan>,
    ) -> Exporter {
        Exporter { settings, metrics, waiting, ending: Arc::default(), is_failing: false }
    }

    async fn run(mut self) {
        let ending = self.ending.clone();
        let mut batch = Vec::new();
        loop {
            let is_open = tokio::select! {
                biased;
                () = ending.stop.cancelled() => false,
                is_open = self.gather(&mut batch) => is_open,
            };
            if !is_open {
                break;
            }
            self.send(&mut batch).await;
        }
        self.part(batch).await;
    }

    /// Waits for a span, and then a little for others. `batch` keeps what came if this is dropped.
    async fn gather(&mut self, batch: &mut Vec<FinishedSpan>) -> bool {
        if batch.is_empty() && self.waiting.recv_many(batch, BATCH).await == 0 {
            return false;
        }
        let until = Instant::now() + self.settings.pace.gather;
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            match timeout_at(until, self.waiting.recv_many(batch, room)).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        true
    }

    /// Tries until the collector has it, or the batch is given up. At the end of the daemon an attempt under way goes
    /// on, because a collector that already has the batch would get it twice; no other is made.
    async fn send(&mut self, batch: &mut Vec<FinishedSpan>) {
        let body = self.body(batch);
        let ending = self.ending.clone();
        let mut pause = self.settings.pace.back_off;
        for attempt in 1..=self.settings.pace.attempts {
            let came = tokio::select! {
                came = self.attempt(&body) => came,
                () = ending.is_over() => ExportResult::Never("the daemon ends".to_owned()),
            };
            let (asked, why) = match came {
                ExportResult::Taken(rejected) => return self.taken(batch, rejected),
                ExportResult::Later(asked, why) if attempt < self.settings.pace.attempts => (asked, why),
                ExportResult::Later(_, why) | ExportResult::Never(why) => return self.give_up(batch, &why),
            };
            tracing::debug!(%why, attempt, "the collector did not take spans; they are sent again");
            tokio::select! {
                () = sleep(asked.unwrap_or(pause).min(LONGEST_PAUSE)) => {}
                // The last words are another attempt.
                () = ending.stop.cancelled() => return,
            }
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    /// The last words: everything that waits, tried once each, until the time is up. The rest is counted as dropped.
    async fn part(mut self, mut batch: Vec<FinishedSpan>) {
        let until = *self.ending.until.get_or_init(|| Instant::now() + self.settings.pace.farewell);
        self.waiting.close();
        loop {
            while batch.len() < BATCH
                && let Ok(span) = self.waiting.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            let body = self.body(&batch);
            match timeout_at(until, self.attempt(&body)).await {
                Ok(ExportResult::Taken(rejected)) => self.taken(&mut batch, rejected),
                Ok(ExportResult::Later(_, why) | ExportResult::Never(why)) => self.give_up(&mut batch, &why),
                Err(_late) => self.give_up(&mut batch, "the daemon ends"),
            }
        }
    }

    async fn attempt(&self, body: &[u8]) -> ExportResult {
        let posting = self.settings.endpoint.post(&self.settings.headers, body);
        match timeout(self.settings.pace.attempt, posting).await {
            Err(_late) => ExportResult::Later(None, "no answer in time".to_owned()),
            Ok(Err(error)) => ExportResult::Later(None, error.to_string()),
            Ok(Ok(answer)) => match answer.status {
                200..300 => ExportResult::Taken(rejected(&answer.body)),
                status @ (429 | 502 | 503 | 504) => {
                    ExportResult::Later(answer.retry_after, format!("status {status}"))
                }
                status => ExportResult::Never(format!("status {status}")),
            },
        }
    }

    fn taken(&mut self, batch: &mut Vec<FinishedSpan>, rejected: u64) {
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("the collector takes spans again");
        }
        let rejected = rejected.min(batch.len() as u64);
        if rejected > 0 {
            tracing::warn!(rejected, "the collector rejected spans");
        }
        self.metrics.spans_dropped(rejected);
        self.metrics.spans_exported(batch.len() as u64 - rejected);
        batch.clear();
    }

    fn give_up(&mut self, batch: &mut Vec<FinishedSpan>, why: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(%why, "spans are dropped: the collector does not take them");
        }
        self.metrics.spans_dropped(batch.len() as u64);
        batch.clear();
    }

    fn body(&self, batch: &[FinishedSpan]) -> Vec<u8> {
        otlp::request(&self.settings.resource, batch).to_string().into_bytes()
    }
}

/// A collector may take a batch and still reject some of it.
fn rejected(body: &[u8]) -> u64 {
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let rejected = &answer["partialSuccess"]["rejectedSpans"];
    // A 64-bit number is a text here, yet not every collector knows.
    rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or_default()
}
