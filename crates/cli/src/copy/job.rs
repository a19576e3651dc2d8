//! Job: one copy from end to end: a file or a tree, many files at once, each until it is there or cannot be.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::end::{End, Kind, Meta};
use super::large::{Large, PIECE};
use super::names;
use super::plan::{Entry, Known};
use super::tally::Tally;
use super::wrong::{Weight, Wrong};

/// Files on their way at the same time.
const FILES_AT_ONCE: usize = 128;
/// Kibibytes of files on their way at the same time.
const BUDGET: u32 = 32 * 1024;
/// What a large file counts as: its pieces, read and written.
const MOST_COST: u32 = 12 * 1024;
/// What an empty file counts as.
const LEAST_COST: u32 = 4;
/// How often a file is tried that the link, or somebody else, gets in the way of.
const TRIES: usize = 4;

/// A file and what came of it.
type Done = (Entry, Result<(), Wrong>);

/// One copy.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) source: End,
    pub(super) target: End,
    pub(super) verify: bool,
    pub(super) tally: Arc<Tally>,
}

impl Job {
    /// Copies the files of a tree. What cannot be copied is told and counted; an error means that nothing goes on.
    pub(super) async fn files(
        self: &Arc<Job>,
        files: Vec<Entry>,
        top: &str,
        known: &Known,
    ) -> Result<(), Wrong> {
        let budget = Arc::new(Semaphore::new(BUDGET as usize));
        let mut running = JoinSet::new();
        for file in files {
            while running.len() >= FILES_AT_ONCE {
                self.count(running.join_next().await)?;
            }
            let cost = u32::try_from(file.size / 1024).unwrap_or(MOST_COST).clamp(LEAST_COST, MOST_COST);
            let room = loop {
                tokio::select! {
                    biased;
                    done = running.join_next(), if !running.is_empty() => self.count(done)?,
                    room = budget.clone().acquire_many_owned(cost) => break room.ok(),
                }
            };
            let found = known.get(&file.below).copied();
            let (job, to) = (self.clone(), names::join(top, &file.below));
            running.spawn(async move {
                let done = job.file(&file, &to, found).await;
                drop(room);
                (file, done)
            });
        }
        while let Some(done) = running.join_next().await {
            self.count(Some(done))?;
        }
        Ok(())
    }

    fn count(&self, done: Option<Result<Done, tokio::task::JoinError>>) -> Result<(), Wrong> {
        match done.transpose()? {
            Some((_, Err(wrong))) if wrong.weight == Weight::All => Err(wrong),
            Some((file, Err(wrong))) => {
                self.tally.failed(&wrong.about("copy", &file.from));
                Ok(())
            }
            Some((_, Ok(()))) | None => Ok(()),
        }
    }

    /// Copies one file, unless it is there already; `found` is what is there.
    pub(super) async fn file(&self, file: &Entry, to: &str, found: Option<Meta>) -> Result<(), Wrong> {
        let mut found = found;
        for _ in 1..TRIES {
            match self.try_file(file, to, found).await {
                Err(wrong) if wrong.weight == Weight::Try => {
                    // It may have arrived all the same.
                    found = match self.target.stat(to).await {
                        Err(wrong) if wrong.weight == Weight::Try => None,
                        looked => looked?,
                    };
                }
                done => return done,
            }
        }
        self.try_file(file, to, found).await
    }

    async fn try_file(&self, file: &Entry, to: &str, found: Option<Meta>) -> Result<(), Wrong> {
        let is_like_it = |found: Meta| found.kind == Kind::File && found.size == file.size;
        if found.is_some_and(|found| found.kind == Kind::Dir) {
            return Err(Wrong::file(format!("cannot write {to}: it is a directory")));
        }
        if found.is_some_and(is_like_it) && self.is_same(file, to).await? {
            self.tally.passed(file.size);
            self.tally.skipped();
            return Ok(());
        }
        match file.size <= PIECE.min(self.source.most_read()) {
            true => self.small(file, to).await?,
            false => self.large(file, to).await?,
        }
        self.tally.copied(file.size);
        Ok(())
    }

    /// Whether what is there is the same already. Its mode is made the same too.
    async fn is_same(&self, file: &Entry, to: &str) -> Result<bool, Wrong> {
        let ((one, mode), (other, mode_there)) =
            tokio::try_join!(self.source.hash(&file.from), self.target.hash(to))?;
        if one != other {
            return Ok(false);
        }
        if let Some(mode) = mode.filter(|mode| Some(*mode) != mode_there) {
            self.target.set_mode(to, mode).await?;
        }
        Ok(true)
    }

    async fn small(&self, file: &Entry, to: &str) -> Result<(), Wrong> {
        let (bytes, meta) = self.source.read_whole(&file.from, file.size).await?;
        self.target.put(to, &bytes, meta.mode).await?;
        self.tally.passed(file.size);
        Ok(())
    }

    async fn large(&self, file: &Entry, to: &str) -> Result<(), Wrong> {
        let mode = match file.mode {
            Some(mode) => Some(mode),
            None => self.source.stat(&file.from).await?.and_then(|found| found.mode),
        };
        let (from, to) = (file.from.clone(), to.to_owned());
        let large = Large { from, to, size: file.size, mode, verify: self.verify };
        large.copy(&self.source, &self.target, &self.tally).await
    }
}
