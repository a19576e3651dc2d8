//! Sandbox profiles by name, the daemon's own files that they protect, and temporary directories of confined
//! processes. The engine enforces the profiles.

mod own;
mod resolve;
mod session;
mod temp_dir;

pub use session::{Confined, SandboxRefusal, SessionSandbox};
pub use temp_dir::{SandboxTempDir, detached_temp_dir, remove_temp_dir};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::sandbox::{
    Confinement, FeatureMask, Features, Profile, ProtectedPaths, ReadAccess, SandboxSettings, UnknownFeature,
};

use own::OwnFiles;

use crate::config::{BUILT_IN, Config, CustomProfile, OFF, Paths, SandboxConfig};

/// The environment variable that disables kernel features, for tests and for hosts where they misbehave.
pub const FEATURES_VARIABLE: &str = "REXD_SANDBOX_FEATURES";

/// The features of this kernel, without those that [`FEATURES_VARIABLE`] disables.
pub fn lowered_features() -> Result<Features, UnknownFeature> {
    Ok(Features::probe().masked_by(&feature_mask()?))
}

/// The features that [`FEATURES_VARIABLE`] allows.
fn feature_mask() -> Result<FeatureMask, UnknownFeature> {
    std::env::var(FEATURES_VARIABLE).unwrap_or_default().parse()
}

/// The engine's settings for confinement.
pub fn settings(config: &Config) -> Result<SandboxSettings, UnknownFeature> {
    Ok(SandboxSettings { feature_mask: feature_mask()?, on_gap: config.sandbox.on_gap })
}

/// The sandbox profiles of a configuration.
#[derive(Debug, Clone)]
pub struct Sandbox {
    config: SandboxConfig,
    /// The daemon's own files.
    own: OwnFiles,
    /// Paths that some command can write, as configured; a parent comes before its children.
    changeable: Vec<PathBuf>,
}

/// A request for a profile that is not configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown sandbox profile {name:?}; known profiles: {}", known.join(", "))]
pub struct UnknownProfile {
    /// The requested profile.
    pub name: String,
    /// The names of all profiles.
    pub known: Vec<String>,
}

impl Sandbox {
    /// The profiles of a configuration. `paths` gives the daemon's own files.
    pub fn new(config: &Config, paths: &Paths) -> Sandbox {
        let written = config.sandbox.profiles.iter().flat_map(|profile| &profile.write);
        let mut changeable: Vec<PathBuf> = config.roots.iter().chain(written).cloned().collect();
        changeable.sort_by_key(|path| path.components().count());
        Sandbox { config: config.sandbox.clone(), own: OwnFiles::new(config, paths), changeable }
    }

    /// The daemon's own files at this moment, with symbolic links resolved.
    pub(crate) fn own_files(&self) -> ProtectedPaths {
        self.own.resolve(&resolve::all(&self.changeable))
    }

    /// The name of the profile that the operator prescribes for every command.
    pub fn profile_name(&self) -> Option<&str> {
        self.config.profile.as_deref()
    }

    /// The confinement from the operator's profile and all `requested` ones, for these roots. `None` if no profile
    /// applies.
    pub fn confinement(
        &self,
        requested: &[Option<&str>],
        roots: &[PathBuf],
        temp: &SandboxTempDir,
    ) -> Result<Option<Arc<Confinement>>, UnknownProfile> {
        let names = std::iter::once(self.profile_name()).chain(requested.iter().copied());
        let names: Vec<&str> = names.flatten().filter(|name| *name != OFF).collect();
        if names.is_empty() {
            return Ok(None);
        }
        let changeable = resolve::all(&self.changeable);
        let own = self.own.resolve(&changeable);
        let mut layers: Vec<Arc<Profile>> = Vec::new();
        for name in names {
            if !layers.iter().any(|layer| layer.name == name) {
                layers.push(Arc::new(self.profile(name, (roots, temp), (&changeable, &own))?));
            }
        }
        let confinement = Confinement::new(layers);
        Ok((!confinement.is_off()).then(|| Arc::new(confinement)))
    }

    /// Checks that a profile of this name exists.
    pub fn check(&self, name: &str) -> Result<(), UnknownProfile> {
        let is_built_in = name == OFF || BUILT_IN.contains(&name);
        if is_built_in || self.config.profiles.iter().any(|profile| profile.name == name) {
            return Ok(());
        }
        let custom = self.config.profiles.iter().map(|profile| profile.name.clone());
        let known = [OFF].into_iter().chain(BUILT_IN).map(str::to_owned).chain(custom).collect();
        Err(UnknownProfile { name: name.to_owned(), known })
    }

    fn profile(
        &self,
        name: &str,
        (roots, temp): (&[PathBuf], &SandboxTempDir),
        (changeable, own): (&[PathBuf], &ProtectedPaths),
    ) -> Result<Profile, UnknownProfile> {
        self.check(name)?;
        let settle = |path: &Path| resolve::one(path, changeable);
        let roots: Vec<PathBuf> = roots.iter().map(|root| settle(root)).collect();
        let mut profile = match self.config.profiles.iter().find(|profile| profile.name == name) {
            Some(custom) => custom_profile(custom, (&roots, temp, own), settle),
            None if name == BUILT_IN[0] => Profile::read_only(own),
            None => Profile::workspace_write(&roots, Some(temp.path()), own),
        };
        profile.limits = profile.limits.lower(self.config.limits);
        Ok(profile)
    }
}

/// A profile of the configuration, for these roots.
fn custom_profile(
    custom: &CustomProfile,
    (roots, temp, own): (&[PathBuf], &SandboxTempDir, &ProtectedPaths),
    settle: impl Fn(&Path) -> PathBuf,
) -> Profile {
    let roots: &[PathBuf] = if custom.write_roots { roots } else { &[] };
    let mut profile = Profile::workspace_write(roots, Some(temp.path()), own);
    let all = |paths: &[PathBuf]| -> Vec<PathBuf> { paths.iter().map(|path| real(path)).collect() };
    profile.name = custom.name.clone();
    let resolve: Vec<PathBuf> = custom.write.iter().map(|path| settle(path)).collect();
    profile.hide.extend(all(&custom.hide));
    profile.protect.extend(all(&custom.protect));
    profile.protect.extend(resolve.iter().map(|path| path.join(".git/hooks")));
    profile.write.extend(resolve);
    if !custom.read.is_empty() {
        profile.read = ReadAccess::Only(custom.read.iter().map(|path| settle(path)).collect());
    }
    profile.network = custom.network.clone();
    profile.unix_sockets = custom.unix_sockets;
    profile.limits = custom.limits;
    profile
}

/// Resolves symbolic links in the existing part of a path: the kernel checks resolved paths.
pub(crate) fn real(path: &Path) -> PathBuf {
    if let Ok(found) = path.canonicalize() {
        return found;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}
