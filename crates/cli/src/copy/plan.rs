//! Plan: everything that is in a tree, and what of it is at the other end already.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::end::{End, Found, Kind, Meta};
use super::here;
use super::names;
use super::tally::Tally;
use super::wrong::{Weight, Wrong};

/// Directories that are listed at the same time.
const LISTS_AT_ONCE: usize = 32;
/// Directories within directories; past it something leads in circles.
const MOST_DEPTH: usize = 512;

/// One file of a plan.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    /// Where it is, without a link at its end.
    pub(super) from: String,
    /// Where it goes, below the tree's target.
    pub(super) below: String,
    pub(super) size: u64,
    pub(super) mode: Option<u32>,
}

/// What is to be copied.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Directories below the top, those above before those within.
    pub(super) directories: Vec<String>,
    pub(super) files: Vec<Entry>,
}

/// What is at the other end already, by its path below the top.
pub(super) type Known = HashMap<String, Meta>;

type Listed = Result<Vec<Result<Found, Wrong>>, Wrong>;

/// Walks a tree. What cannot be copied is told and counted, the rest goes on.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    pub(super) end: &'a End,
    /// Whether links count as what they lead to.
    pub(super) follow: bool,
    pub(super) tally: &'a Arc<Tally>,
}

impl Walk<'_> {
    /// Everything below a directory.
    pub(super) async fn plan(&self, top: &str) -> Result<Plan, Wrong> {
        let mut plan = Plan::default();
        let mut lists = JoinSet::new();
        let mut waiting = vec![(top.to_owned(), String::new())];
        loop {
            while lists.len() < LISTS_AT_ONCE
                && let Some((path, below)) = waiting.pop()
            {
                lists.spawn(list(self.end.clone(), path, below));
            }
            let Some(listed) = lists.join_next().await else { break };
            let (path, below, listed) = listed?;
            match listed {
                Ok(entries) => {
                    for entry in entries {
                        self.take(entry, (&path, &below), (&mut plan, &mut waiting)).await?;
                    }
                }
                Err(wrong) if wrong.weight == Weight::File && !below.is_empty() => self.tally.failed(&wrong),
                Err(wrong) => return Err(wrong),
            }
        }
        plan.directories.sort();
        plan.files.sort_by(|one, other| one.below.cmp(&other.below));
        self.tally.expects(plan.files.iter().map(|file| file.size).sum());
        Ok(plan)
    }

    async fn take(
        &self,
        entry: Result<Found, Wrong>,
        (path, below): (&str, &str),
        (plan, waiting): (&mut Plan, &mut Vec<(String, String)>),
    ) -> Result<(), Wrong> {
        let Found { name, mut meta } = match entry {
            Ok(found) => found,
            Err(wrong) => {
                self.tally.failed(&wrong);
                return Ok(());
            }
        };
        // What an earlier copy left behind is no part of the tree.
        if name == names::UNFINISHED {
            return Ok(());
        }
        let (mut from, below) = (names::join(path, &name), names::join(below, &name));
        if meta.kind == Kind::Link {
            match self.lead(&from).await {
                Ok(Some((leads, found))) => (from, meta) = (leads, found),
                Ok(None) => return Ok(()),
                Err(wrong) if wrong.weight == Weight::File => {
                    self.tally.failed(&wrong);
                    return Ok(());
                }
                Err(wrong) => return Err(wrong),
            }
        }
        match meta.kind {
            Kind::File => plan.files.push(Entry { from, below, size: meta.size, mode: meta.mode }),
            Kind::Dir if below.split('/').count() < MOST_DEPTH => {
                plan.directories.push(below.clone());
                waiting.push((from, below));
            }
            Kind::Dir => self.tally.left_out(&from, "it lies too deep"),
            Kind::Link | Kind::Other => self.tally.left_out(&from, "neither a file nor a directory"),
        }
        Ok(())
    }

    /// Where a link leads, if links are followed and it leads somewhere new.
    async fn lead(&self, link: &str) -> Result<Option<(String, Meta)>, Wrong> {
        if !self.follow {
            self.tally.left_out(link, "a link (--follow copies what links lead to)");
            return Ok(None);
        }
        let Some((leads, found)) = self.end.follow(link).await? else {
            self.tally.left_out(link, "a link that leads nowhere");
            return Ok(None);
        };
        let in_circles = match self.end {
            End::Here => here::leads_back(link),
            End::There(_) => names::is_within(names::parent(link), &leads),
        };
        if found.kind == Kind::Dir && in_circles {
            self.tally.left_out(link, "a link that leads back to where it lies");
            return Ok(None);
        }
        Ok(Some((leads, found)))
    }
}

/// What is in the directories of a plan at the other end.
pub(super) async fn known(end: &End, top: &str, directories: &[String]) -> Result<Known, Wrong> {
    let mut known = Known::new();
    let mut lists = JoinSet::new();
    let mut waiting = std::iter::once("").chain(directories.iter().map(String::as_str));
    loop {
        while lists.len() < LISTS_AT_ONCE
            && let Some(below) = waiting.next()
        {
            lists.spawn(list(end.clone(), names::join(top, below), below.to_owned()));
        }
        let Some(listed) = lists.join_next().await else { return Ok(known) };
        match listed? {
            (_, below, Ok(entries)) => {
                let named = |found: Found| (names::join(&below, &found.name), found.meta);
                known.extend(entries.into_iter().flatten().map(named));
            }
            // It is not there, or will be refused again when something is written into it.
            (_, _, Err(wrong)) if wrong.weight == Weight::File => {}
            (_, _, Err(wrong)) => return Err(wrong),
        }
    }
}

async fn list(end: End, path: String, below: String) -> (String, String, Listed) {
    let listed = end.list(&path).await;
    (path, below, listed)
}
