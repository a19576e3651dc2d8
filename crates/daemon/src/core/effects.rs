//! What a request does to commands and files, as the policy and an approver see it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::approval::{FileAction, InputPreview, Operation};
use engine::files::{self, FileKind, ListOptions, ScanBudget};
use engine::policy::{Access, PathAccess};
use engine::process::Program;
use engine::{Error, RootedPath};

use super::approvals::diff::Preview;

/// The most of a command's input that an approver sees; the length of the rest is stated.
const SHOWN_INPUT: usize = 64 * 1024;
/// Entries of a tree that are checked one by one; a larger tree is decided by the patterns alone.
const MAX_TREE_ENTRIES: usize = 20_000;

/// What a request does.
#[derive(Debug)]
pub enum Effects {
    /// Nothing that the policy has rules for.
    None,
    /// Runs a command.
    Command(Box<CommandEffects>),
    /// Reads or changes files.
    Files(Box<FileEffects>),
}

/// A command with everything that decides what it does.
#[derive(Debug)]
pub struct CommandEffects {
    /// The program or shell text.
    pub program: Program,
    /// The directory it starts in.
    pub cwd: RootedPath,
    /// The variables that the request sets or (`None`) removes.
    pub env: Vec<(String, Option<String>)>,
    /// What it finds on standard input from the start.
    pub stdin: bytes::Bytes,
    /// Whether it runs in a terminal.
    pub has_terminal: bool,
    /// Whether it outlives its session.
    pub is_detached: bool,
}

impl CommandEffects {
    /// The command as an approver sees it, in the directory where it really starts.
    pub(super) fn operation(&self, cwd: &Path) -> Operation {
        let shown = self.stdin.get(..SHOWN_INPUT).unwrap_or(&self.stdin);
        Operation::Run {
            program: self.program.clone(),
            cwd: cwd.to_owned(),
            env: self.env.clone(),
            input: InputPreview {
                text: String::from_utf8_lossy(shown).into_owned(),
                cut_bytes: (self.stdin.len() - shown.len()) as u64,
                bytes: self.stdin.len() as u64,
            },
            has_terminal: self.has_terminal,
            is_detached: self.is_detached,
        }
    }
}

/// One file or directory that a request reads or changes.
#[derive(Debug, Clone)]
pub struct FileEffect {
    /// Where it is, checked against the roots only.
    pub path: RootedPath,
    /// What happens to it.
    pub access: Access,
    /// Whether the same happens to everything below it.
    pub is_tree: bool,
}

/// Computes what an approver sees of a change; run again before the change, to detect that the files differ by then.
pub type PreviewFn = Arc<dyn Fn() -> Result<Preview, Error> + Send + Sync>;

/// The files that a request reads or changes.
pub struct FileEffects {
    /// What it does to them.
    pub action: FileAction,
    /// Which files.
    pub files: Vec<FileEffect>,
    /// Whether it was requested for everything below them too.
    pub is_recursive: bool,
    /// Whether an existing target is replaced.
    pub overwrites: bool,
    /// Whether missing parent directories are created.
    pub creates_parents: bool,
    /// The change in their content, where it has one.
    pub preview: Option<PreviewFn>,
}

impl FileEffects {
    /// One action on some files.
    pub fn new(action: FileAction, files: Vec<FileEffect>) -> FileEffects {
        FileEffects {
            action,
            files,
            is_recursive: false,
            overwrites: false,
            creates_parents: false,
            preview: None,
        }
    }

    /// Resolves links: where the files are now. May wait for a disk.
    pub(super) fn resolve(&self) -> Result<ResolvedFiles, Error> {
        let by_name = matches!(self.action, FileAction::Remove | FileAction::Rename);
        let kind = |file: &FileEffect| files::stat(&file.path).ok().flatten().map(|found| found.kind);
        let (mut paths, mut links) = (Vec::new(), Vec::new());
        for file in &self.files {
            // Removing or renaming acts on the name, wherever a link with that name points.
            paths.push(if by_name { file.path.entry()? } else { file.path.real()? });
            if !by_name && kind(file) == Some(FileKind::Symlink) {
                links.push((file.path.entry()?, file.access));
            }
        }
        let is_tree = match self.files.first().and_then(kind) {
            Some(FileKind::File | FileKind::Other) => false,
            Some(FileKind::Symlink) => !by_name,
            Some(FileKind::Dir) | None => true,
        };
        Ok(ResolvedFiles { paths, links, is_tree })
    }

    /// Every file and directory one by one; `None` if there are too many.
    pub(super) fn entries(&self, resolved: &ResolvedFiles) -> Option<Vec<(PathBuf, Access)>> {
        let mut all = resolved.links.clone();
        let mut moved: Vec<PathBuf> = Vec::new();
        for (file, path) in self.files.iter().zip(&resolved.paths) {
            all.push((path.clone(), file.access));
            if !(file.is_tree && resolved.is_tree) {
                continue;
            }
            let below = entries_below(&file.path)?;
            // A move or copy creates, below the second name, everything that is below the first.
            all.extend(below.iter().chain(&moved).map(|name| (path.join(name), file.access)));
            moved = below;
        }
        Some(all)
    }

    /// The accesses as the policy checks them.
    pub(super) fn accesses<'a>(&self, resolved: &'a ResolvedFiles) -> Vec<PathAccess<'a>> {
        let files = self.files.iter().zip(&resolved.paths).map(|(file, path)| PathAccess {
            path,
            access: file.access,
            is_recursive: file.is_tree && resolved.is_tree,
        });
        let links = resolved.links.iter().map(|(path, access)| PathAccess {
            path,
            access: *access,
            is_recursive: false,
        });
        files.chain(links).collect()
    }

    /// The missing parent directories that it creates.
    pub(super) fn created_parents(&self, resolved: &ResolvedFiles) -> Vec<PathBuf> {
        let mut created = Vec::new();
        for (file, path) in self.files.iter().zip(&resolved.paths).filter(|_| self.creates_parents) {
            let is_missing = |directory: &&Path| {
                let directory = file.path.roots().admit(directory, directory);
                matches!(directory.and_then(|directory| files::stat(&directory)), Ok(None))
            };
            created.extend(path.ancestors().skip(1).take_while(is_missing).map(Path::to_owned));
        }
        created
    }
}

impl std::fmt::Debug for FileEffects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileEffects")
            .field("action", &self.action)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// Where the files of a request are, links resolved.
#[derive(Debug)]
pub(super) struct ResolvedFiles {
    /// One path per file.
    pub(super) paths: Vec<PathBuf>,
    /// The links themselves: a rule that denies a name also denies it as a link.
    links: Vec<(PathBuf, Access)>,
    pub(super) is_tree: bool,
}

/// The entries below a directory, relative to it; `None` if they cannot be listed completely.
fn entries_below(path: &RootedPath) -> Option<Vec<PathBuf>> {
    if files::stat(path).ok()?.is_none_or(|found| found.kind != FileKind::Dir) {
        return Some(Vec::new());
    }
    let options = ListOptions { recursive: true, names_only: true, max_entries: Some(MAX_TREE_ENTRIES) };
    let listing =
        files::list(path, options, &ScanBudget::unbounded()).ok().filter(|listing| !listing.truncated)?;
    let relative = |entry: &files::DirEntry| entry.path.strip_prefix(path.as_path()).ok().map(Path::to_owned);
    listing.entries.iter().map(relative).collect()
}
