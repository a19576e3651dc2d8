//! Roots and RootedPath: every path is checked against the roots when it is created.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::cleanup::CleanupCache;
use super::guard::{CombinedGuard, PathGuard};
use crate::Error;

/// The directories in which files may be accessed. Cheap to clone.
///
/// A root need not exist yet, may be a symlink, and may be `/`, which permits everything.
#[derive(Clone)]
pub struct Roots(Arc<Inner>);

struct Inner {
    roots: Vec<PathBuf>,
    strategy: ResolveStrategy,
    outer: Option<Roots>,
    guard: Option<Arc<dyn PathGuard>>,
    cleanup: Arc<CleanupCache>,
}

/// The system calls that are used. Both strategies have the same results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResolveStrategy {
    /// One `openat2` call per path, and unnamed files for new content; the other strategy only where these do not exist
    /// or cannot decide.
    #[default]
    Kernel,
    /// For kernels, file systems and containers without those: paths are resolved component by component, and new
    /// content has a temporary name from the start.
    Walk,
}

/// An absolute path that is inside a root by its text. Symlinks in it are resolved when it is opened, relative to a
/// directory descriptor, so that they cannot be swapped meanwhile.
#[derive(Clone)]
pub struct RootedPath {
    pub(super) roots: Roots,
    pub(super) location: RootLocation,
    path: PathBuf,
}

/// A path relative to a root: the index of the root, and the normalised path below it (empty for the root itself).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RootLocation {
    pub(super) root: usize,
    pub(super) below: PathBuf,
}

impl Roots {
    /// Roots at these directories. Relative ones are resolved in the current directory.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self::with_strategy(roots, ResolveStrategy::default())
    }

    /// Roots that resolve paths in the given way.
    pub fn with_strategy(roots: Vec<PathBuf>, strategy: ResolveStrategy) -> Self {
        let roots =
            roots.iter().map(|root| clean(&std::path::absolute(root).unwrap_or(root.clone()))).collect();
        Self(Arc::new(Inner { roots, strategy, outer: None, guard: None, cleanup: Arc::default() }))
    }

    /// Narrower roots inside these. They are opened through these roots, so that a symlink in the place of a narrower
    /// root cannot lead outside.
    pub fn narrowed(&self, roots: Vec<PathBuf>) -> Result<Self, Error> {
        let mut inside = Vec::with_capacity(roots.len());
        for root in &roots {
            inside.push(self.admit(Path::new("/"), root)?.path);
        }
        let strategy = self.0.strategy;
        Ok(Self(Arc::new(Inner {
            roots: inside,
            strategy,
            outer: Some(self.clone()),
            guard: self.0.guard.clone(),
            cleanup: Arc::default(),
        })))
    }

    /// The same roots with an additional guard, which checks each path before it is accessed. Roots narrowed from these
    /// have it too.
    pub fn guarded(&self, guard: Arc<dyn PathGuard>) -> Self {
        let guard = match &self.0.guard {
            Some(held) => Arc::new(CombinedGuard(Arc::clone(held), guard)),
            None => guard,
        };
        let Inner { roots, strategy, outer, cleanup, .. } = &*self.0;
        Self(Arc::new(Inner {
            roots: roots.clone(),
            strategy: *strategy,
            outer: outer.clone(),
            guard: Some(guard),
            cleanup: Arc::clone(cleanup),
        }))
    }

    /// The roots as given, normalised.
    pub fn paths(&self) -> &[PathBuf] {
        &self.0.roots
    }

    /// Whether there are no roots, so that no path is permitted.
    pub fn is_empty(&self) -> bool {
        self.0.roots.is_empty()
    }

    /// The only way to obtain a [`RootedPath`]: `path`, relative to `base` if it is not absolute, and normalised by its
    /// text alone (`.`, `..`, `//`), must be inside a root. `~/` means the home directory unless a directory with that
    /// name exists. An empty path is `base`.
    pub fn admit(&self, base: &Path, path: &Path) -> Result<RootedPath, Error> {
        if path.as_os_str().as_bytes().contains(&0) || base.as_os_str().as_bytes().contains(&0) {
            return Err(Error::BadPath { path: path.to_owned(), reason: "path contains a NUL byte" });
        }
        let literal = self.admit_literal(&base.join(path));
        match at_home(path) {
            Some(at_home) if !literal.as_ref().is_ok_and(exists) => self.admit_literal(&at_home),
            _ => literal,
        }
    }

    fn admit_literal(&self, path: &Path) -> Result<RootedPath, Error> {
        let path = clean(&Path::new("/").join(path));
        match self.locate(&path) {
            Some(location) => Ok(RootedPath { roots: self.clone(), location, path }),
            None => Err(self.outside(path, None)),
        }
    }

    /// The location of a normalised absolute path: below the innermost root that contains it, by the path of the root
    /// as given or else by its real path.
    pub(super) fn locate(&self, path: &Path) -> Option<RootLocation> {
        let spelled = self
            .0
            .roots
            .iter()
            .enumerate()
            .filter_map(|(index, root)| Some((index, root, below(path, root)?)));
        if let Some((root, _, below)) = spelled.max_by_key(|(_, root, _)| root.as_os_str().len()) {
            return Some(RootLocation { root, below });
        }
        let real = |index: usize| below(path, &self.real(index)?);
        (0..self.0.roots.len()).find_map(|root| Some(RootLocation { root, below: real(root)? }))
    }

    /// The real path of a root, if it exists. It is used as text only: opening checks again.
    pub(super) fn real(&self, root: usize) -> Option<PathBuf> {
        std::fs::canonicalize(self.0.roots.get(root)?).ok()
    }

    pub(super) fn root(&self, root: usize) -> &Path {
        &self.0.roots[root]
    }

    pub(super) fn strategy(&self) -> ResolveStrategy {
        self.0.strategy
    }

    /// Whether new content may be unnamed until it is complete.
    pub(super) fn unnamed(&self) -> bool {
        self.0.strategy == ResolveStrategy::Kernel
    }

    /// The roots from which these were narrowed.
    pub fn outer(&self) -> Option<&Roots> {
        self.0.outer.as_ref()
    }

    pub(super) fn guard(&self) -> Option<&dyn PathGuard> {
        self.0.guard.as_deref()
    }

    pub(super) fn cleanup(&self) -> &CleanupCache {
        &self.0.cleanup
    }

    pub(super) fn outside(&self, path: PathBuf, resolved: Option<PathBuf>) -> Error {
        Error::OutsideRoots { path, resolved, roots: self.0.roots.clone() }
    }
}

