//! The directories of a tree: created before the files, with their modes set when everything is in them.

use tokio::task::JoinSet;

use super::CopyRun;
use super::endpoint::FileKind;
use super::error::{CopyError, ErrorScope};
use super::names;
use super::plan::{ExistingFiles, PlannedDirectory};
use super::tree::MAX_CONCURRENT_CHANGES;

/// The permissions that a copy needs in a directory.
const OWNER: u32 = 0o700;

impl CopyRun<'_> {
    /// Finds the modes that the listings do not contain, if the target can set them. A link in the place of a directory stays,
    /// and so does the mode of the directory that it names.
    pub(super) async fn find_modes(
        &self,
        directories: &mut [PlannedDirectory],
        existing: &ExistingFiles,
    ) -> Result<(), CopyError> {
        let is_link = |directory: &PlannedDirectory| {
            existing.get(&directory.below).is_some_and(|found| found.kind == FileKind::Link)
        };
        let may_set =
            |directory: &PlannedDirectory| self.job.target.has_directory_modes() && !is_link(directory);
        for directory in directories.iter_mut().filter(|directory| !may_set(directory)) {
            directory.mode = None;
        }
        let mut looking = JoinSet::new();
        let is_unknown = |directory: &PlannedDirectory| directory.mode.is_none() && may_set(directory);
        let unknown = directories.iter().enumerate().filter(|(_, directory)| is_unknown(directory));
        let mut unknown = unknown.map(|(index, directory)| (index, directory.from.clone()));
        let mut found = Vec::new();
        loop {
            while looking.len() < MAX_CONCURRENT_CHANGES
                && let Some((index, path)) = unknown.next()
            {
                let source = self.job.source.clone();
                looking.spawn(async move { (index, source.follow(&path).await) });
            }
            let Some(looked) = looking.join_next().await else { break };
            match looked? {
                (index, Ok(meta)) => {
                    found.push((index, meta.and_then(|(_, meta)| meta.attributes.mode)));
                }
                // Its files report the same error.
                (_, Err(error)) if error.scope != ErrorScope::Copy => {}
                (_, Err(error)) => return Err(error),
            }
        }
        for (index, mode) in found {
            if let Some(directory) = directories.get_mut(index) {
                directory.mode = mode;
            }
        }
        Ok(())
    }

    /// Creates the missing directories, and makes those writable that will not be.
    pub(super) async fn make_directories(
        &self,
        all: &[PlannedDirectory],
        to: &str,
        existing: &ExistingFiles,
    ) -> Result<(), CopyError> {
        let needed =
            |directory: &&PlannedDirectory| !exists(directory, existing) || directory.is_restricted();
        self.make(
            all.iter().filter(needed).map(|directory| {
                (names::join(to, &directory.below), directory.mode.map(|mode| mode | OWNER))
            }),
        )
        .await
    }

    /// Sets the modes that the directories do not have yet, children before their parents.
    pub(super) async fn finish_directories(
        &self,
        all: &[PlannedDirectory],
        to: &str,
        existing: &ExistingFiles,
    ) -> Result<(), CopyError> {
        let path = |directory: &PlannedDirectory| names::join(to, &directory.below);
        let changed = |directory: &&PlannedDirectory| {
            directory.mode.is_some() && !directory.is_restricted() && exists(directory, existing)
        };
        self.make(all.iter().filter(changed).map(|directory| (path(directory), directory.mode))).await?;
        for directory in all.iter().rev().filter(|directory| directory.is_restricted()) {
            self.count(self.job.target.mkdir(&path(directory), directory.mode).await)?;
        }
        Ok(())
    }

    async fn make(&self, all: impl Iterator<Item = (String, Option<u32>)>) -> Result<(), CopyError> {
        let mut making = JoinSet::new();
        for (path, mode) in all {
            while making.len() >= MAX_CONCURRENT_CHANGES
                && let Some(made) = making.join_next().await
            {
                self.count(made?)?;
            }
            let target = self.job.target.clone();
            making.spawn(async move { target.mkdir(&path, mode).await });
        }
        while let Some(made) = making.join_next().await {
            self.count(made?)?;
        }
        Ok(())
    }
}

impl PlannedDirectory {
    /// Whether its owner cannot write to it, so that its mode is set last.
    fn is_restricted(&self) -> bool {
        self.mode.is_some_and(|mode| mode & OWNER != OWNER)
    }
}

fn exists(directory: &PlannedDirectory, existing: &ExistingFiles) -> bool {
    existing.get(&directory.below).is_some_and(|found| found.kind == FileKind::Dir)
}
