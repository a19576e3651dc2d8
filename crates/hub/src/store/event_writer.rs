//! Writes events: batches of many runs in one transaction, with the states of their runs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;

use serde_json::{Map, Value};
use sqlx::{AssertSqlSafe, Row as _};
use wire::hub::v1::{RunLost, kind};

use super::statements::{AnyQuery, filled, insertion};
use super::{
    AnyTransaction, Dialect, EventBatch, RejectedEvent, RunProgress, Store, StoreError, WrittenBatch,
    approvals, counters, runs,
};
use crate::runs::{EventRejected, HostEvent, Run, RunStatus, clean};

/// Events beyond the first gap of a run; one further ahead is rejected.
const MAX_AHEAD: i64 = 100_000;
const EVENT_COLUMNS: [&str; 11] =
    ["run_id", "seq", "ts", "type", "stream", "actor", "input_id", "request_id", "text", "data", "stored_ms"];

/// A run during the transaction.
struct OpenRun {
    run: Run,
    before: i64,
    /// Stored and new events beyond the first gap: the last number of each and the first.
    beyond: BTreeMap<i64, i64>,
    /// The new events as (batch, index).
    new: Vec<(usize, usize)>,
    /// Whether only the counters were read, and are to be written.
    has_only_counters: bool,
}

impl Store {
    /// Stores batches of events and the states of their runs in one transaction. Repeats change nothing.
    pub async fn write_events(
        &self,
        batches: &[EventBatch],
        now_ms: i64,
    ) -> Result<Vec<WrittenBatch>, StoreError> {
        let mut transaction = self.begin().await?;
        let mut open = self.open_runs(&mut transaction, batches, now_ms).await?;
        let mut written: Vec<WrittenBatch> = batches.iter().map(|_| WrittenBatch::default()).collect();
        sort_out(batches, &mut open, &mut written);
        let (mut new, mut changes, mut released) = (Vec::new(), Vec::new(), Vec::new());
        for entry in open.values_mut().filter(|entry| !entry.new.is_empty()) {
            let run = &mut entry.run;
            let mut has_waited = run.pending.is_some();
            entry.new.sort_by_key(|(batch, index)| batches[*batch].events[*index].seq);
            for (batch, index) in &entry.new {
                let event = &batches[*batch].events[*index];
                let caused = run.apply(event, now_ms).into_iter();
                changes.extend(caused.map(|change| (run.id.clone(), run.host_id.clone(), change)));
                has_waited |= run.pending.is_some();
                new.push(event);
            }
            run.last_seq = contiguous(run.last_seq, &entry.beyond);
            if has_waited && run.status == RunStatus::Running {
                released.push(run.id.clone());
            }
        }
        let entries = open.values().filter(|entry| !entry.new.is_empty());
        let (counted, changed): (Vec<&OpenRun>, Vec<&OpenRun>) =
            entries.partition(|entry| entry.has_only_counters);
        insert_events((&mut transaction, self.dialect), &new, now_ms).await?;
        runs::upsert((&mut transaction, self.dialect), &in_order(changed)).await?;
        counters::update((&mut transaction, self.dialect), &in_order(counted), now_ms).await?;
        for (run, host, change) in changes {
            approvals::apply(&mut transaction, (&run, &host), change, now_ms).await?;
        }
        for run in released {
            approvals::await_oldest(&mut transaction, &run).await?;
        }
        transaction.commit().await?;
        self.has_new_events.store(true, Ordering::Relaxed);
        for (batch, outcome) in batches.iter().zip(&mut written) {
            outcome.runs = progress(batch, &open);
        }
        Ok(written)
    }