impl RootedPath {
    /// The path as the caller wrote it, absolute and normalised. Symlinks are not resolved.
    pub fn as_path(&self) -> &Path {
        &self.path
    }

    /// The roots it was admitted by.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The same path, checked by one more guard when it is opened.
    pub fn guarded(&self, guard: Arc<dyn PathGuard>) -> RootedPath {
        RootedPath {
            roots: self.roots.guarded(guard),
            location: self.location.clone(),
            path: self.path.clone(),
        }
    }

    /// A path below this one.
    pub fn join(&self, relative: &Path) -> Result<RootedPath, Error> {
        self.roots.admit(&self.path, relative)
    }

    /// Whether this is a root, which can be neither removed nor renamed.
    pub(super) fn is_root(&self) -> bool {
        self.location.below.as_os_str().is_empty()
    }

    /// The directory of this path; `None` for a root.
    pub(super) fn parent(&self) -> Option<RootedPath> {
        let below = self.location.below.parent()?.to_owned();
        let path = self.path.parent()?.to_owned();
        Some(RootedPath {
            roots: self.roots.clone(),
            location: RootLocation { root: self.location.root, below },
            path,
        })
    }
}

/// Removes `.`, `..` and repeated slashes from an absolute path, by its text alone.
pub(crate) fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => cleaned.push(name),
            Component::ParentDir => {
                cleaned.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    cleaned
}

fn below(path: &Path, root: &Path) -> Option<PathBuf> {
    path.strip_prefix(root).ok().map(Path::to_owned)
}

/// Expands `~` or `~/…`, if the path has this form and there is a home directory.
fn at_home(path: &Path) -> Option<PathBuf> {
    let rest = path.strip_prefix(OsStr::new("~")).ok()?;
    Some(Path::new(&std::env::var_os("HOME")?).join(rest))
}

fn exists(path: &RootedPath) -> bool {
    matches!(super::stat(path), Ok(Some(_)))
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Roots").field(&self.0.roots).finish()
    }
}

impl fmt::Debug for RootedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RootedPath").field(&self.path).finish()
    }
}

impl PartialEq for RootedPath {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for RootedPath {}
