//! Roots and RootedPath: the only way to a path.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use super::guard::{Both, PathGuard};
use super::stray::Swept;
use crate::Error;

/// The directories that files may be touched in. Cheap to clone.
///
/// A root need not exist yet, may itself be a link, and may be `/`, which permits everything.
#[derive(Clone)]
pub struct Roots(Arc<Inner>);

struct Inner {
    roots: Vec<PathBuf>,
    strategy: ResolveStrategy,
    outer: Option<Roots>,
    guard: Option<Arc<dyn PathGuard>>,
    swept: Arc<Swept>,
}

/// Which calls of the kernel are relied on. Both ways give the same answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResolveStrategy {
    /// Its best: one `openat2` call for a path, files without a name for new content; the other way only
    /// where these cannot decide or do not exist.
    #[default]
    Kernel,
    /// Its oldest, as on kernels, file systems and in containers without those: paths are walked component
    /// by component, and new content has a temporary name from the start.
    Walk,
}

/// An absolute path that lies inside a root by its text. Links in it are settled when it is opened,
/// relative to a directory descriptor, so nothing can be swapped in between.
#[derive(Clone)]
pub struct RootedPath {
    pub(super) roots: Roots,
    pub(super) spot: Spot,
    path: PathBuf,
}

/// A place below a root: which root, and the cleaned way down from it (empty for the root itself).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) root: usize,
    pub(super) below: PathBuf,
}

impl Roots {
    /// Roots at these directories. Relative ones are taken from the current directory.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self::with_strategy(roots, ResolveStrategy::default())
    }

    /// Roots that resolve paths in the given way.
    pub fn with_strategy(roots: Vec<PathBuf>, strategy: ResolveStrategy) -> Self {
        let roots =
            roots.iter().map(|root| clean(&std::path::absolute(root).unwrap_or(root.clone()))).collect();
        Self(Arc::new(Inner { roots, strategy, outer: None, guard: None, swept: Arc::default() }))
    }

    /// Smaller roots inside these. They are opened through these roots, so that a link put in the
    /// place of a smaller root leads nowhere else.
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
            swept: Arc::default(),
        })))
    }

    /// The same roots, where each place is also held against a guard before it is touched; a guard they have already
    /// stays. Roots narrowed from these have it too.
    pub fn guarded(&self, guard: Arc<dyn PathGuard>) -> Self {
        let guard = match &self.0.guard {
            Some(held) => Arc::new(Both(Arc::clone(held), guard)),
            None => guard,
        };
        let Inner { roots, strategy, outer, swept, .. } = &*self.0;
        Self(Arc::new(Inner {
            roots: roots.clone(),
            strategy: *strategy,
            outer: outer.clone(),
            guard: Some(guard),
            swept: Arc::clone(swept),
        }))
    }

    /// The roots as they were given, cleaned.
    pub fn paths(&self) -> &[PathBuf] {
        &self.0.roots
    }

    /// Whether there are no roots, so that nothing is permitted.
    pub fn is_empty(&self) -> bool {
        self.0.roots.is_empty()
    }

    /// The only way to obtain a [`RootedPath`]: `path`, taken from `base` if relative, cleaned of `.`, `..`
    /// and `//` by its text alone, must lie inside a root. `~/` means the home directory unless a
    /// directory of that name exists. An empty path is `base` itself.
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
            Some(spot) => Ok(RootedPath { roots: self.clone(), spot, path }),
            None => Err(self.outside(path, None)),
        }
    }

    /// Where a cleaned absolute path lies: below the innermost root that contains it, by the root's
    /// own spelling first, else by where the root really is.
    pub(super) fn locate(&self, path: &Path) -> Option<Spot> {
        let spelled = self
            .0
            .roots
            .iter()
            .enumerate()
            .filter_map(|(index, root)| Some((index, root, below(path, root)?)));
        if let Some((root, _, below)) = spelled.max_by_key(|(_, root, _)| root.as_os_str().len()) {
            return Some(Spot { root, below });
        }
        let real = |index: usize| below(path, &self.real(index)?);
        (0..self.0.roots.len()).find_map(|root| Some(Spot { root, below: real(root)? }))
    }

    /// Where a root really is, when it exists. Only text: whoever opens it checks again.
    pub(super) fn real(&self, root: usize) -> Option<PathBuf> {
        std::fs::canonicalize(self.0.roots.get(root)?).ok()
    }

    pub(super) fn root(&self, root: usize) -> &Path {
        &self.0.roots[root]
    }

    pub(super) fn strategy(&self) -> ResolveStrategy {
        self.0.strategy
    }

    /// Whether new content may be without a name until it is complete.
    pub(super) fn nameless(&self) -> bool {
        self.0.strategy == ResolveStrategy::Kernel
    }

    /// The roots inside which these were narrowed.
    pub fn outer(&self) -> Option<&Roots> {
        self.0.outer.as_ref()
    }

    pub(super) fn guard(&self) -> Option<&dyn PathGuard> {
        self.0.guard.as_deref()
    }

    pub(super) fn swept(&self) -> &Swept {
        &self.0.swept
    }

    pub(super) fn outside(&self, path: PathBuf, resolved: Option<PathBuf>) -> Error {
        Error::OutsideRoots { path, resolved, roots: self.0.roots.clone() }
    }
}

impl RootedPath {
    /// The path as the caller spelled it, absolute and cleaned. Never where links lead.
    pub fn as_path(&self) -> &Path {
        &self.path
    }

    /// The roots it was admitted by.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// The same path, checked by one more guard when it is opened.
    pub fn guarded(&self, guard: Arc<dyn PathGuard>) -> RootedPath {
        RootedPath { roots: self.roots.guarded(guard), spot: self.spot.clone(), path: self.path.clone() }
    }

    /// A path further down, spelled with `relative`.
    pub fn join(&self, relative: &Path) -> Result<RootedPath, Error> {
        self.roots.admit(&self.path, relative)
    }

    /// Whether this names a root itself, which can be neither removed nor renamed.
    pub(super) fn is_root(&self) -> bool {
        self.spot.below.as_os_str().is_empty()
    }

    /// The directory this lies in, or nothing for a root.
    pub(super) fn parent(&self) -> Option<RootedPath> {
        let below = self.spot.below.parent()?.to_owned();
        let path = self.path.parent()?.to_owned();
        Some(RootedPath { roots: self.roots.clone(), spot: Spot { root: self.spot.root, below }, path })
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

/// `~` or `~/…` spelled out, if that is what the path is and there is a home.
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
