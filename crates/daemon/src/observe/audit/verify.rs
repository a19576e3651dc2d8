//! Verification: proves that no line of an audit file was changed, removed, inserted or moved.
//!
//! Lines cut off at the end leave a chain that is whole but shorter: only somebody who noted the last hash
//! elsewhere can tell. That is what `rexd audit verify` prints it for. Whoever can write the file can also write
//! a whole new chain; the same note reveals that.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use super::chain::{self, Hash};

/// What a file that holds together contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainSummary {
    /// Lines of the chain.
    pub records: u64,
    /// How often bytes that were no record had to be accounted for.
    pub recovered: u64,
    /// Bytes after the last record that the next writer will account for: the torn line of a crash.
    pub torn_bytes: u64,
    /// The hash of the last line: note it elsewhere to be able to tell that lines were cut off after it.
    pub last_hash: String,
}

/// Where a file does not hold together.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// It cannot be read.
    #[error("{}", engine::error::errno_text(.0))]
    Unreadable(#[from] io::Error),
    /// A line is not what was written.
    #[error("line {line}: {reason}")]
    Broken {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Checks every line of a file.
pub fn verify(path: &Path) -> Result<ChainSummary, VerifyError> {
    let scan = scan(path)?;
    match scan.broken {
        Some((line, reason)) => Err(VerifyError::Broken { line, reason }),
        None => Ok(ChainSummary {
            records: scan.records,
            recovered: scan.recovered,
            torn_bytes: scan.unaccounted_bytes,
            last_hash: scan.last.as_str().to_owned(),
        }),
    }
}

/// `rexd audit verify`: prints the result and returns the status to exit with.
pub fn verify_command(path: &Path, out: &mut dyn Write) -> io::Result<u8> {
    match verify(path) {
        Ok(summary) => {
            writeln!(out, "{}: ok, {} records", path.display(), summary.records)?;
            if summary.recovered > 0 {
                writeln!(out, "recovered {} times from a writer that was interrupted", summary.recovered)?;
            }
            if summary.torn_bytes > 0 {
                writeln!(out, "the last {} bytes are an interrupted write", summary.torn_bytes)?;
            }
            writeln!(out, "last hash {}", summary.last_hash)?;
            writeln!(out, "note this hash elsewhere: only with it can a cut-off end be told")?;
            Ok(0)
        }
        Err(error) => {
            writeln!(out, "{}: {error}", path.display())?;
            Ok(1)
        }
    }
}

/// What one pass over a file found. Goes on after a break, so that a writer can go on too.
pub(super) struct Scan {
    /// The hash of the last record.
    pub(super) last: Hash,
    /// How many bytes after it are no record.
    pub(super) unaccounted_bytes: u64,
    /// Their hash.
    pub(super) unaccounted_hash: Hash,
    records: u64,
    recovered: u64,
    broken: Option<(u64, &'static str)>,
}

/// Reads a file from its start.
pub(super) fn scan(path: &Path) -> io::Result<Scan> {
    let mut reader = BufReader::with_capacity(256 * 1024, File::open(path)?);
    let mut scanner = Scanner::default();
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let complete = line.ends_with(b"\n");
        scanner.line(line.strip_suffix(b"\n").unwrap_or(&line), complete);
        line.clear();
    }
    Ok(scanner.finish())
}

/// One pass over a file.
struct Scanner {
    number: u64,
    last: Hash,
    records: u64,
    recovered: u64,
    broken: Option<(u64, &'static str)>,
    /// Bytes since the last record, their lines joined, and the line they start at.
    unaccounted: Vec<u8>,
    first_unaccounted: Option<u64>,
    /// Whether these bytes are one line without its end: what a crash leaves.
    torn: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Self {
            number: 0,
            last: Hash::START,
            records: 0,
            recovered: 0,
            broken: None,
            unaccounted: Vec::new(),
            first_unaccounted: None,
            torn: false,
        }
    }
}

impl Scanner {
    fn line(&mut self, line: &[u8], complete: bool) {
        self.number += 1;
        match chain::links(line) {
            Some(links) => self.record(line, links),
            None => {
                self.torn = !complete && self.first_unaccounted.is_none();
                if self.first_unaccounted.is_some() {
                    self.unaccounted.push(b'\n');
                }
                self.first_unaccounted.get_or_insert(self.number);
                self.unaccounted.extend_from_slice(line);
            }
        }
    }

    fn record(&mut self, line: &[u8], links: chain::ChainLinks) {
        match self.first_unaccounted.take() {
            None if links.prev == self.last => {}
            None => self.breaks(self.number, "it does not follow the line before it"),
            Some(_) if links.prev == self.last && accounts_for(line, &self.unaccounted) => {
                self.recovered += 1
            }
            Some(first) => self.breaks(first, "it is not what was written"),
        }
        self.unaccounted.clear();
        self.records += 1;
        self.last = links.hash;
    }

    fn breaks(&mut self, line: u64, reason: &'static str) {
        self.broken.get_or_insert((line, reason));
    }

    fn finish(mut self) -> Scan {
        if let (Some(first), false) = (self.first_unaccounted, self.torn) {
            self.breaks(first, "it is not what was written");
        }
        Scan {
            last: self.last,
            unaccounted_bytes: self.unaccounted.len() as u64,
            unaccounted_hash: Hash::of(&[&self.unaccounted]),
            records: self.records,
            recovered: self.recovered,
            broken: self.broken,
        }
    }
}

/// Whether a line is the account of exactly these bytes.
fn accounts_for(line: &[u8], bytes: &[u8]) -> bool {
    let Ok(line) = serde_json::from_slice::<serde_json::Value>(line) else { return false };
    let account = &line["recovered"];
    account["bytes"] == bytes.len() && account["sha256"] == Hash::of(&[bytes]).as_str()
}
