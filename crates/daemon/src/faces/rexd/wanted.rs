//! What a request wants to do, in the words of the policy: which program it runs, or which files it touches how.

use std::path::{Path, PathBuf};

use engine::approval::FileAction;
use engine::files::patch::{self, Hunk};
use engine::files::{self, FileKind, ListOptions, ScanBudget};
use engine::policy::{Access, PathAccess};
use engine::process::Program;
use engine::{Error, RootedPath};
use wire::rexd::v1::RpcError;

use super::call::Call;
use super::convert;
use super::errors::rpc_error;
use super::session::Session;

/// One file or directory that a request touches.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) path: RootedPath,
    pub(super) access: Access,
    /// Whether everything beneath it is meant too.
    pub(super) tree: bool,
}

/// Files that a request touches.
#[derive(Debug, Clone)]
pub(super) struct Touched {
    pub(super) action: FileAction,
    pub(super) places: Vec<Place>,
    /// Where the relative paths of a patch begin.
    pub(super) base: PathBuf,
    /// Whether everything beneath was asked for.
    pub(super) is_recursive: bool,
    /// Whether what is in the way may be replaced.
    pub(super) overwrites: bool,
    /// Whether directories on the way are made.
    makes_parents: bool,
}

/// Where the files of a request really are.
#[derive(Debug)]
pub(super) struct Found {
    /// One for each place.
    pub(super) paths: Vec<PathBuf>,
    /// Links at the end of a place: whoever forbids a name forbids it also as a link.
    links: Vec<(PathBuf, Access)>,
    pub(super) is_tree: bool,
}

impl Touched {
    /// Looks where the files are now.
    pub(super) fn find(&self) -> Result<Found, Error> {
        let by_name = matches!(self.action, FileAction::Remove | FileAction::Rename);
        let kind = |place: &Place| files::stat(&place.path).ok().flatten().map(|found| found.kind);
        let (mut paths, mut links) = (Vec::new(), Vec::new());
        for place in &self.places {
            // What is removed or moved is the name, wherever it leads.
            paths.push(if by_name { place.path.entry()? } else { place.path.real()? });
            if !by_name && kind(place) == Some(FileKind::Symlink) {
                links.push((place.path.entry()?, place.access));
            }
        }
        let is_tree = match self.places.first().and_then(kind) {
            Some(FileKind::File | FileKind::Other) => false,
            Some(FileKind::Symlink) => !by_name,
            Some(FileKind::Dir) | None => true,
        };
        Ok(Found { paths, links, is_tree })
    }

    /// Every file and directory it really touches, one by one; nothing if there are too many to look at.
    pub(super) fn each(&self, found: &Found) -> Option<Vec<(PathBuf, Access)>> {
        let mut all = found.links.clone();
        let mut taken_along: Vec<PathBuf> = Vec::new();
        for (place, path) in self.places.iter().zip(&found.paths) {
            all.push((path.clone(), place.access));
            if !(place.tree && found.is_tree) {
                continue;
            }
            let beneath = beneath(&place.path)?;
            // What is moved or copied arrives under the second name with everything that was beneath the first.
            all.extend(beneath.iter().chain(&taken_along).map(|name| (path.join(name), place.access)));
            taken_along = beneath;
        }
        Some(all)
    }

    /// How the policy sees it.
    pub(super) fn touches<'a>(&self, found: &'a Found) -> Vec<PathAccess<'a>> {
        let places = self.places.iter().zip(&found.paths).map(|(place, path)| PathAccess {
            path,
            access: place.access,
            is_recursive: place.tree && found.is_tree,
        });
        let links = found.links.iter().map(|(path, access)| PathAccess {
            path,
            access: *access,
            is_recursive: false,
        });
        places.chain(links).collect()
    }

    /// The directories that have to be made on the way.
    pub(super) fn made(&self, found: &Found) -> Vec<PathBuf> {
        let mut made = Vec::new();
        for (place, path) in self.places.iter().zip(&found.paths).filter(|_| self.makes_parents) {
            let is_missing = |directory: &&Path| {
                let directory = place.path.roots().admit(directory, directory);
                matches!(directory.and_then(|directory| files::stat(&directory)), Ok(None))
            };
            made.extend(path.ancestors().skip(1).take_while(is_missing).map(Path::to_owned));
        }
        made
    }
}

/// Entries of a tree that are looked at one by one; a larger one is judged by what could be in it.
const MOST_ENTRIES: usize = 20_000;