    /// Loads the runs of the batches, and creates those that do not exist for the host that sends their first event.
    async fn open_runs(
        &self,
        transaction: &mut AnyTransaction<'_>,
        batches: &[EventBatch],
        now_ms: i64,
    ) -> Result<HashMap<String, OpenRun>, StoreError> {
        let (mut wanted, mut changing): (BTreeMap<&str, &str>, HashSet<&str>) = Default::default();
        for batch in batches {
            for event in &batch.events {
                wanted.entry(&event.run_id).or_insert(&batch.host_id);
                if !counters::only_counts(event) {
                    changing.insert(&event.run_id);
                }
            }
        }
        let ids: Vec<&str> = wanted.keys().copied().collect();
        let mut open = match self.dialect {
            // Rows are locked in one order, so they are read together.
            Dialect::Postgres => self.load_runs(transaction, &ids, changing.is_empty()).await?,
            Dialect::Sqlite => {
                let (changing, counted): (Vec<&str>, Vec<&str>) =
                    ids.iter().partition(|id| changing.contains(*id));
                let mut open = self.load_runs(transaction, &changing, false).await?;
                open.extend(self.load_runs(transaction, &counted, true).await?);
                open
            }
        };
        let missing: Vec<&str> = ids.into_iter().filter(|id| !open.contains_key(*id)).collect();
        if !missing.is_empty() {
            let new: Vec<Run> = missing.iter().map(|id| Run::new(id, wanted[id], now_ms)).collect();
            runs::insert((&mut *transaction, self.dialect), &new.iter().collect::<Vec<_>>(), "DO NOTHING")
                .await?;
            // Another node may have created one of them for another host.
            open.extend(self.load_runs(transaction, &missing, false).await?);
        }
        for entry in open.values_mut().filter(|entry| entry.run.highest_seq > entry.run.last_seq) {
            entry.beyond = beyond(transaction, &entry.run).await?;
        }
        Ok(open)
    }

    async fn load_runs(
        &self,
        transaction: &mut AnyTransaction<'_>,
        ids: &[&str],
        has_only_counters: bool,
    ) -> Result<HashMap<String, OpenRun>, StoreError> {
        let database = (transaction, self.dialect);
        let runs = match has_only_counters {
            true => counters::load(database, ids).await?,
            false => runs::load(database, ids).await?,
        };
        let open = runs.into_iter().map(|run| {
            let (before, beyond, new) = (run.last_seq, BTreeMap::new(), Vec::new());
            (run.id.clone(), OpenRun { run, before, beyond, new, has_only_counters })
        });
        Ok(open.collect())
    }
}

/// Decides for each event whether it is new, a repeat or rejected.
fn sort_out(batches: &[EventBatch], open: &mut HashMap<String, OpenRun>, written: &mut [WrittenBatch]) {
    for (number, (batch, outcome)) in batches.iter().zip(written).enumerate() {
        for (index, event) in batch.events.iter().enumerate() {
            let Some(entry) = open.get_mut(&event.run_id) else { continue };
            let mut reject = |error| {
                let (run_id, kind) = (event.run_id.clone(), event.kind.clone());
                outcome.rejected.push(RejectedEvent { run_id, kind, error });
            };
            if entry.run.host_id != batch.host_id {
                reject(EventRejected::NotYourRun);
            } else if event.first_seq > entry.run.last_seq + MAX_AHEAD {
                reject(EventRejected::TooFarAhead(MAX_AHEAD));
            } else if event.seq > entry.run.last_seq && !entry.beyond.contains_key(&event.seq) {
                entry.beyond.insert(event.seq, event.first_seq);
                entry.new.push((number, index));
            }
        }
    }
}

/// The runs in one order on all nodes, so that two transactions cannot wait for each other.
fn in_order(entries: Vec<&OpenRun>) -> Vec<&Run> {
    let mut runs: Vec<&Run> = entries.into_iter().map(|entry| &entry.run).collect();
    runs.sort_by(|one, two| one.id.cmp(&two.id));
    runs
}

