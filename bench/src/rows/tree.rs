//! Listing, glob and grep on 50,000 files: native in rexd, compared with ripgrep.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::table;
use crate::peers::peer::JsonPeer;
use crate::peers::rexd::Rexd;
use crate::peers::rg;
use crate::report::{Bound, Findings, compare};
use crate::stats::{interleave, time, timed};
use crate::world::{FileTree, NEEDLE, World};

/// A limit above the size of the tree.
const NO_LIMIT: u64 = 1_000_000;

/// A result of which only the number of entries is used.
#[derive(Deserialize)]
struct Counted {
    result: Option<Lists>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Lists {
    #[serde(alias = "matches", alias = "names")]
    entries: Vec<IgnoredAny>,
}

/// One search by both programs.
struct Search {
    work: &'static str,
    method: &'static str,
    params: Value,
    rg: Vec<&'static str>,
    /// The expected counts of rexd and of ripgrep.
    found: [usize; 2],
    most: f64,
}

/// The program that searches.
enum Who {
    Rg,
    Rexd(Box<JsonPeer<Rexd>>),
}

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let tree = FileTree::grow(world)?;
    let mut who = [Who::Rg, Who::Rexd(Box::new(world.setup().start()?))];
    let names = ["rg".to_owned(), "rexd".to_owned()];
    let mut findings = Findings::new(&format!("A tree of {} files", tree.files));
    let session = match &who[1] {
        Who::Rexd(peer) => peer.dialect.session.clone(),
        Who::Rg => String::new(),
    };
    for search in searches(&tree, &session) {
        let samples = interleave(&mut who, world.amount(11, 2), |who| {
            let (seconds, found) = timed(|| who.find(&search, &tree)).with_context(|| search.work)?;
            let wanted = search.found[usize::from(matches!(who, Who::Rg))];
            ensure!(found == wanted, "{}: {found} found, {wanted} are there", search.work);
            Ok(vec![seconds])
        })?;
        table(&mut findings, search.work, &names, &samples, time);
        let [theirs, ours] = [samples[0].p50(), samples[1].p50()];
        findings.targets.push(compare(search.work, ours, ("rg", theirs), Bound::AtMost(search.most), time));
    }
    findings.note(
        "ripgrep runs as a separate process with its output in a pipe; the numbers of matches must be equal.",
    );
    Ok(findings)
}

fn searches(tree: &FileTree, session: &str) -> [Search; 3] {
    let path = &tree.directory;
    let everything = tree.files + tree.directories;
    [
        Search {
            work: "names of all files",
            method: "fs.list",
            params: json!({"session_id": session, "path": path, "recursive": true, "names_only": true, "max_entries": NO_LIMIT}),
            rg: vec!["--files"],
            found: [everything, tree.files],
            most: 2.0,
        },
        Search {
            work: "glob **/*.rs",
            method: "fs.glob",
            params: json!({"session_id": session, "pattern": "**/*.rs", "cwd": path, "max_matches": NO_LIMIT}),
            rg: vec!["--files", "-g", "*.rs"],
            found: [tree.rust; 2],
            most: 2.0,
        },
        Search {
            work: "grep",
            method: "fs.grep",
            params: json!({"session_id": session, "pattern": NEEDLE, "path": path, "max_matches": NO_LIMIT}),
            rg: vec!["-n", NEEDLE],
            found: [tree.needles; 2],
            most: 1.3,
        },
    ]
}

impl Who {
    fn find(&mut self, search: &Search, tree: &FileTree) -> Result<usize> {
        match self {
            Self::Rg => rg::lines(&search.rg, &tree.directory),
            Self::Rexd(peer) => {
                let answer = peer.raw_answer(search.method, &search.params)?;
                let counted: Counted = serde_json::from_slice(answer)?;
                let lists = counted.result.with_context(|| format!("refused: {:?}", counted.error))?;
                Ok(lists.entries.len())
            }
        }
    }
}
