//! Copies files and trees between this machine and targets; an interrupted copy can be resumed.
//!
//! | module | holds |
//! |---|---|
//! | `endpoint` | one end of a copy; `local_end` and `remote_end` implement it |
//! | `plan` | the contents of a tree, and the files that exist at the target |
//! | `job` | concurrent copies of files, with retries |
//! | `large` | a file in chunks, to a partial file that is renamed when it is complete |
//! | `names` | paths, and the names of partial files |
//! | `stats`, `progress` | counters and the progress line |
//!
//! Destinations are resolved as by `cp -r` and `scp -r`:
//!
//! | source | destination | copied to |
//! |---|---|---|
//! | file | a directory | a file of the same name in it |
//! | file | anything else | that path; with a trailing `/`, the directory must exist |
//! | directory | a directory, or a path with a trailing `/` | a directory of the same name in it |
//! | directory | a new path, or an unfinished copy of it | that path |
//! | `DIR/.`, `.` or `..` | | the contents are copied to that path |
//!
//! Names from a target that could leave the destination end the copy. A local destination directory is resolved once;
//! below it nothing is written through a symbolic link: a link in the place of a file is replaced, one in the place of a
//! directory fails the files below it. On a target, an existing link stays and the file it names is replaced.
//!
//! A file is renamed to its final name only when it is complete; permission bits are copied, owner and times are not.
//! In a tree, symbolic links and special files are skipped and reported; with `follow`, links are followed. A link that
//! is the source itself is always followed. Directories get the default mode; empty ones are copied. As with `cp`, files
//! are not synced to disk: the copy survives the end of this process and of the daemon at once, and a power failure
//! after the kernel has written it.

mod endpoint;
mod error;
mod hash;
mod job;
mod large;
mod local_end;
mod names;
mod plan;
mod progress;
mod remote_end;
mod stats;

use std::sync::Arc;

use client::{Session, v1};

use crate::failure::{CommandStatus, Failure};
use crate::output;
use endpoint::{CopyEndpoint, FileKind, FileMeta};
use error::{CopyError, ErrorScope};
use job::CopyJob;
use plan::{ExistingFiles, PlannedFile, TreeWalk};
use progress::ProgressLine;
use remote_end::RemoteEnd;
use stats::CopyStats;

/// The capabilities that a server needs for copies.
const REQUIRED_CAPABILITIES: [&str; 5] =
    ["fs.stat.hash", "fs.read.hash", "fs.write.hash", "fs.write.permissions", "fs.write.durable"];

/// One side of a copy on the command line.
#[derive(Debug, Clone)]
pub struct CopySide {
    /// The session on the target; `None` for the local machine.
    pub session: Option<Session>,
    /// The path on that side.
    pub path: String,
}

/// The options of a copy.
#[derive(Debug, Clone, Copy)]
pub struct CopyOptions {
    /// Compare hashes.
    pub verify: bool,
    /// Follow symbolic links in a tree.
    pub follow: bool,
    /// Do not show progress.
    pub quiet: bool,
    /// Print the summary as JSON.
    pub json: bool,
}

/// Copies; reports files that fail on stderr and returns status 1 if there are any.
pub async fn copy(
    source: CopySide,
    target: CopySide,
    options: CopyOptions,
) -> Result<CommandStatus, Failure> {
    let stats = Arc::new(CopyStats::new(options.json));
    let progress = ProgressLine::start(&stats, options.quiet);
    let run = CopyRun {
        job: Arc::new(CopyJob {
            source: end(&source, options)?,
            target: end(&target, options)?,
            verify: options.verify,
            stats: stats.clone(),
        }),
        from: source.path,
        to: target.path,
        follow: options.follow,
    };
    let done = run.go().await;
    drop(progress);
    done.map_err(|error| match error.scope {
        ErrorScope::File => error.failure,
        ErrorScope::Connection | ErrorScope::Attempt | ErrorScope::Copy => {
            error.failure.hint("run the same command again to resume")
        }
    })?;
    let summary = stats.summary();
    if options.json {
        output::json_line(&summary)?;
    }
    Ok(if summary.failed == 0 { CommandStatus::OK } else { CommandStatus::UNSUCCESSFUL })
}