/// The last number before the first gap.
fn contiguous(last: i64, beyond: &BTreeMap<i64, i64>) -> i64 {
    // Not only up to the first gap: a `run.lost` that comes later may fill it.
    beyond.iter().fold(last, |last, (seq, first)| if *first <= last + 1 { last.max(*seq) } else { last })
}

fn progress(batch: &EventBatch, open: &HashMap<String, OpenRun>) -> Vec<RunProgress> {
    let (mut runs, mut seen) = (Vec::new(), HashSet::new());
    for event in &batch.events {
        let Some(entry) = open.get(&event.run_id).filter(|entry| entry.run.host_id == batch.host_id) else {
            continue;
        };
        if seen.insert(event.run_id.as_str()) {
            let (run_id, before) = (event.run_id.clone(), entry.before);
            let (last_seq, highest_seq) = (entry.run.last_seq, entry.run.highest_seq);
            runs.push(RunProgress { run_id, before, last_seq, highest_seq });
        }
    }
    runs
}

/// The stored events beyond the first gap of a run.
async fn beyond(transaction: &mut AnyTransaction<'_>, run: &Run) -> Result<BTreeMap<i64, i64>, StoreError> {
    let rows = sqlx::query("SELECT seq, type, CASE WHEN type = $1 THEN data END AS lost FROM events WHERE run_id = $2 AND seq > $3")
        .bind(kind::RUN_LOST)
        .bind(&run.id)
        .bind(run.last_seq)
        .fetch_all(&mut **transaction)
        .await?;
    let mut beyond = BTreeMap::new();
    for row in rows {
        let (seq, lost): (i64, Option<String>) = (row.try_get("seq")?, row.try_get("lost")?);
        let first =
            lost.and_then(|lost| serde_json::from_str::<RunLost>(&lost).ok()).map(|lost| lost.first_seq);
        beyond.insert(seq, first.unwrap_or(seq));
    }
    Ok(beyond)
}

async fn insert_events(
    (transaction, dialect): (&mut AnyTransaction<'_>, Dialect),
    new: &[&HostEvent],
    now_ms: i64,
) -> Result<(), StoreError> {
    for chunk in filled(new) {
        let sql = insertion(dialect, "events", &EVENT_COLUMNS, chunk.size, "DO NOTHING");
        let query = sqlx::query(AssertSqlSafe(sql));
        chunk
            .iter()
            .fold(query, |query, event| bind_event(query, event, now_ms))
            .execute(&mut **transaction)
            .await?;
    }
    Ok(())
}

fn bind_event<'q>(query: AnyQuery<'q>, event: &HostEvent, now_ms: i64) -> AnyQuery<'q> {
    let column = |name: &str| event.fields.get(name).and_then(Value::as_str).map(clean);
    let raw = || event.data.as_deref().map(|data| data.get().to_owned());
    let (text, data) = match event.kind.as_str() {
        kind::RUN_OUTPUT => output_columns(event),
        kind::RUN_INPUT => (column("text_redacted"), raw()),
        _ => (None, raw()),
    };
    query
        .bind(event.run_id.clone())
        .bind(event.seq)
        .bind(event.ts.clone())
        .bind(clean(&event.kind))
        .bind(column("stream"))
        .bind(column("actor"))
        .bind(column("input_id"))
        .bind(column("request_id"))
        .bind(text)
        .bind(data)
        .bind(now_ms)
}

/// Output is stored once: in `text`. The other members, if there are any, are in `data`.
fn output_columns(event: &HostEvent) -> (Option<String>, Option<String>) {
    match event.fields.get("text").and_then(Value::as_str) {
        Some(text) if !text.contains('\0') => {
            let others: Map<String, Value> = event
                .fields
                .iter()
                .filter(|(name, _)| !matches!(name.as_str(), "text" | "stream"))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            (Some(text.to_owned()), (!others.is_empty()).then(|| Value::Object(others).to_string()))
        }
        text => (text.map(clean), event.data.as_deref().map(|data| data.get().to_owned())),
    }
}
