//! The journal of a run: its events get their numbers here, on disk, before they are first sent.
//!
//! One file per run with one JSON object per line. The first line is the state at the last compaction; events, remembered
//! inputs and acknowledgements are appended, and after a failed write the whole state again. Output is not copied: its line
//! has the stream and the range of cursors in the log of the process. A line that a crash has cut is removed when the file
//! is opened. All functions block.

mod events;
mod lines;

use std::collections::{HashSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

pub use events::{EventContent, NewEvent, StoredContent, StoredEvent};
use lines::{JournalLine, JournalState};
pub use lines::{OutputRange, PromptChange, RunRecord, StoredPrompt};

/// Events of one run that are not acknowledged; beyond it the oldest are dropped and reported as lost.
pub const MAX_EVENTS: usize = 65_536;
/// The length of one line; a longer one was not written by this program.
const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;
/// Acknowledged bytes at the start of a file from which on it is compacted.
const COMPACT_BYTES: u64 = 256 * 1024;
/// Acknowledged events after which the acknowledgement is written down.
const ACK_EVERY: i64 = 64;
/// A connecting hub may have so many more events than the file, which has lost its end; with more, its number is wrong.
const MAX_AHEAD: i64 = 1_000_000;
/// Numbers from here on are not taken over from a hub: every JSON parser has to read the ones behind them exactly.
const MAX_SEQ: i64 = 1 << 52;
/// Remembered ids of inputs per run; beyond it the oldest is forgotten.
const MAX_INPUTS: usize = 4_096;

/// Where the line of an event is, and how much output it stands for.
#[derive(Debug, Clone, Copy)]
struct IndexEntry {
    offset: u64,
    output_bytes: u64,
}

/// The journal of one run.
#[derive(Debug)]
pub struct RunJournal {
    path: PathBuf,
    /// `None` while the journal is closed: then it is opened for each access.
    file: Option<File>,
    /// The end of the last whole line.
    end: u64,
    /// The end of the first line.
    base_end: u64,
    state: JournalState,
    /// The events from `first` on.
    index: VecDeque<IndexEntry>,
    first: i64,
    inputs: HashSet<String>,
    max_bytes: u64,
    /// Whether the file lacks changes that a failed write had, so that its numbers do not continue. There are no events
    /// then, and the next line is the whole state.
    is_behind: bool,
}

impl RunJournal {
    /// The file of a run; `None` if the id cannot be a file name.
    pub fn file_of(dir: &Path, run_id: &str) -> Option<PathBuf> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_name = !run_id.is_empty() && run_id.len() <= 128 && run_id.bytes().all(is_plain);
        is_name.then(|| dir.join(format!("{run_id}.jsonl")))
    }

    /// Creates the journal of a new run.
    pub fn create(dir: &Path, record: RunRecord, max_bytes: u64) -> io::Result<RunJournal> {
        let path = RunJournal::file_of(dir, &record.run_id).ok_or(io::ErrorKind::InvalidInput)?;
        let state = JournalState::new(record);
        let file = options().create_new(true).open(&path)?;
        let mut journal = RunJournal::empty(path, file, state, max_bytes);
        let line = journal.base_line()?;
        let written = journal.with_file(|file| file.write_all_at(&line, 0).and_then(|()| file.sync_data()));
        if let Err(error) = written {
            // A part of the line is no journal. The error of the write is the one to report.
            let _removed = std::fs::remove_file(&journal.path);
            return Err(error);
        }
        (journal.base_end, journal.end) = (line.len() as u64, line.len() as u64);
        Ok(journal)
    }

    fn empty(path: PathBuf, file: File, state: JournalState, max_bytes: u64) -> RunJournal {
        let first = state.next;
        let inputs = state.inputs.iter().cloned().collect();
        RunJournal {
            path,
            file: Some(file),
            end: 0,
            base_end: 0,
            state,
            index: VecDeque::new(),
            first,
            inputs,
            max_bytes,
            is_behind: false,
        }
    }

    /// Opens the journal of an earlier daemon. A cut line and everything after it is removed.
    pub fn open(path: &Path, max_bytes: u64) -> io::Result<RunJournal> {
        let file = options().open(path)?;
        let text = std::fs::read(path)?;
        let mut lines = lines::split(&text);
        let invalid =
            || io::Error::new(io::ErrorKind::InvalidData, "the first line is not the state of a run");
        let (_, first, base_end) = lines.next().ok_or_else(invalid)?;
        let state = first.base.ok_or_else(invalid)?;
        let mut journal = RunJournal::empty(path.to_owned(), file, state, max_bytes);
        (journal.base_end, journal.end) = (base_end, base_end);
        for (offset, line, end) in lines {
            if !journal.replay(offset, line) {
                break;
            }
            journal.end = end;
        }
        if journal.end < text.len() as u64 {
            journal.with_file(|file| file.set_len(journal.end))?;
        }
        Ok(journal)
    }

    /// Closes the file until it is needed: there may be many runs that have ended and whose events no hub has yet.
    pub fn close(&mut self) {
        self.file = None;
    }

    fn with_file<T>(&self, access: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        match &self.file {
            Some(file) => access(file),
            None => access(&options().open(&self.path)?),
        }
    }

    /// Applies a line that was read; false if it cannot belong to this file.
    fn replay(&mut self, offset: u64, line: JournalLine) -> bool {
        if let Some(state) = line.base {
            self.inputs = state.inputs.iter().cloned().collect();
            self.index.clear();
            (self.first, self.state) = (state.next, state);
        }
        if let Some(input) = line.input {
            self.insert_input(input);
        }
        if let Some((hub, seq)) = line.ack {
            let known = self.state.acks.entry(hub).or_default();
            *known = seq.max(*known);
        }
        if let Some(next) = line.next {
            self.skip_to(next);
        }
        let Some(seq) = line.seq else { return true };
        if seq != self.state.next {
            return false;
        }
        self.note(offset, line.out);
        self.change(line.exit, line.prompt);
        true
    }

    /// The run that it describes.
    pub fn record(&self) -> &RunRecord {
        &self.state.record
    }

    /// The number of the first event that is still here.
    pub fn first(&self) -> i64 {
        self.first
    }

    /// The number of the last event; 0 if there is none.
    pub fn last(&self) -> i64 {
        self.state.next - 1
    }

    /// The cursor behind the output of all events.
    pub fn cursor(&self) -> u64 {
        self.state.cursor
    }

    /// The exit code, once the run has ended.
    pub fn ended(&self) -> Option<i64> {
        self.state.ended
    }

    /// The prompt that the run shows.
    pub fn prompt(&self) -> Option<&StoredPrompt> {
        self.state.prompt.as_ref()
    }

    /// Whether an input with this id took effect.
    pub fn has_input(&self, id: &str) -> bool {
        self.inputs.contains(id)
    }

    /// Bytes of output of events that were dropped before every hub had them.
    pub fn lost_bytes(&self) -> u64 {
        self.state.lost_bytes
    }

    /// The last event that a hub has, without a gap.
    pub fn acknowledged_by(&self, hub: &str) -> i64 {
        self.state.acks.get(hub).copied().unwrap_or(0)
    }

    /// Appends events with one write, and returns the number of the last one. Events that cannot be written are dropped, and
    /// count as lost.
    pub fn append(&mut self, ts: &str, events: Vec<NewEvent>) -> i64 {
        let (mut text, mut starts) = (Vec::new(), Vec::new());
        let is_encoded = (self.state.next..).zip(&events).all(|(seq, event)| {
            starts.push(text.len() as u64);
            encode(&event.line(seq, ts), &mut text)
        });
        let offset = if is_encoded { self.write(&text) } else { None };
        for (event, start) in events.into_iter().zip(starts) {
            let out = match event.content {
                EventContent::Data { .. } => None,
                EventContent::Output(range) => Some(range),
            };
            self.note(offset.map_or(self.end, |offset| offset + start), out);
            self.change(event.exit, event.prompt);
            if let Some(input) = event.input {
                self.insert_input(input);
            }
        }
        if offset.is_none() {
            self.drop_all();
        }
        if self.index.len() > MAX_EVENTS || self.end - self.base_end > self.max_bytes {
            self.drop_oldest(self.index.len() / 2);
            self.compact_or_clear();
        }
        self.last()
    }

    /// Appends an event unless one with this key was appended before, also by an earlier daemon. Keys are remembered like the
    /// ids of inputs.
    pub fn append_once(&mut self, key: &str, ts: &str, content: EventContent) {
        if !self.inputs.contains(key) {
            self.append(ts, vec![NewEvent { input: Some(key.to_owned()), ..content.into() }]);
        }
    }

    /// Applies what changes with an event.
    fn change(&mut self, exit: Option<i64>, prompt: Option<PromptChange>) {
        self.state.ended = exit.or(self.state.ended);
        match prompt {
            Some(PromptChange::Shown(prompt)) => self.state.prompt = Some(prompt),
            Some(PromptChange::Over) => self.state.prompt = None,
            None => {}
        }
    }

    fn note(&mut self, offset: u64, out: Option<OutputRange>) {
        let output_bytes = out.map_or(0, |range| range.to.saturating_sub(range.from));
        self.index.push_back(IndexEntry { offset, output_bytes });
        self.state.next += 1;
        if let Some(range) = out {
            self.state.cursor = self.state.cursor.max(range.to);
        }
    }

    /// Remembers the id of an input; false if it is known. An id that cannot be written is not remembered.
    pub fn remember_input(&mut self, id: &str) -> io::Result<bool> {
        if self.inputs.contains(id) {
            return Ok(false);
        }
        let line = JournalLine { input: Some(id.to_owned()), ..JournalLine::default() };
        self.write_line(&line).ok_or(io::ErrorKind::StorageFull)?;
        self.insert_input(id.to_owned());
        Ok(true)
    }

    fn insert_input(&mut self, id: String) {
        if self.inputs.insert(id.clone()) {
            self.state.inputs.push_back(id);
        }
        while self.state.inputs.len() > MAX_INPUTS
            && let Some(oldest) = self.state.inputs.pop_front()
        {
            self.inputs.remove(&oldest);
        }
    }

    /// A hub has every event up to `seq`. Events that all `hubs` have are dropped. Numbers that were never sent are ignored.
    pub fn acknowledge(&mut self, hub: &str, seq: i64, hubs: &[String]) {
        let (seq, known) = (seq.min(self.last()), self.acknowledged_by(hub));
        if seq <= known {
            return;
        }
        self.state.acks.insert(hub.to_owned(), seq);
        if seq == self.last() || seq / ACK_EVERY > known / ACK_EVERY {
            self.write_line(&JournalLine { ack: Some((hub.to_owned(), seq)), ..JournalLine::default() });
        }
        let everywhere = hubs.iter().map(|hub| self.acknowledged_by(hub)).min().unwrap_or(0);
        if everywhere < self.first {
            return;
        }
        while self.first <= everywhere && self.index.pop_front().is_some() {
            self.first += 1;
        }
        self.state.lost_bytes = 0;
        let dead = self.index.front().map_or(self.end, |entry| entry.offset) - self.base_end;
        if dead > COMPACT_BYTES || (self.index.is_empty() && self.state.ended.is_some()) {
            // A failed compaction is tried again with the next acknowledgement.
            if let Err(error) = self.compact() {
                tracing::debug!(%error, "cannot compact a journal");
            }
        }
    }

    /// A hub that connects has exactly the events up to `seq`, even if it had more before.
    pub fn set_acknowledged(&mut self, hub: &str, seq: i64, hubs: &[String]) {
        if seq >= MAX_SEQ || seq.saturating_sub(self.last()) > MAX_AHEAD {
            let (run, last) = (&self.state.record.run_id, self.last());
            tracing::error!(hub, run, seq, last, "ignored an acknowledgement of events that cannot exist");
            return;
        }
        if seq < self.acknowledged_by(hub) {
            self.state.acks.insert(hub.to_owned(), seq);
        }
        // A hub that has more than this file has lost nothing: the file has, and its numbers are taken.
        if seq > self.last() {
            let line = JournalLine { next: Some(seq + 1), ..JournalLine::default() };
            let is_written = self.write_line(&line).is_some();
            self.skip_to(seq + 1);
            self.is_behind |= !is_written;
        }
        self.acknowledge(hub, seq, hubs);
    }

    /// The numbers before `next` are taken by events that are not here.
    fn skip_to(&mut self, next: i64) {
        if next > self.state.next {
            self.index.clear();
            self.state.next = next;
            self.first = next;
        }
    }

    /// Reads events from `from` on, at most `count`.
    pub fn read(&self, from: i64, count: usize) -> io::Result<Vec<StoredEvent>> {
        let skip = usize::try_from(from - self.first).unwrap_or(usize::MAX);
        let wanted: Vec<u64> = self.index.iter().skip(skip).take(count).map(|entry| entry.offset).collect();
        let (Some(&start), Some(&last)) = (wanted.first(), wanted.last()) else { return Ok(Vec::new()) };
        let after = self.index.get(skip + wanted.len()).map_or(self.end, |entry| entry.offset);
        let mut text = vec![0; usize::try_from(after.max(last) - start).unwrap_or(0)];
        self.with_file(|file| file.read_exact_at(&mut text, start))?;
        let events = lines::split(&text).filter_map(|(_, line, _)| {
            let content = match line.out {
                Some(range) => StoredContent::Output(range),
                None => StoredContent::Data { kind: line.kind?, data: line.data },
            };
            Some(StoredEvent { seq: line.seq?, ts: line.ts.unwrap_or_default(), content })
        });
        Ok(events.take(count).collect())
    }

    fn write_line(&mut self, line: &JournalLine) -> Option<u64> {
        let mut text = Vec::new();
        if encode(line, &mut text) { self.write(&text) } else { None }
    }

    /// Appends lines; returns where they start, or `None` if the disk has no space even without the older events.
    fn write(&mut self, text: &[u8]) -> Option<u64> {
        for is_last_try in [false, true] {
            let written = self.missing_state().and_then(|mut lines| {
                let offset = self.end + lines.len() as u64;
                lines.extend_from_slice(text);
                self.with_file(|file| file.write_all_at(&lines, self.end))?;
                Ok(offset)
            });
            match written {
                Ok(offset) => {
                    self.end = offset + text.len() as u64;
                    self.is_behind = false;
                    return Some(offset);
                }
                Err(error) => {
                    tracing::warn!(%error, run = self.state.record.run_id, "cannot write to the journal");
                    // Without the part that was written, the next line can be read.
                    self.with_file(|file| file.set_len(self.end)).ok();
                    if !is_last_try {
                        self.drop_oldest(self.index.len().div_ceil(2));
                        self.compact_or_clear();
                    }
                }
            }
        }
        None
    }

    /// The line without which the next one does not continue the file.
    fn missing_state(&self) -> io::Result<Vec<u8>> {
        if self.is_behind { self.base_line() } else { Ok(Vec::new()) }
    }

    /// Drops every event, also those that the file lacks.
    fn drop_all(&mut self) {
        self.drop_oldest(self.index.len());
        self.is_behind = true;
    }

    /// Drops the oldest events before they are acknowledged.
    fn drop_oldest(&mut self, count: usize) {
        for entry in self.index.drain(..count.min(self.index.len())) {
            self.first += 1;
            self.state.lost_bytes += entry.output_bytes;
        }
    }

    /// Frees the space of dropped events; if there is no space for a new file, drops all events.
    fn compact_or_clear(&mut self) {
        if let Err(error) = self.compact() {
            tracing::warn!(%error, run = self.state.record.run_id, "dropping all events of a journal");
            self.drop_all();
            if self.with_file(|file| file.set_len(self.base_end)).is_ok() {
                self.end = self.base_end;
            }
        }
    }

    /// Replaces the file by one without the dropped events.
    fn compact(&mut self) -> io::Result<()> {
        let base = self.base_line()?;
        let start = self.index.front().map_or(self.end, |entry| entry.offset);
        let mut kept = vec![0; usize::try_from(self.end - start).unwrap_or(0)];
        self.with_file(|file| file.read_exact_at(&mut kept, start))?;
        let draft = self.path.with_extension("draft");
        let written = options().create(true).truncate(true).open(&draft).and_then(|file| {
            file.write_all_at(&base, 0)?;
            file.write_all_at(&kept, base.len() as u64)?;
            file.sync_data()?;
            std::fs::rename(&draft, &self.path)?;
            Ok(file)
        });
        if written.is_err() {
            // The error of the write is the one to report.
            let _removed = std::fs::remove_file(&draft);
        }
        let written = written?;
        self.file = self.file.take().map(|_| written);
        self.is_behind = false;
        self.base_end = base.len() as u64;
        for entry in &mut self.index {
            entry.offset = entry.offset - start + self.base_end;
        }
        self.end = self.base_end + kept.len() as u64;
        Ok(())
    }

    /// The first line: the state before the first event that is kept.
    fn base_line(&self) -> io::Result<Vec<u8>> {
        let base = JournalState { next: self.first, ..self.state.clone() };
        let mut line = serde_json::to_vec(&JournalLine { base: Some(base), ..JournalLine::default() })?;
        line.push(b'\n');
        Ok(line)
    }
}

/// Appends the text of a line; false if it is too long or cannot be encoded.
fn encode(line: &JournalLine, text: &mut Vec<u8>) -> bool {
    let start = text.len();
    if serde_json::to_writer(&mut *text, line).is_err() || text.len() - start >= MAX_LINE_BYTES {
        return false;
    }
    text.push(b'\n');
    true
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

#[cfg(test)]
mod tests;
