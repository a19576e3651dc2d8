//! The task that sends spans in batches, retries after a failure, and sends the rest when the daemon stops.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::RETRY_AFTER;
use link::dial::{self, DialError, Request};
use link::task::OwnedTask;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::otlp;
use super::settings::TraceSettings;
use super::span::FinishedSpan;
use crate::observe::metrics::{Metrics, QueueGauge};

/// The maximal number of spans in one request to the collector.
const MAX_BATCH: usize = 512;
/// The maximal size of a response of the collector.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;
/// The maximal pause between two attempts, even if the collector's `Retry-After` is longer.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// A handle to the exporter task.
#[derive(Debug)]
pub struct ExporterHandle {
    task: OwnedTask<()>,
    ending: Arc<Shutdown>,
    shutdown: Duration,
    _watched: QueueGauge,
}

impl ExporterHandle {
    pub(super) fn spawn(exporter: Exporter, watched: QueueGauge) -> ExporterHandle {
        let (ending, shutdown) = (exporter.ending.clone(), exporter.settings.timing.shutdown);
        ExporterHandle { task: OwnedTask::spawn(exporter.run()), ending, shutdown, _watched: watched }
    }

    /// Sends the remaining spans, within [`super::ExportTiming::shutdown`], and waits for the task.
    pub async fn finish(self) {
        self.ending.deadline.get_or_init(|| Instant::now() + self.shutdown);
        self.ending.stop.cancel();
        // The task ends by that deadline.
        if let Err(error) = self.task.join().await {
            tracing::warn!(%error, "the exporter of spans panicked");
        }
    }
}

/// The reason for spans that are dropped because there is no time left.
const STOPPING: &str = "the daemon is stopping";

/// The request to stop, shared by the handle and the task.
#[derive(Debug, Default)]
struct Shutdown {
    stop: CancellationToken,
    /// The end of the time for the last batches; set before `stop`.
    deadline: OnceLock<Instant>,
}

impl Shutdown {
    /// Waits until the time for the last batches is over.
    async fn wait_for_deadline(&self) {
        self.stop.cancelled().await;
        if let Some(deadline) = self.deadline.get() {
            sleep_until(*deadline).await;
        }
    }
}

/// The state of the exporter task.
#[derive(Debug)]
pub(super) struct Exporter {
    settings: TraceSettings,
    metrics: Metrics,
    queued: mpsc::Receiver<FinishedSpan>,
    ending: Arc<Shutdown>,
    /// Whether the last batch was dropped: an unreachable collector is logged once.
    is_failing: bool,
}

/// The result of one attempt.
enum ExportResult {
    /// The collector accepted all but this many spans.
    Accepted(u64),
    /// The attempt failed; a retry can succeed, after the given pause if there is one.
    Retry(Option<Duration>, String),
    /// The batch is invalid or there is no time for a retry.
    Drop(String),
}

impl Exporter {
    pub(super) fn new(
        settings: TraceSettings,
        metrics: Metrics,
        queued: mpsc::Receiver<FinishedSpan>,
    ) -> Exporter {
        Exporter { settings, metrics, queued, ending: Arc::default(), is_failing: false }
    }

    async fn run(mut self) {
        let ending = self.ending.clone();
        let mut batch = Vec::new();
        loop {
            let is_open = tokio::select! {
                biased;
                () = ending.stop.cancelled() => false,
                is_open = self.collect_batch(&mut batch) => is_open,
            };
            if !is_open {
                break;
            }
            self.send(&mut batch).await;
        }
        self.send_rest(batch).await;
    }

