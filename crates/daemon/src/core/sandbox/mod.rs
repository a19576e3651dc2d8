//! The sandbox as the operator has it: profiles by their names, what belongs to the daemon itself, and temporary
//! directories for those who are confined. The kernel's part is the engine's.

mod resolve;
mod temp_dir;

pub use temp_dir::{SandboxTempDir, detached_temp_dir, remove_temp_dir};

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use engine::sandbox::{
    Confinement, FeatureMask, Features, Profile, ProtectedPaths, ReadAccess, SandboxSettings, UnknownFeature,
};

use crate::config::{BUILT_IN, Config, CustomProfile, OFF, Paths, SandboxConfig, TokenSource};

/// Takes features away from the kernel, for tests and for hosts where they misbehave. Nothing can be added by it.
pub const FEATURES_VARIABLE: &str = "REXD_SANDBOX_FEATURES";

/// What this kernel can hold, less what the environment takes away.
pub fn lowered_features() -> Result<Features, UnknownFeature> {
    Ok(Features::probe().masked_by(&feature_mask()?))
}

/// What the environment leaves of the kernel's features. Asks nobody.
fn feature_mask() -> Result<FeatureMask, UnknownFeature> {
    std::env::var(FEATURES_VARIABLE).unwrap_or_default().parse()
}

/// What the engine has to know about confining processes.
pub fn settings(config: &Config) -> Result<SandboxSettings, UnknownFeature> {
    Ok(SandboxSettings { feature_mask: feature_mask()?, on_gap: config.sandbox.on_gap })
}

/// Profiles by their names.
#[derive(Debug, Clone)]
pub struct Sandbox {
    config: SandboxConfig,
    /// What belongs to the daemon, as it was written.
    written: ProtectedPaths,
    /// Where that really is, once anybody is confined.
    own: OnceLock<ProtectedPaths>,
    /// What some command may change, as the operator wrote it; whatever lies in another one comes after it.
    changeable: Vec<PathBuf>,
}

/// A profile that was asked for and is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no sandbox profile {name:?}; there are {}", known.join(", "))]
pub struct UnknownProfile {
    /// What was asked for.
    pub name: String,
    /// What there is.
    pub known: Vec<String>,
}

impl Sandbox {
    /// The profiles of a configuration. What belongs to the daemon is known from its places.
    pub fn new(config: &Config, paths: &Paths) -> Sandbox {
        let tokens = config.auth.tokens.iter().filter_map(|token| match &token.source {
            TokenSource::File(path) => Some(path.clone()),
            _ => None,
        });
        let key = config.server.tls.as_ref().map(|tls| tls.key.clone());
        // Whoever reaches the socket has the daemon start what it likes, unconfined.
        let exec_server = &config.exec_server;
        let more = [config.server.unix.clone(), config.audit.path.clone(), paths.token_file.clone(), key];
        let more =
            more.into_iter().chain([exec_server.ws_auth.file.clone(), exec_server.remote_token_file.clone()]);
        let hide = paths.state.iter().cloned().chain(tokens).chain(more.flatten());
        let own = ProtectedPaths { protect: config.source.iter().cloned().collect(), hide: hide.collect() };
        let written = config.sandbox.profiles.iter().flat_map(|profile| &profile.write);
        let mut changeable: Vec<PathBuf> = config.roots.iter().chain(written).cloned().collect();
        changeable.sort_by_key(|path| path.components().count());
        Sandbox { config: config.sandbox.clone(), written: own, own: OnceLock::new(), changeable }
    }

    /// What belongs to the daemon, where it really is.
    fn own(&self) -> &ProtectedPaths {
        let all = |paths: &[PathBuf]| paths.iter().map(|path| real(path)).collect();
        self.own.get_or_init(|| ProtectedPaths {
            protect: all(&self.written.protect),
            hide: all(&self.written.hide),
        })
    }

    /// The profile that the operator wants for every command, by its name.
    pub fn profile_name(&self) -> Option<&str> {
        self.config.profile.as_deref()
    }

    /// What the names of a wish mean for somebody with these roots: the operator's profile and theirs, all of which
    /// hold. Nothing if nobody wants anything.
    pub fn confinement(
        &self,
        wishes: &[Option<&str>],
        roots: &[PathBuf],
        temp: &SandboxTempDir,
    ) -> Result<Option<Arc<Confinement>>, UnknownProfile> {
        let names = std::iter::once(self.profile_name()).chain(wishes.iter().copied());
        let mut layers = Vec::new();
        for name in names.flatten().filter(|name| *name != OFF) {
            layers.push(Arc::new(self.profile(name, roots, temp)?));
        }
        let confinement = Confinement::new(layers);
        Ok((!confinement.is_off()).then(|| Arc::new(confinement)))
    }

    /// Whether a wish can be understood.
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
        roots: &[PathBuf],
        temp: &SandboxTempDir,
    ) -> Result<Profile, UnknownProfile> {
        self.check(name)?;
        let changeable = resolve::all(&self.changeable);
        let settle = |path: &Path| resolve::one(path, &changeable);
        let roots: Vec<PathBuf> = roots.iter().map(|root| settle(root)).collect();
        let own = self.own_outside(&roots);
        let mut profile = match self.config.profiles.iter().find(|profile| profile.name == name) {
            Some(custom) => built(custom, (&roots, temp, &own), settle),
            None if name == BUILT_IN[0] => Profile::read_only(&own),
            None => Profile::workspace_write(&roots, Some(temp.path()), &own),
        };
        profile.limits = profile.limits.lower(self.config.limits);
        Ok(profile)
    }

    /// What belongs to the daemon, but for what holds a root itself: the operator has put it there.
    pub(crate) fn own_outside(&self, roots: &[PathBuf]) -> ProtectedPaths {
        let holds_root = |path: &PathBuf| roots.iter().any(|root| root.starts_with(path));
        let outside = |paths: &[PathBuf]| paths.iter().filter(|path| !holds_root(path)).cloned().collect();
        ProtectedPaths { protect: outside(&self.own().protect), hide: outside(&self.own().hide) }
    }
}

/// A profile of the operator, for somebody with these roots.
fn built(
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

/// Where a path really is, as far as it exists: the kernel judges by that.
pub(crate) fn real(path: &Path) -> PathBuf {
    if let Ok(found) = path.canonicalize() {
        return found;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    }
}
