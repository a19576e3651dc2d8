//! The sandbox: what a process may touch, held by the kernel below every shell.
//!
//! A [`Profile`] says what is allowed in words, a [`Confinement`] stacks profiles, [`Features`] say what this kernel can
//! hold, and a [`Gap`] is what it cannot. The engine makes everything once per confinement and lets each child put it
//! on between clone and exec.

mod cache;
mod confinement;
mod denial;
mod enter;
mod features;
mod gap;
mod landlock;
mod namespace;
mod path_guard;
mod prepared;
mod profile;
mod script;
mod seccomp;
mod standin;

use std::path::PathBuf;

pub(crate) use cache::SandboxCache;
pub(crate) use denial::DenialDetector;
pub(crate) use enter::{ChildConfinement, ConfinementStep, enter};
pub(crate) use prepared::PreparedSandbox;
pub(crate) use standin::StandIns;

pub use confinement::Confinement;
pub use features::{FeatureMask, Features, UnknownFeature};
pub use gap::Gap;
pub use profile::{Network, Profile, ProtectedPaths, ReadAccess, ResourceLimits};

/// What happens when a kernel cannot hold a part of a confinement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnGap {
    /// The process is not started.
    #[default]
    Refuse,
    /// It is started with what the kernel can hold.
    Reduce,
}

/// What an engine knows about confining processes.
#[derive(Debug, Clone, Default)]
pub struct SandboxSettings {
    /// The most that is used of what the kernel can hold, which is looked up when something is first confined.
    pub feature_mask: FeatureMask,
    /// What happens when that is too little.
    pub on_gap: OnGap,
}

impl SandboxSettings {
    /// What the kernel can hold, as far as it is used.
    pub fn features(&self) -> Features {
        Features::probe().masked_by(&self.feature_mask)
    }
}

/// Something a process failed at because of its confinement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The path it was about, where the process named one.
    pub path: Option<PathBuf>,
    /// What was refused.
    pub kind: DenialKind,
}

/// What a confinement refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenialKind {
    /// Changing a file.
    Write,
    /// Reading or executing a file.
    Read,
    /// Reaching the network.
    Network,
    /// A system call.
    Call,
}