    /// Waits for a span, then until the batch is full or due. If this future is dropped, `batch` keeps the spans.
    async fn collect_batch(&mut self, batch: &mut Vec<FinishedSpan>) -> bool {
        if batch.is_empty() && self.queued.recv_many(batch, MAX_BATCH).await == 0 {
            return false;
        }
        let until = Instant::now() + self.settings.timing.batch_delay;
        while batch.len() < MAX_BATCH {
            let capacity = MAX_BATCH - batch.len();
            match timeout_at(until, self.queued.recv_many(batch, capacity)).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        true
    }

    /// Sends a batch, with retries. When the daemon stops, an attempt in progress continues, because the collector may
    /// already have the batch, and no retry follows.
    async fn send(&mut self, batch: &mut Vec<FinishedSpan>) {
        let body = self.body(batch);
        let ending = self.ending.clone();
        let mut pause = self.settings.timing.initial_backoff;
        for attempt in 1..=self.settings.timing.attempts {
            let result = tokio::select! {
                result = self.attempt(&body) => result,
                () = ending.wait_for_deadline() => ExportResult::Drop(STOPPING.to_owned()),
            };
            let (requested, reason) = match result {
                ExportResult::Accepted(rejected) => return self.count_accepted(batch, rejected),
                ExportResult::Retry(requested, reason) if attempt < self.settings.timing.attempts => {
                    (requested, reason)
                }
                ExportResult::Retry(_, reason) | ExportResult::Drop(reason) => {
                    return self.drop_batch(batch, &reason);
                }
            };
            tracing::debug!(%reason, attempt, "the collector did not accept spans; retrying");
            tokio::select! {
                () = sleep(requested.unwrap_or(pause).min(MAX_PAUSE)) => {}
                // `send_rest` makes the last attempt.
                () = ending.stop.cancelled() => return,
            }
            pause = pause.saturating_mul(2).min(MAX_PAUSE);
        }
    }

    /// Sends the remaining batches once each until the deadline, and counts the rest as dropped.
    async fn send_rest(mut self, mut batch: Vec<FinishedSpan>) {
        let until = *self.ending.deadline.get_or_init(|| Instant::now() + self.settings.timing.shutdown);
        self.queued.close();
        loop {
            while batch.len() < MAX_BATCH
                && let Ok(span) = self.queued.try_recv()
            {
                batch.push(span);
            }
            if batch.is_empty() {
                return;
            }
            let body = self.body(&batch);
            match timeout_at(until, self.attempt(&body)).await {
                Ok(ExportResult::Accepted(rejected)) => self.count_accepted(&mut batch, rejected),
                Ok(ExportResult::Retry(_, reason) | ExportResult::Drop(reason)) => {
                    self.drop_batch(&mut batch, &reason)
                }
                Err(_late) => self.drop_batch(&mut batch, STOPPING),
            }
        }
    }

    async fn attempt(&self, body: &Bytes) -> ExportResult {
        let failed = |error: DialError| ExportResult::Retry(None, error.to_string());
        self.post(body.clone()).await.unwrap_or_else(failed)
    }

    /// Sends one request on a new connection.
    async fn post(&self, body: Bytes) -> Result<ExportResult, DialError> {
        let mut request = Request::new(Method::POST, self.settings.endpoint.as_str());
        request.body = body;
        request.headers = self.settings.headers.clone();
        request.timeout = Some(self.settings.timing.request_timeout);
        let response = dial::http(request).await?;
        let retry_after =
            response.headers.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
        Ok(match response.status.as_u16() {
            200..300 => ExportResult::Accepted(rejected(&response.bytes(MAX_RESPONSE_BYTES).await?)),
            status @ (429 | 502 | 503 | 504) => {
                ExportResult::Retry(retry_after.map(Duration::from_secs), format!("status {status}"))
            }
            status => ExportResult::Drop(format!("status {status}")),
        })
    }

    fn count_accepted(&mut self, batch: &mut Vec<FinishedSpan>, rejected: u64) {
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("the collector accepts spans again");
        }
        let rejected = rejected.min(batch.len() as u64);
        if rejected > 0 {
            tracing::warn!(rejected, "the collector rejected spans");
        }
        self.metrics.spans_dropped(rejected);
        self.metrics.spans_exported(batch.len() as u64 - rejected);
        batch.clear();
    }

    fn drop_batch(&mut self, batch: &mut Vec<FinishedSpan>, reason: &str) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(%reason, "the collector does not accept spans; they are dropped");
        }
        self.metrics.spans_dropped(batch.len() as u64);
        batch.clear();
    }

    fn body(&self, batch: &[FinishedSpan]) -> Bytes {
        otlp::request(&self.settings.resource, batch).to_string().into()
    }
}

/// The number of spans that the collector rejected of a batch that it accepted.
fn rejected(body: &[u8]) -> u64 {
    let response: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let rejected = &response["partialSuccess"]["rejectedSpans"];
    // OTLP's JSON form has 64-bit integers as strings, but some collectors send numbers.
    rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or_default()
}
