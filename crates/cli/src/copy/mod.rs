//! Copying files and trees between this machine and targets, so that a copy that was cut goes on where it was.
//!
//! | module | holds |
//! |---|---|
//! | `end` | one end of a copy; `here` and `there` are the two kinds |
//! | `plan` | what is in a tree, and what of it is there already |
//! | `job` | many files at once, each tried until it is there |
//! | `large` | a file in pieces, into a part that takes its name when it is complete |
//! | `names` | paths, and what is incomplete |
//! | `tally`, `progress` | what was done so far |
//!
//! Where things go, as `cp -r` and `scp -r` do it:
//!
//! | source | destination | goes to |
//! |---|---|---|
//! | file | a directory | a file of its name in it |
//! | file | anything else | that name; with a `/` behind it, a directory must be there |
//! | directory | a directory, or with a `/` behind it | a directory of its name in it |
//! | directory | nothing yet, or an unfinished copy of it | that name |
//! | directory with `/.` behind it, `.` or `..` | | what is in it goes to that name |
//!
//! A file takes its name only when it is whole; the permission bits of the source come along, owner and times do not.
//! In a tree, links and special files are left out and told; with `follow`, links count as what they lead to. A link
//! that is named itself is followed. Directories are made with the usual mode, empty ones too. Files are not forced to
//! disk, as with `cp`: what is copied outlives this program and the daemon at once, and the machine when its system
//! has written it.

mod end;
mod hash;
mod here;
mod job;
mod large;
mod names;
mod plan;
mod progress;
mod tally;
mod there;
mod wrong;

use std::sync::Arc;

use client::{Session, v1};

use crate::failure::{Failure, Status};
use crate::output;
use end::{End, Kind, Meta};
use job::Job;
use plan::{Entry, Known, Walk};
use progress::Progress;
use tally::Tally;
use there::There;
use wrong::{Weight, Wrong};

/// What the ends of a copy must be able to do.
const NEEDED: [&str; 5] =
    ["fs.stat.hash", "fs.read.hash", "fs.write.hash", "fs.write.permissions", "fs.write.durable"];

/// One side of a copy as it was asked for.
#[derive(Debug, Clone)]
pub struct Side {
    /// The session on the target; nothing for this machine.
    pub session: Option<Session>,
    /// The path there.
    pub path: String,
}

/// How to copy.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Whether hashes are compared.
    pub verify: bool,
    /// Whether links in a tree count as what they lead to.
    pub follow: bool,
    /// Whether to show no progress.
    pub quiet: bool,
    /// Whether the last word is JSON.
    pub json: bool,
}

/// Copies; tells on stderr what could not be copied, and ends with 1 if there was something.
pub async fn copy(source: Side, target: Side, manner: Manner) -> Result<Status, Failure> {
    let tally = Arc::new(Tally::new(manner.json));
    let progress = Progress::start(&tally, manner.quiet);
    let trip = Trip {
        job: Arc::new(Job {
            source: end(&source, manner)?,
            target: end(&target, manner)?,
            verify: manner.verify,
            tally: tally.clone(),
        }),
        from: source.path,
        to: target.path,
        follow: manner.follow,
    };
    let done = trip.go().await;
    drop(progress);
    done.map_err(|wrong| match wrong.weight {
        Weight::File => wrong.failure,
        Weight::Try | Weight::All => wrong.failure.hint("the same command goes on where this one stopped"),
    })?;
    let summary = tally.summary();
    if manner.json {
        output::json_line(&summary)?;
    }
    Ok(if summary.failed == 0 { Status::OK } else { Status::NOTHING })
}

/// Copies between two places of one target, without moving the content.
pub async fn copy_there(
    session: &Session,
    source: &str,
    target: &str,
    manner: Manner,
) -> Result<Status, Failure> {
    let tally = Arc::new(Tally::new(manner.json));
    let there = There { session: session.clone(), verify: false };
    let end = End::There(there.clone());
    let job = Job { source: end.clone(), target: end, verify: false, tally: tally.clone() };
    let (from, to) = (source.to_owned(), target.to_owned());
    let trip = Trip { job: Arc::new(job), from, to, follow: false };
    let (from, found, to) = async {
        let (from, found) = trip.source().await?;
        let to = match found.kind {
            Kind::Dir => trip.tree_target().await?.path,
            _ => trip.file_target().await?.0,
        };
        Ok((from, found, to))
    }
    .await
    .map_err(|wrong: Wrong| wrong.failure)?;
    session
        .files()
        .copy(v1::FsCopy { from, to, recursive: true, overwrite: true, ..v1::FsCopy::default() })
        .await?;
    if found.kind != Kind::Dir {
        tally.copied(found.size);
    }
    if manner.json {
        output::json_line(&tally.summary())?;
    }
    Ok(Status::OK)
}

