//! Events: written in batches, read from a cursor.

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sqlx::Row as _;
use sqlx::any::AnyRow;
use wire::hub::v1::kind;

use super::{READ_RETRIES, Store, StoreError};
use crate::runs::{EventRejected, HostEvent, event_frame};

/// Events of one host to store.
#[derive(Debug)]
pub struct EventBatch {
    /// The authenticated host.
    pub host_id: String,
    /// Its events in the order of arrival.
    pub events: Vec<HostEvent>,
}

/// The outcome of one batch.
#[derive(Debug, Default)]
pub struct WrittenBatch {
    /// The runs of the batch.
    pub runs: Vec<RunProgress>,
    /// Rejected events.
    pub rejected: Vec<RejectedEvent>,
}

/// An event that was not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedEvent {
    /// The run that it names.
    pub run_id: String,
    /// Its type.
    pub kind: String,
    /// Why it was not stored.
    pub error: EventRejected,
}

/// How far the events of a run are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunProgress {
    /// The run of the batch.
    pub run_id: String,
    /// The last event before the first gap, before the batch.
    pub before: i64,
    /// The last event before the first gap.
    pub last_seq: i64,
    /// The last event.
    pub highest_seq: i64,
}

/// One event as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// The number of the row; increases with time.
    pub id: i64,
    /// The number in its run.
    pub seq: i64,
    /// When the host made it.
    pub ts: String,
    /// Its type.
    pub kind: String,
    /// `stdout` or `stderr` of output.
    pub stream: Option<String>,
    /// Who caused it.
    pub actor: Option<String>,
    /// The id of an input.
    pub input_id: Option<String>,
    /// The id of a request.
    pub request_id: Option<String>,
    /// Output or redacted input.
    pub text: Option<String>,
    /// The other members of the data as JSON, or all of them.
    pub data: Option<String>,
}

impl Store {
    /// Events of a run with a number over `after` and up to `to`, in order. Repeated if only the connection failed.
    pub async fn events_after(
        &self,
        run: &str,
        range: (i64, i64),
        limit: i64,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let mut delays = READ_RETRIES.iter();
        loop {
            match self.read_events(run, range, limit).await {
                Err(error) if error.is_transient() => match delays.next() {
                    Some(delay) => tokio::time::sleep(*delay).await,
                    None => return Err(error),
                },
                read => return read,
            }
        }
    }

    async fn read_events(
        &self,
        run: &str,
        (after, to): (i64, i64),
        limit: i64,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let rows = sqlx::query(
            "SELECT * FROM events WHERE run_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4",
        )
        .bind(run)
        .bind(after)
        .bind(to)
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        rows.iter().map(event).collect()
    }

    /// The last events of a run before the one in this row, in the order of the run; without output if `with_output` is
    /// false. Events that only repeat the state of the run are left out.
    pub async fn messages(
        &self,
        run: &str,
        before: Option<i64>,
        with_output: bool,
        limit: i64,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let hidden = if with_output { "" } else { kind::RUN_OUTPUT };
        let before = match before {
            None => i64::MAX,
            Some(row) => sqlx::query_scalar("SELECT seq FROM events WHERE id = $1 AND run_id = $2")
                .bind(row)
                .bind(run)
                .fetch_optional(&self.read)
                .await?
                .unwrap_or(i64::MAX),
        };
        let rows = sqlx::query(
            "SELECT * FROM events WHERE run_id = $1 AND seq < $2 AND type <> $3 AND type <> $4 ORDER BY seq DESC LIMIT $5",
        )
        .bind(run)
        .bind(before)
        .bind(kind::RUN_AWAITING_INPUT)
        .bind(hidden)
        .bind(limit)
        .fetch_all(&self.read)
        .await?;
        rows.iter().rev().map(event).collect()
    }
}

fn event(row: &AnyRow) -> Result<StoredEvent, StoreError> {
    Ok(StoredEvent {
        id: row.try_get("id")?,
        seq: row.try_get("seq")?,
        ts: row.try_get("ts")?,
        kind: row.try_get("type")?,
        stream: row.try_get("stream")?,
        actor: row.try_get("actor")?,
        input_id: row.try_get("input_id")?,
        request_id: row.try_get("request_id")?,
        text: row.try_get("text")?,
        data: row.try_get("data")?,
    })
}

impl StoredEvent {
    /// The data as the host sent it; members may be in another order.
    pub fn full_data(&self) -> Option<Value> {
        let data: Option<Value> = self.data.as_deref().and_then(|data| serde_json::from_str(data).ok());
        if self.kind != kind::RUN_OUTPUT {
            return data;
        }
        let mut members = match data {
            Some(Value::Object(members)) => members,
            _ => Map::new(),
        };
        if let (Some(text), false) = (&self.text, members.contains_key("text")) {
            members.insert("text".to_owned(), text.clone().into());
            members.extend(self.stream.clone().map(|stream| ("stream".to_owned(), stream.into())));
        }
        Some(Value::Object(members))
    }

    /// The message for apps about this event.
    pub fn frame(&self, host_id: &str, run_id: &str) -> Bytes {
        let data = match self.kind.as_str() {
            kind::RUN_OUTPUT => self.full_data().map(|data| data.to_string()),
            _ => self.data.clone(),
        };
        let data = data.and_then(|data| RawValue::from_string(data).ok());
        event_frame(&self.kind, &self.ts, host_id, (run_id, self.seq), data.as_deref())
    }
}
