//! Copies files and trees between this machine and targets; an interrupted copy can be resumed.
//!
//! | module | holds |
//! |---|---|
//! | `endpoint` | one end of a copy; `local_end` and `remote_end` implement it |
//! | `plan`, `filter` | the contents of a tree, what is left out of it, and the files that exist at the target |
//! | `tree` | the copy of a tree, and the removal of what the source does not have |
//! | `directories` | the directories of a tree and their modes |
//! | `overlap` | whether one end of a copy contains the other |
//! | `stream` | copies from standard input and to standard output |
//! | `job` | concurrent copies of files, with retries |
//! | `large` | a large file, to a partial file that is renamed when it is complete; in chunks, or within one target |
//! | `names` | paths, and the names of partial files |
//! | `stats`, `progress` | counters and the progress line |
//!
//! Destinations:
//!
//! | source | destination | copied to |
//! |---|---|---|
//! | one directory | any path | that path, whether it exists or not |
//! | one directory | a path with a trailing `/`, or `.` | a directory of the same name in it |
//! | one file | a directory, a path with a trailing `/`, or `.` | a file of the same name in it |
//! | one file | anything else | that path |
//! | several | a directory, which is created | files and directories of the same names in it |
//! | `DIR/.`, `.` or `..` | | the contents are copied to that path |
//!
//! Names from a target that could leave the destination end the copy. A local destination directory is resolved once;
//! below it nothing is written through a symbolic link: a link in the place of a file is replaced, one in the place of a
//! directory fails the files below it. On a target, an existing link stays and the file it names is replaced.
//!
//! A file is renamed to its final name only when it is complete; permission bits and modification times are copied, owners
//! are not. In a tree, symbolic links are copied as links, after all files, and special files are skipped and reported; with
//! `follow`, links are followed. A link that is the source itself is always followed. An existing destination
//! keeps its own mode; the directories below it get those of the source. Empty ones are copied. As with `cp`, files are not synced to disk: the copy survives the end of this process and of the daemon
//! at once, and a power failure after the kernel has written it.

mod directories;
mod endpoint;
mod error;
mod filter;
mod hash;
mod job;
mod large;
mod local_end;
mod names;
mod overlap;
mod plan;
mod progress;
mod remote_end;
mod stats;
mod stream;
mod tree;

use std::collections::HashSet;
use std::sync::Arc;

use client::Session;

use crate::failure::{CommandStatus, Failure};
use crate::output;
use endpoint::{CopyEndpoint, FileKind, FileMeta};
use error::{CopyError, ErrorScope};
use filter::CopyFilter;
use job::CopyJob;
use plan::PlannedFile;
use progress::ProgressLine;
use remote_end::RemoteEnd;
use stats::CopyStats;
pub use stream::{copy_from_stdin, copy_to_stdout};

/// The capabilities that a server needs for copies.
const REQUIRED_CAPABILITIES: [&str; 5] =
    ["fs.stat.hash", "fs.read.hash", "fs.write.hash", "fs.write.permissions", "fs.write.durable"];

/// The sources of a copy, all on one machine.
#[derive(Debug, Clone)]
pub struct CopySources {
    /// The session on the target; `None` for the local machine.
    pub session: Option<Session>,
    /// The paths on that side.
    pub paths: Vec<String>,
}

/// The destination of a copy.
#[derive(Debug, Clone)]
pub struct CopyDestination {
    /// The session on the target; `None` for the local machine.
    pub session: Option<Session>,
    /// The path on that side.
    pub path: String,
}

/// The options of a copy.
#[derive(Debug, Clone, Default)]
pub struct CopyOptions {
    /// Compare hashes.
    pub verify: bool,
    /// Follow symbolic links in a tree.
    pub follow: bool,
    /// Show neither progress nor the summary.
    pub quiet: bool,
    /// Print the summary as JSON.
    pub json: bool,
    /// Remove what the source does not have from the destination of a tree.
    pub delete: bool,
    /// Leave out of a tree what matches these patterns.
    pub exclude: Vec<String>,
    /// Leave out of a tree what its `.gitignore` files exclude.
    pub gitignore: bool,
}

/// Copies; reports files that fail on stderr and returns status 1 if there are any.
pub async fn copy(
    sources: CopySources,
    destination: CopyDestination,
    options: &CopyOptions,
) -> Result<CommandStatus, Failure> {
    if options.delete {
        check_delete(&sources.paths)?;
    }
    let stats = Arc::new(CopyStats::new(options.json));
    let progress = ProgressLine::start(&stats, options.quiet);
    let job = Arc::new(CopyJob {
        source: end(sources.session.as_ref(), options)?,
        target: end(destination.session.as_ref(), options)?,
        verify: options.verify,
        stats: stats.clone(),
    });
    let is_one_of_several = sources.paths.len() > 1;
    let mut done = Ok(());
    for from in sources.paths {
        let to = destination.path.clone();
        let run = CopyRun { job: job.clone(), from, to, is_one_of_several, options };
        match run.go().await {
            Err(error) if is_one_of_several && error.scope == ErrorScope::File => stats.failed(&error),
            Err(error) => {
                done = Err(error);
                break;
            }
            Ok(()) => {}
        }
    }
    match &done {
        Ok(()) => progress.finish(),
        Err(_) => drop(progress),
    }
    done.map_err(|error| match error.scope {
        ErrorScope::File => error.failure,
        ErrorScope::Connection | ErrorScope::Attempt | ErrorScope::Copy => {
            error.failure.hint("run the same command again to resume")
        }
    })?;
    summarize(&stats, options)
}

