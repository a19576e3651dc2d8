//! CopyJob: copies files concurrently, with retries.

use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::endpoint::{CopyEndpoint, FileKind, FileMeta};
use super::error::{CopyError, ErrorScope};
use super::large::{LargeCopy, PIECE};
use super::names;
use super::plan::{ExistingFiles, PlannedFile, PlannedLink};
use super::stats::CopyStats;

/// Files copied concurrently.
const MAX_FILES_IN_FLIGHT: usize = 128;
/// KiB of file contents in flight.
const BUDGET: u32 = 32 * 1024;
/// The cost of a large file in KiB: its chunks that are read and written ahead.
const MAX_COST: u32 = 12 * 1024;
/// The cost of an empty file in KiB.
const MIN_COST: u32 = 4;
/// Attempts per file. After an interrupted connection they are counted again from the first, if anything was copied.
const MAX_ATTEMPTS: usize = 4;

/// A file and the result of its copy.
type Done = (PlannedFile, Result<(), CopyError>);

/// The source, the target and the options of a copy.
#[derive(Debug)]
pub(super) struct CopyJob {
    pub(super) source: CopyEndpoint,
    pub(super) target: CopyEndpoint,
    pub(super) verify: bool,
    pub(super) stats: Arc<CopyStats>,
}

impl CopyJob {
    /// Copies the files of a tree. Errors of single files are reported and counted; a returned error ends the copy.
    pub(super) async fn files(
        self: &Arc<CopyJob>,
        files: Vec<PlannedFile>,
        top: &str,
        existing: &ExistingFiles,
    ) -> Result<(), CopyError> {
        let budget = Arc::new(Semaphore::new(BUDGET as usize));
        let mut running = JoinSet::new();
        for file in files {
            while running.len() >= MAX_FILES_IN_FLIGHT {
                self.count(running.join_next().await)?;
            }
            let cost = u32::try_from(file.size / 1024).unwrap_or(MAX_COST).clamp(MIN_COST, MAX_COST);
            let room = loop {
                tokio::select! {
                    biased;
                    done = running.join_next(), if !running.is_empty() => self.count(done)?,
                    room = budget.clone().acquire_many_owned(cost) => break room.ok(),
                }
            };
            let found = existing.get(&file.below).copied();
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

    fn count(&self, done: Option<Result<Done, tokio::task::JoinError>>) -> Result<(), CopyError> {
        match done.transpose()? {
            Some((_, Err(error))) if error.scope == ErrorScope::Copy => Err(error),
            Some((file, Err(error))) => {
                self.stats.failed(&error.about("copy", &file.from));
                Ok(())
            }
            Some((_, Ok(()))) | None => Ok(()),
        }
    }

    /// Copies one file unless it is identical at the target; `found` is the metadata there.
    pub(super) async fn file(
        &self,
        file: &PlannedFile,
        to: &str,
        found: Option<FileMeta>,
    ) -> Result<(), CopyError> {
        let (mut found, mut attempts) = (found, 0);
        loop {
            let before = self.stats.sent_bytes();
            let error = match self.try_file(file, to, found).await {
                Err(error) if error.scope.is_passing() => error,
                done => return done,
            };
            let has_progress = error.scope == ErrorScope::Connection && self.stats.sent_bytes() > before;
            attempts = if has_progress { 0 } else { attempts + 1 };
            if attempts == MAX_ATTEMPTS {
                return Err(error);
            }
            // The file may have arrived although the response was lost.
            found = match self.target.stat(to).await {
                Err(error) if error.scope.is_passing() => None,
                looked => looked?,
            };
        }
    }

    async fn try_file(&self, file: &PlannedFile, to: &str, found: Option<FileMeta>) -> Result<(), CopyError> {
        let is_like_it = |found: FileMeta| found.kind == FileKind::File && found.size == file.size;
        if found.is_some_and(|found| found.kind == FileKind::Dir) {
            return Err(CopyError::file(format!("cannot write {to}: it is a directory")));
        }
        if found.is_some_and(is_like_it) && self.is_same(file, to).await? {
            self.stats.passed(file.size);
            self.stats.skipped();
            return Ok(());
        }
        match file.size <= PIECE.min(self.source.max_read()) {
            true => self.small(file, to).await?,
            false => self.large(file, to).await?,
        }
        self.stats.copied(file.size);
        Ok(())
    }

    /// Whether the file at the target is identical; if so, its attributes are updated.
    async fn is_same(&self, file: &PlannedFile, to: &str) -> Result<bool, CopyError> {
        let ((one, wanted), (other, present)) =
            tokio::try_join!(self.source.hash(&file.from), self.target.hash(to))?;
        if one != other {
            return Ok(false);
        }
        if present.differ_from(wanted) {
            self.target.set_attributes(to, wanted).await?;
        }
        Ok(true)
    }

    /// Creates one symbolic link unless it exists; `found` is the metadata at the target.
    pub(super) async fn link(
        &self,
        link: &PlannedLink,
        to: &str,
        found: Option<FileMeta>,
    ) -> Result<(), CopyError> {
        let text = self.source.read_link(&link.from).await?;
        match found.map(|found| found.kind) {
            Some(FileKind::Dir) => {
                return Err(CopyError::file(format!("cannot write {to}: it is a directory")));
            }
            Some(FileKind::Link) if self.target.read_link(to).await? == text => {
                self.stats.skipped();
                return Ok(());
            }
            _ => {}
        }
        self.target.put_link(to, &text, found.is_some()).await?;
        self.stats.linked();
        Ok(())
    }

    async fn small(&self, file: &PlannedFile, to: &str) -> Result<(), CopyError> {
        let (bytes, meta) = self.source.read_whole(&file.from, file.size).await?;
        self.target.put(to, &bytes, meta.attributes).await?;
        self.stats.sent(file.size);
        Ok(())
    }

    async fn large(&self, file: &PlannedFile, to: &str) -> Result<(), CopyError> {
        let attributes = match file.attributes.mode {
            Some(_) => file.attributes,
            None => self.source.stat(&file.from).await?.map(|found| found.attributes).unwrap_or_default(),
        };
        let (from, to) = (file.from.clone(), to.to_owned());
        let large = LargeCopy { from, to, size: file.size, attributes, verify: self.verify };
        large.copy(&self.source, &self.target, &self.stats).await
    }
}
