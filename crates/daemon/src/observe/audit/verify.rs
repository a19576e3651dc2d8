//! `rexd audit verify`: checks that no line of an audit file was changed, removed, inserted or moved.
//!
//! Removing lines at the end leaves a valid but shorter chain, and a user who can write the file can write a new chain.
//! Both are visible only by comparison with a last hash that was stored elsewhere, so the command prints that hash.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use super::chain::{self, Hash};

/// The contents of a file with a valid chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainSummary {
    /// The number of lines in the chain.
    pub records: u64,
    /// The number of lines that account for bytes that are not records.
    pub recovered: u64,
    /// Bytes after the last record, such as the incomplete line of a crash. The next writer accounts for them.
    pub torn_bytes: u64,
    /// The hash of the last line. Stored elsewhere, it later proves that no lines after it were removed.
    pub last_hash: String,
}

/// Why a file is not a valid chain.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The file cannot be read.
    #[error("{}", engine::error::errno_text(.0))]
    Unreadable(#[from] io::Error),
    /// A line is not part of the chain.
    #[error("line {line}: {reason}")]
    Broken {
        /// The number of the line, from 1.
        line: u64,
        /// Why it is not part of the chain.
        reason: &'static str,
    },
}

/// Checks the chain of a file.
pub fn verify(path: &Path) -> Result<ChainSummary, VerifyError> {
    let scan = scan(path)?;
    match scan.broken {
        Some((line, reason)) => Err(VerifyError::Broken { line, reason }),
        None => Ok(ChainSummary {
            records: scan.records,
            recovered: scan.recovered,
            torn_bytes: scan.unaccounted.len() as u64,
            last_hash: scan.last.as_str().to_owned(),
        }),
    }
}

/// Runs `rexd audit verify`: prints the result and returns the exit status.
pub fn verify_command(path: &Path, out: &mut dyn Write) -> io::Result<u8> {
    match verify(path) {
        Ok(summary) => {
            writeln!(out, "{}: ok, {} records", path.display(), summary.records)?;
            if summary.recovered > 0 {
                writeln!(out, "recovered {} times from an interrupted write", summary.recovered)?;
            }
            if summary.torn_bytes > 0 {
                writeln!(out, "the last {} bytes are an incomplete write", summary.torn_bytes)?;
            }
            writeln!(out, "last hash {}", summary.last_hash)?;
            writeln!(
                out,
                "hint: store this hash elsewhere; it is the only way to detect lines removed from the end"
            )?;
            Ok(0)
        }
        Err(error) => {
            writeln!(out, "{}: {error}", path.display())?;
            Ok(1)
        }
    }
}

/// What was read of a file. Reading continues after an invalid line, so that a writer can append to the file.
#[derive(Default)]
pub(super) struct Scan {
    /// The hash of the last record.
    pub(super) last: Hash,
    /// The bytes after it that are not a record.
    pub(super) unaccounted: Vec<u8>,
    /// The line at which they start.
    first_unaccounted: Option<u64>,
    /// Whether they are one line without a line end, as a crash leaves it.
    torn: bool,
    lines: u64,
    records: u64,
    recovered: u64,
    broken: Option<(u64, &'static str)>,
}

/// Reads a file from the start.
pub(super) fn scan(path: &Path) -> io::Result<Scan> {
    let mut reader = BufReader::with_capacity(256 * 1024, File::open(path)?);
    let mut scan = Scan::default();
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let complete = line.ends_with(b"\n");
        scan.line(line.strip_suffix(b"\n").unwrap_or(&line), complete);
        line.clear();
    }
    if let (Some(first), false) = (scan.first_unaccounted, scan.torn) {
        scan.set_broken(first, "not a record that rexd wrote");
    }
    Ok(scan)
}

impl Scan {
    fn line(&mut self, line: &[u8], complete: bool) {
        self.lines += 1;
        match chain::links(line) {
            Some(links) => self.record(line, links),
            None => {
                self.torn = !complete && self.first_unaccounted.is_none();
                if self.first_unaccounted.is_some() {
                    self.unaccounted.push(b'\n');
                }
                self.first_unaccounted.get_or_insert(self.lines);
                self.unaccounted.extend_from_slice(line);
            }
        }
    }

    fn record(&mut self, line: &[u8], links: chain::ChainLinks) {
        match self.first_unaccounted.take() {
            None if links.prev == self.last => {}
            None => self.set_broken(self.lines, "not the successor of the line before"),
            Some(_) if links.prev == self.last && accounts_for(line, &self.unaccounted) => {
                self.recovered += 1
            }
            Some(first) => self.set_broken(first, "not a record that rexd wrote"),
        }
        self.unaccounted.clear();
        self.records += 1;
        self.last = links.hash;
    }

    fn set_broken(&mut self, line: u64, reason: &'static str) {
        self.broken.get_or_insert((line, reason));
    }
}

/// Whether a line accounts for exactly these bytes.
fn accounts_for(line: &[u8], bytes: &[u8]) -> bool {
    let Ok(line) = serde_json::from_slice::<serde_json::Value>(line) else { return false };
    let account = &line["recovered"];
    account["bytes"] == bytes.len() && account["sha256"] == Hash::of(&[bytes]).as_str()
}