/// What is beneath a directory, relative to it; nothing if it cannot be told.
fn beneath(path: &RootedPath) -> Option<Vec<PathBuf>> {
    if files::stat(path).ok()?.is_none_or(|found| found.kind != FileKind::Dir) {
        return Some(Vec::new());
    }
    let options = ListOptions { recursive: true, names_only: true, max_entries: Some(MOST_ENTRIES) };
    let listing =
        files::list(path, options, &ScanBudget::unbounded()).ok().filter(|listing| !listing.truncated)?;
    let relative = |entry: &files::DirEntry| entry.path.strip_prefix(path.as_path()).ok().map(Path::to_owned);
    listing.entries.iter().map(relative).collect()
}

/// The program that a request runs, if it runs one and says it rightly.
pub(super) fn program(call: &Call) -> Option<Program> {
    match call {
        Call::ExecStart(params) => convert::exec_program(params).ok(),
        Call::PtyOpen(params) => convert::pty_program(params).ok(),
        _ => None,
    }
}

impl Session {
    /// The files a request touches by what it names. What a scan finds beneath is sifted where it is found.
    pub(super) fn touched(&self, call: &Call) -> Result<Option<Touched>, RpcError> {
        use Access::{Read, Remove, Write};
        let mut base = PathBuf::new();
        let (action, places) = match call {
            Call::FsRead(params) => (FileAction::Read, vec![self.place(&params.path, Read, false)?]),
            Call::FsList(params) => (FileAction::Read, vec![self.place(&params.path, Read, false)?]),
            Call::FsStat(params) => (FileAction::Read, vec![self.place(&params.path, Read, false)?]),
            Call::FsWatch(params) => (FileAction::Read, vec![self.place(&params.path, Read, false)?]),
            Call::FsGlob(params) => {
                (FileAction::Read, vec![self.place(params.cwd.as_deref().unwrap_or_default(), Read, false)?])
            }
            Call::FsGrep(params) => {
                (FileAction::Read, vec![self.place(params.path.as_deref().unwrap_or_default(), Read, false)?])
            }
            Call::FsWrite(params) => (FileAction::Write, vec![self.place(&params.path, Write, false)?]),
            Call::FsEdit(params) => (FileAction::Write, vec![self.place(&params.path, Write, false)?]),
            Call::FsMkdir(params) => {
                (FileAction::MakeDirectory, vec![self.place(&params.path, Write, false)?])
            }
            Call::FsRemove(params) => {
                (FileAction::Remove, vec![self.place(&params.path, Remove, params.recursive)?])
            }
            Call::FsRename(params) => (
                FileAction::Rename,
                vec![self.place(&params.from, Remove, true)?, self.place(&params.to, Write, true)?],
            ),
            Call::FsCopy(params) => (
                FileAction::Copy,
                vec![
                    self.place(&params.from, Read, params.recursive)?,
                    self.place(&params.to, Write, params.recursive)?,
                ],
            ),
            Call::FsPatch(params) => {
                base = self.admit(params.cwd.as_deref().unwrap_or_default())?.as_path().to_owned();
                (FileAction::Write, self.patched(&base, &params.patch_text)?)
            }
            _ => return Ok(None),
        };
        let (is_recursive, overwrites) = match call {
            Call::FsRemove(params) => (params.recursive, false),
            Call::FsRename(params) => (false, params.overwrite),
            Call::FsCopy(params) => (params.recursive, params.overwrite),
            _ => (false, false),
        };
        let makes_parents = match call {
            Call::FsWrite(params) => params.mkdir_parents,
            Call::FsMkdir(params) => params.parents,
            Call::FsPatch(_) => true,
            _ => false,
        };
        Ok(Some(Touched { action, places, base, is_recursive, overwrites, makes_parents }))
    }

    fn patched(&self, base: &Path, text: &str) -> Result<Vec<Place>, RpcError> {
        let hunks = patch::parse(text).map_err(|error| rpc_error(error.into()))?;
        let mut places = Vec::new();
        let mut add = |path: &str, access| {
            let path =
                self.roots.admit(base, Path::new(path)).map_err(|error| self.hint(rpc_error(error)))?;
            places.push(Place { path, access, tree: false });
            Ok::<(), RpcError>(())
        };
        for hunk in &hunks {
            match hunk {
                Hunk::Add { path, .. } => add(path, Access::Write)?,
                Hunk::Delete { path } => add(path, Access::Remove)?,
                Hunk::Update { path, move_to: Some(to), .. } => {
                    add(path, Access::Remove)?;
                    add(to, Access::Write)?;
                }
                Hunk::Update { path, move_to: None, .. } => add(path, Access::Write)?,
            }
        }
        Ok(places)
    }

    fn place(&self, asked: &str, access: Access, tree: bool) -> Result<Place, RpcError> {
        Ok(Place { path: self.admit(asked)?, access, tree })
    }
}