/// Copies within one target, without transferring the contents.
pub async fn copy_within_target(
    session: &Session,
    source: &str,
    target: &str,
    options: CopyOptions,
) -> Result<CommandStatus, Failure> {
    let stats = Arc::new(CopyStats::new(options.json));
    let remote = RemoteEnd { session: session.clone(), verify: false };
    let end = CopyEndpoint::Remote(remote.clone());
    let job = CopyJob { source: end.clone(), target: end, verify: false, stats: stats.clone() };
    let (from, to) = (source.to_owned(), target.to_owned());
    let run = CopyRun { job: Arc::new(job), from, to, follow: false };
    let (from, found, to) = async {
        let (from, found) = run.source().await?;
        let to = match found.kind {
            FileKind::Dir => run.tree_target().await?.path,
            _ => run.file_target().await?.0,
        };
        Ok((from, found, to))
    }
    .await
    .map_err(|error: CopyError| error.failure)?;
    session
        .files()
        .copy(v1::FsCopy { from, to, recursive: true, overwrite: true, ..v1::FsCopy::default() })
        .await?;
    if found.kind != FileKind::Dir {
        stats.copied(found.size);
    }
    if options.json {
        output::json_line(&stats.summary())?;
    }
    Ok(CommandStatus::OK)
}

fn end(side: &CopySide, options: CopyOptions) -> Result<CopyEndpoint, Failure> {
    let Some(session) = &side.session else { return Ok(CopyEndpoint::Local) };
    if let Some(missing) = REQUIRED_CAPABILITIES.iter().find(|needed| !session.has_capability(needed)) {
        return Err(Failure::new(format!(
            "cannot copy: rexd on {} does not support {missing}",
            session.target()
        ))
        .hint("update it with `rex target install`"));
    }
    Ok(CopyEndpoint::Remote(RemoteEnd { session: session.clone(), verify: options.verify }))
}

/// A copy with both ends resolved.
struct CopyRun {
    job: Arc<CopyJob>,
    from: String,
    to: String,
    follow: bool,
}

/// Where a tree is copied to.
struct TreeTarget {
    path: String,
    /// Whether the directory exists.
    is_there: bool,
    /// Whether a marker file identifies the directory as an unfinished copy.
    is_marked: bool,
}

impl CopyRun {
    async fn go(&self) -> Result<(), CopyError> {
        let (from, found) = self.source().await?;
        match found.kind {
            FileKind::File => self.file(from, found).await,
            FileKind::Dir => self.tree(&from).await,
            FileKind::Link | FileKind::Other => {
                Err(CopyError::file(format!("cannot copy {from}: not a file or directory")))
            }
        }
    }

    async fn source(&self) -> Result<(String, FileMeta), CopyError> {
        let found = self.job.source.follow(&self.from).await?;
        found.ok_or_else(|| CopyError::file(format!("cannot copy {}: no such file or directory", self.from)))
    }

    /// The path to copy a file to, and the metadata there.
    async fn file_target(&self) -> Result<(String, Option<FileMeta>), CopyError> {
        let found = self.job.target.follow(&self.to).await?;
        let is_directory = found.is_some_and(|(_, found)| found.kind == FileKind::Dir);
        match (is_directory, names::last(&self.from)) {
            (true, Some(name)) => {
                let to = names::join(&self.to, name);
                let found = self.job.target.stat(&to).await?;
                Ok((to, found))
            }
            (false, _) if self.to.ends_with('/') => {
                Err(CopyError::file(format!("cannot copy to {}: not a directory", self.to))
                    .hint("create the directory, or remove the trailing / to copy to that name"))
            }
            _ => Ok((self.to.clone(), self.job.target.stat(&self.to).await?)),
        }
    }