fn end(side: &Side, manner: Manner) -> Result<End, Failure> {
    let Some(session) = &side.session else { return Ok(End::Here) };
    if let Some(missing) = NEEDED.iter().find(|needed| !session.has_capability(needed)) {
        return Err(Failure::new(format!(
            "cannot copy: rexd on {} does not know {missing}",
            session.target()
        ))
        .hint("update rexd there: rex target install"));
    }
    Ok(End::There(There { session: session.clone(), verify: manner.verify }))
}

/// A copy whose ends are known.
struct Trip {
    job: Arc<Job>,
    from: String,
    to: String,
    follow: bool,
}

/// Where a tree goes.
struct TreeTarget {
    path: String,
    /// What is there.
    is_there: bool,
    /// Whether the directory itself is the copy, so that an unfinished one has to be known again.
    is_marked: bool,
}

impl Trip {
    async fn go(&self) -> Result<(), Wrong> {
        let (from, found) = self.source().await?;
        match found.kind {
            Kind::File => self.file(from, found).await,
            Kind::Dir => self.tree(&from).await,
            Kind::Link | Kind::Other => Err(Wrong::file(format!("{from} is neither a file nor a directory"))),
        }
    }

    async fn source(&self) -> Result<(String, Meta), Wrong> {
        let found = self.job.source.follow(&self.from).await?;
        found.ok_or_else(|| Wrong::file(format!("cannot copy {}: there is no such file", self.from)))
    }

    /// Where a file goes, and what is there.
    async fn file_target(&self) -> Result<(String, Option<Meta>), Wrong> {
        let found = self.job.target.follow(&self.to).await?;
        let is_directory = found.is_some_and(|(_, found)| found.kind == Kind::Dir);
        match (is_directory, names::last(&self.from)) {
            (true, Some(name)) => {
                let to = names::join(&self.to, name);
                let found = self.job.target.stat(&to).await?;
                Ok((to, found))
            }
            (false, _) if self.to.ends_with('/') => {
                Err(Wrong::file(format!("cannot copy to {}: it is no directory", self.to))
                    .hint("make it first, or leave the / away to copy to that name"))
            }
            _ => Ok((self.to.clone(), self.job.target.stat(&self.to).await?)),
        }
    }

    async fn file(&self, from: String, found: Meta) -> Result<(), Wrong> {
        let (to, there) = self.file_target().await?;
        self.job.tally.expects(found.size);
        let entry = Entry { from, below: String::new(), size: found.size, mode: found.mode };
        self.job.file(&entry, &to, there).await
    }

    /// Where a tree goes.
    async fn tree_target(&self) -> Result<TreeTarget, Wrong> {
        let target = &self.job.target;
        let within = |path: &str| self.from.ends_with("/.") || names::last(path).is_none();
        let found = target.follow(&self.to).await?.map(|(_, found)| found);
        match found {
            Some(found) if found.kind != Kind::Dir => {
                return Err(Wrong::file(format!(
                    "cannot copy a directory over {}, which is a file",
                    self.to
                )));
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

    /// Whether the destination is a copy of the same name that was cut.
    async fn is_unfinished(&self, name: &str) -> Result<bool, Wrong> {
        let mark = names::join(&self.to, names::UNFINISHED);
        match self.job.target.stat(&mark).await? {
            Some(found) if found.kind == Kind::File && found.size == name.len() as u64 => {
                Ok(self.job.target.read_whole(&mark, found.size).await?.0 == name.as_bytes())
            }
            _ => Ok(false),
        }
    }

    async fn tree(&self, from: &str) -> Result<(), Wrong> {
        let job = &self.job;
        let TreeTarget { path: to, is_there, is_marked } = self.tree_target().await?;
        if matches!((&job.source, &job.target), (End::Here, End::Here)) && names::is_within(&to, from) {
            return Err(Wrong::file(format!("cannot copy {from} into itself")));
        }
        let plan = Walk { end: &job.source, follow: self.follow, tally: &job.tally }.plan(from).await?;
        job.target.mkdir(&to).await?;
        let mark = names::join(&to, names::UNFINISHED);
        if is_marked && let Some(name) = names::last(&self.from) {
            job.target.put(&mark, name.as_bytes(), None).await?;
        }
        let known = match is_there {
            true => plan::known(&job.target, &to, &plan.directories).await?,
            false => Known::new(),
        };
        self.directories(&plan.directories, &to, &known).await?;
        job.files(plan.files, &to, &known).await?;
        match is_marked && job.tally.summary().failed == 0 {
            true => job.target.remove(&mark).await,
            false => Ok(()),
        }
    }

    /// Makes the directories that are missing.
    async fn directories(&self, all: &[String], to: &str, known: &Known) -> Result<(), Wrong> {
        let mut making = tokio::task::JoinSet::new();
        for below in
            all.iter().filter(|below| !known.get(*below).is_some_and(|found| found.kind == Kind::Dir))
        {
            let (target, path) = (self.job.target.clone(), names::join(to, below));
            making.spawn(async move { target.mkdir(&path).await });
        }
        while let Some(made) = making.join_next().await {
            match made? {
                Err(wrong) if wrong.weight == Weight::File => self.job.tally.failed(&wrong),
                made => made?,
            }
        }
        Ok(())
    }
}
