//! The sandbox of a session: the operator's profile, the session's and the request's apply together.

use std::cell::{Cell, OnceCell};
use std::path::PathBuf;
use std::sync::Arc;

use engine::files::Access;
use engine::sandbox::{Confinement, Profile, ProtectedPaths, ReadAccess};
use engine::{Error, Roots};

use super::{SandboxTempDir, UnknownProfile};
use crate::core::runtime_policy::RuntimePolicy;

/// Computes what confines the processes and files of one session.
#[derive(Debug)]
pub struct SessionSandbox {
    /// The profile that the session requested.
    profile: Option<String>,
    roots: Roots,
    /// Created when something is first confined; most sessions never are.
    temp: OnceCell<SandboxTempDir>,
    has_temp: Cell<bool>,
}

/// How one process is confined; nothing confines it if both are `None`.
#[derive(Debug)]
pub struct Confined {
    /// What the kernel enforces for it.
    pub confinement: Option<Arc<Confinement>>,
    /// Its directory for temporary files, if its profile allows one.
    pub temp: Option<PathBuf>,
}

impl SessionSandbox {
    /// The sandbox of a session with these roots that requested this profile.
    pub fn new(profile: Option<String>, roots: Roots) -> SessionSandbox {
        let (temp, has_temp) = (OnceCell::new(), Cell::new(false));
        SessionSandbox { profile, roots, temp, has_temp }
    }

    /// What confines every process and file operation of the session.
    pub fn of_session(&self, policy: &Arc<RuntimePolicy>) -> Option<Arc<Confinement>> {
        if self.profile.is_none() && policy.sandbox.profile_name().is_none() {
            return None;
        }
        // The profile may have been removed from the configuration since: then nothing is allowed.
        self.look_up(policy, None).unwrap_or_else(|_gone| Some(Arc::new(nothing(self.profile.clone()))))
    }

    /// What confines a process that requests `profile`.
    pub fn of_process(
        &self,
        policy: &Arc<RuntimePolicy>,
        profile: Option<&str>,
        is_detached: bool,
    ) -> Result<Confined, SandboxRefusal> {
        if self.profile.is_none() && profile.is_none() && policy.sandbox.profile_name().is_none() {
            return Ok(Confined { confinement: None, temp: None });
        }
        if is_detached {
            // The process outlives the session, and so must its directory.
            let temp = SandboxTempDir::for_detached()?;
            let requested = [self.profile.as_deref(), profile];
            let confinement = policy.sandbox.confinement(&requested, self.roots.paths(), &temp)?;
            return confined(confinement, &temp, &Cell::new(false));
        }
        confined(self.look_up(policy, profile)?, self.temp()?, &self.has_temp)
    }

    fn temp(&self) -> Result<&SandboxTempDir, Error> {
        if let Some(temp) = self.temp.get() {
            return Ok(temp);
        }
        let temp = SandboxTempDir::new()?;
        Ok(self.temp.get_or_init(|| temp))
    }

    /// Paths are resolved for each command, because files are replaced and links are switched.
    fn look_up(
        &self,
        policy: &RuntimePolicy,
        profile: Option<&str>,
    ) -> Result<Option<Arc<Confinement>>, SandboxRefusal> {
        let requested = [self.profile.as_deref(), profile];
        Ok(policy.sandbox.confinement(&requested, self.roots.paths(), self.temp()?)?)
    }

    /// What confines an operation that brings a profile of its own, on top of the operator's.
    pub fn with_profile(
        &self,
        policy: &Arc<RuntimePolicy>,
        profile: Option<Profile>,
    ) -> Result<Confined, SandboxRefusal> {
        if profile.is_none() && policy.sandbox.profile_name().is_none() {
            return Ok(Confined { confinement: None, temp: None });
        }
        let operator = policy.sandbox.confinement(&[], self.roots.paths(), self.temp()?)?;
        let layers = operator.iter().flat_map(|operator| operator.layers().iter().cloned());
        let confinement = Confinement::new(layers.chain(profile.map(Arc::new)));
        let confinement = (!confinement.is_off()).then(|| Arc::new(confinement));
        confined(confinement, self.temp()?, &self.has_temp)
    }

    /// The temporary directory to remove when the session is over.
    pub fn used_temp(&self) -> Option<PathBuf> {
        self.temp.get().filter(|_| self.has_temp.get()).map(|temp| temp.path().to_owned())
    }
}

/// A confinement that allows nothing, under the name of the requested profile.
fn nothing(name: Option<String>) -> Confinement {
    let mut profile = Profile::read_only(&ProtectedPaths::default());
    profile.name = name.unwrap_or_default();
    profile.read = ReadAccess::Only(Vec::new());
    Confinement::new([Arc::new(profile)])
}

/// Why a process cannot be confined as it requests.
#[derive(Debug, thiserror::Error)]
pub enum SandboxRefusal {
    /// It names a profile that is not configured.
    #[error(transparent)]
    Unknown(#[from] UnknownProfile),
    /// The sandbox could not be prepared.
    #[error(transparent)]
    Failed(#[from] Error),
}

fn confined(
    confinement: Option<Arc<Confinement>>,
    temp: &SandboxTempDir,
    has_temp: &Cell<bool>,
) -> Result<Confined, SandboxRefusal> {
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