/// Refuses several sources of which one would delete the copy of another: with `--delete`, each removes from its
/// destination what it does not have itself.
fn check_delete(sources: &[String]) -> Result<(), Failure> {
    if sources.len() < 2 {
        return Ok(());
    }
    let hint = "copy each source with its own command and destination";
    let mut copied = HashSet::new();
    for source in sources {
        let Some(name) = names::last(source) else {
            return Err(Failure::new(format!(
                "cannot copy with --delete: the contents of {source} share the destination with other sources"
            ))
            .hint(hint));
        };
        if !copied.insert(name) {
            let message = format!("cannot copy with --delete: several sources are named {name}");
            return Err(Failure::new(message).hint(hint));
        }
    }
    Ok(())
}

/// Prints the summary; the status is 1 if files failed.
fn summarize(stats: &CopyStats, options: &CopyOptions) -> Result<CommandStatus, Failure> {
    let summary = stats.summary();
    match (options.json, options.quiet) {
        (true, _) => output::json_line(&summary)?,
        (false, false) => output::line(summary.line())?,
        (false, true) => {}
    }
    Ok(if summary.failed == 0 { CommandStatus::OK } else { CommandStatus::UNSUCCESSFUL })
}

fn end(session: Option<&Session>, options: &CopyOptions) -> Result<CopyEndpoint, Failure> {
    let Some(session) = session else { return Ok(CopyEndpoint::Local) };
    if let Some(missing) = REQUIRED_CAPABILITIES.iter().find(|needed| !session.has_capability(needed)) {
        return Err(Failure::new(format!(
            "cannot copy: rexd on {} does not support {missing}",
            session.target()
        ))
        .hint("update it with `rex target install`"));
    }
    Ok(CopyEndpoint::Remote(RemoteEnd::new(session, options.verify)))
}

/// The copy of one source, with both ends resolved.
struct CopyRun<'a> {
    job: Arc<CopyJob>,
    from: String,
    to: String,
    is_one_of_several: bool,
    options: &'a CopyOptions,
}

impl CopyRun<'_> {
    async fn go(&self) -> Result<(), CopyError> {
        let (from, found) = self.source().await?;
        match found.kind {
            FileKind::File => self.file(from, found).await,
            FileKind::Dir => {
                let filter = CopyFilter::new(&self.options.exclude, self.options.gitignore)?;
                self.tree(&from, &filter).await
            }
            FileKind::Link | FileKind::Other => {
                Err(CopyError::file(format!("cannot copy {from}: not a file or directory")))
            }
        }
    }

    async fn source(&self) -> Result<(String, FileMeta), CopyError> {
        let found = self.job.source.follow(&self.from).await?;
        found.ok_or_else(|| CopyError::file(format!("cannot copy {}: no such file or directory", self.from)))
    }

    /// Whether the destination is a directory that receives the source under its name.
    fn goes_into(&self) -> bool {
        self.is_one_of_several || self.to.ends_with('/') || names::last(&self.to).is_none()
    }

    /// The path to copy a file to, and the metadata there.
    async fn file_target(&self) -> Result<(String, Option<FileMeta>), CopyError> {
        let found = self.job.target.follow(&self.to).await?.map(|(_, found)| found.kind);
        let goes_into = found == Some(FileKind::Dir) || self.goes_into();
        if goes_into && found.is_some_and(|kind| kind != FileKind::Dir) {
            return Err(CopyError::file(format!("cannot copy to {}: not a directory", self.to))
                .hint("choose a directory, or remove the trailing / to replace the file"));
        }
        let to = match names::last(&self.from).filter(|_| goes_into) {
            Some(name) => names::join(&self.to, name),
            None => self.to.clone(),
        };
        let found = self.job.target.stat(&to).await?;
        Ok((to, found))
    }

    async fn file(&self, from: String, found: FileMeta) -> Result<(), CopyError> {
        let (mut to, existing) = self.file_target().await?;
        if let (CopyEndpoint::Local, Some(name)) = (&self.job.target, names::last(&to)) {
            to = names::join(&local_end::make_destination(names::parent(&to))?, name);
        }
        self.job.stats.expects(found.size);
        let (below, attributes) = (String::new(), found.attributes);
        let entry = PlannedFile { from, below, size: found.size, attributes };
        self.job.file(&entry, &to, existing).await
    }
}