    async fn file(&self, from: String, found: FileMeta) -> Result<(), CopyError> {
        let (mut to, existing) = self.file_target().await?;
        if let (CopyEndpoint::Local, Some(name)) = (&self.job.target, names::last(&to)) {
            to = names::join(&local_end::make_destination(names::parent(&to))?, name);
        }
        self.job.stats.expects(found.size);
        let entry = PlannedFile { from, below: String::new(), size: found.size, mode: found.mode };
        self.job.file(&entry, &to, existing).await
    }

    /// The path to copy a tree to.
    async fn tree_target(&self) -> Result<TreeTarget, CopyError> {
        let target = &self.job.target;
        let within = |path: &str| self.from.ends_with("/.") || names::last(path).is_none();
        let found = target.follow(&self.to).await?.map(|(_, found)| found);
        match found {
            Some(found) if found.kind != FileKind::Dir => {
                return Err(CopyError::file(format!("cannot copy a directory to {}: it is a file", self.to)));
            }
            _ => {}
        }
        let name = names::last(&self.from).filter(|_| !within(&self.from));
        let (Some(name), true) = (name, found.is_some() || self.to.ends_with('/')) else {
            let path = self.to.trim_end_matches('/');
            let path = if path.is_empty() { self.to.clone() } else { path.to_owned() };
            return Ok(TreeTarget { path, is_there: found.is_some(), is_marked: name.is_some() });
        };
        if self.is_unfinished(name).await? {
            return Ok(TreeTarget { path: self.to.clone(), is_there: true, is_marked: true });
        }
        let path = names::join(&self.to, name);
        let is_there = target.stat(&path).await?.is_some();
        Ok(TreeTarget { path, is_there, is_marked: false })
    }

    /// Whether the destination is an interrupted copy of the same name.
    async fn is_unfinished(&self, name: &str) -> Result<bool, CopyError> {
        let mark = names::join(&self.to, names::UNFINISHED);
        match self.job.target.stat(&mark).await? {
            Some(found) if found.kind == FileKind::File && found.size == name.len() as u64 => {
                Ok(self.job.target.read_whole(&mark, found.size).await?.0 == name.as_bytes())
            }
            _ => Ok(false),
        }
    }

    async fn tree(&self, from: &str) -> Result<(), CopyError> {
        let job = &self.job;
        let TreeTarget { path: to, is_there, is_marked } = self.tree_target().await?;
        if matches!((&job.source, &job.target), (CopyEndpoint::Local, CopyEndpoint::Local))
            && names::is_within(&to, from)
        {
            return Err(CopyError::file(format!("cannot copy {from} into itself")));
        }
        let plan = TreeWalk { end: &job.source, follow: self.follow, stats: &job.stats }.plan(from).await?;
        let to = job.target.make_destination(&to).await?;
        let mark = names::join(&to, names::UNFINISHED);
        if is_marked && let Some(name) = names::last(&self.from) {
            job.target.put(&mark, name.as_bytes(), None).await?;
        }
        let existing = match is_there {
            true => plan::existing(&job.target, &to, &plan.directories).await?,
            false => ExistingFiles::new(),
        };
        self.directories(&plan.directories, &to, &existing).await?;
        job.files(plan.files, &to, &existing).await?;
        match is_marked && job.stats.summary().failed == 0 {
            true => job.target.remove(&mark).await,
            false => Ok(()),
        }
    }

    /// Creates the missing directories.
    async fn directories(&self, all: &[String], to: &str, existing: &ExistingFiles) -> Result<(), CopyError> {
        let mut making = tokio::task::JoinSet::new();
        for below in
            all.iter().filter(|below| !existing.get(*below).is_some_and(|found| found.kind == FileKind::Dir))
        {
            let (target, path) = (self.job.target.clone(), names::join(to, below));
            making.spawn(async move { target.mkdir(&path).await });
        }
        while let Some(made) = making.join_next().await {
            match made? {
                Err(error) if error.scope == ErrorScope::File => self.job.stats.failed(&error),
                made => made?,
            }
        }
        Ok(())
    }
}
