//! What confines the processes of a session: the operator's profile, the session's wish and the request's, all at once.

use std::cell::{Cell, OnceCell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;

use engine::files::Access;
use engine::sandbox::{Confinement, Profile, ProtectedPaths, ReadAccess};
use engine::{Error, Roots};

use crate::core::runtime_policy::RuntimePolicy;
use crate::core::sandbox::{SandboxTempDir, UnknownProfile};

/// Confinements that a session has worked out; past it they are worked out anew.
const WORKED_OUT: usize = 8;

/// What confines the processes of one session.
#[derive(Debug)]
pub(super) struct Confining {
    /// The profile that the session asked for.
    wish: Option<String>,
    roots: Roots,
    /// Named when something is first confined; most sessions never are.
    temp: OnceCell<SandboxTempDir>,
    has_temp: Cell<bool>,
    known: RefCell<Vec<Known>>,
}

/// A confinement, for as long as the operator's mind and the wish are the same.
#[derive(Debug)]
struct Known {
    runtime_policy: Arc<RuntimePolicy>,
    wish: Option<String>,
    confinement: Option<Arc<Confinement>>,
}

/// How one process is confined.
#[derive(Debug)]
pub(super) struct Confined {
    pub(super) confinement: Option<Arc<Confinement>>,
    /// Where it may put temporary files, if its profile has a place for them.
    pub(super) temp: Option<PathBuf>,
}

impl Confining {
    /// A session with these roots and this wish.
    pub(super) fn new(wish: Option<String>, roots: Roots) -> Confining {
        let (temp, has_temp) = (OnceCell::new(), Cell::new(false));
        Confining { wish, roots, temp, has_temp, known: RefCell::default() }
    }

    /// What confines every process of the session, whatever it asks for itself.
    pub(super) fn of_session(&self, runtime_policy: &Arc<RuntimePolicy>) -> Option<Arc<Confinement>> {
        if self.wish.is_none() && runtime_policy.sandbox.profile_name().is_none() {
            return None;
        }
        // The profile it was opened with may be gone from the configuration since: then nothing may be touched.
        self.look_up(runtime_policy, None).unwrap_or_else(|_gone| Some(Arc::new(nothing(self.wish.clone()))))
    }

    /// What confines a process that asks for `wish`.
    pub(super) fn of_process(
        &self,
        runtime_policy: &Arc<RuntimePolicy>,
        wish: Option<&str>,
        is_detached: bool,
    ) -> Result<Confined, Refused> {
        if self.wish.is_none() && wish.is_none() && runtime_policy.sandbox.profile_name().is_none() {
            return Ok(Confined { confinement: None, temp: None });
        }
        if is_detached {
            // It outlives the session, and so must its directory.
            let temp = SandboxTempDir::for_detached()?;
            let wishes = [self.wish.as_deref(), wish];
            let confinement = runtime_policy.sandbox.confinement(&wishes, self.roots.paths(), &temp)?;
            return confined(confinement, &temp, &Cell::new(false));
        }
        confined(self.look_up(runtime_policy, wish)?, self.temp()?, &self.has_temp)
    }

    fn temp(&self) -> Result<&SandboxTempDir, Error> {
        if let Some(temp) = self.temp.get() {
            return Ok(temp);
        }
        let temp = SandboxTempDir::new()?;
        Ok(self.temp.get_or_init(|| temp))
    }

    fn look_up(
        &self,
        runtime_policy: &Arc<RuntimePolicy>,
        wish: Option<&str>,
    ) -> Result<Option<Arc<Confinement>>, Refused> {
        let mut known = self.known.borrow_mut();
        let is_it = |known: &&Known| {
            Arc::ptr_eq(&known.runtime_policy, runtime_policy) && known.wish.as_deref() == wish
        };
        if let Some(found) = known.iter().find(is_it) {
            return Ok(found.confinement.clone());
        }
        let wishes = [self.wish.as_deref(), wish];
        let confinement = runtime_policy.sandbox.confinement(&wishes, self.roots.paths(), self.temp()?)?;
        if known.len() >= WORKED_OUT {
            known.clear();
        }
        let wish = wish.map(str::to_owned);
        known.push(Known { runtime_policy: runtime_policy.clone(), wish, confinement: confinement.clone() });
        Ok(confinement)
    }

    /// The directory to remove when the session is over.
    pub(super) fn used_temp(&self) -> Option<PathBuf> {
        self.temp.get().filter(|_| self.has_temp.get()).map(|temp| temp.path().to_owned())
    }
}

/// A confinement that allows nothing, called after what was asked for.
fn nothing(name: Option<String>) -> Confinement {
    let mut profile = Profile::read_only(&ProtectedPaths::default());
    profile.name = name.unwrap_or_default();
    profile.read = ReadAccess::Only(Vec::new());
    Confinement::new([Arc::new(profile)])
}

/// Why a process cannot be confined as it asks.
#[derive(Debug)]
pub(super) enum Refused {
    Unknown(UnknownProfile),
    Failed(Error),
}

impl From<UnknownProfile> for Refused {
    fn from(unknown: UnknownProfile) -> Refused {
        Refused::Unknown(unknown)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Failed(error)
    }
}

fn confined(
    confinement: Option<Arc<Confinement>>,
    temp: &SandboxTempDir,
    has_temp: &Cell<bool>,
) -> Result<Confined, Refused> {
    let Some(confinement) = confinement else { return Ok(Confined { confinement: None, temp: None }) };
    if !confinement.permits(temp.path(), Access::Write) {
        return Ok(Confined { confinement: Some(confinement), temp: None });
    }
    if !has_temp.get() {
        temp.make().map_err(|source| {
            let reason = format!("{} cannot be made: {source}", temp.path().display());
            Error::Sandbox { profile: confinement.name(), reason }
        })?;
        has_temp.set(true);
    }
    Ok(Confined { confinement: Some(confinement), temp: Some(temp.path().to_owned()) })
}
