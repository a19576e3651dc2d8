//! The sandbox: restricts the files, network and system calls of processes in the kernel.
//!
//! A [`Profile`] describes what is allowed, a [`Confinement`] stacks profiles, [`Features`] describe what this kernel can
//! enforce, and a [`Gap`] is a part that it cannot enforce. The engine prepares a confinement once; each child applies it
//! between clone and exec.

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
pub(crate) use standin::{StandIns, remove_abandoned_stand_in};

pub use confinement::Confinement;
pub use features::{FeatureMask, Features, UnknownFeature};
pub use gap::Gap;
pub use namespace::is_confined;
pub use profile::{Network, Profile, ProtectedPaths, ReadAccess, ResourceLimits};

/// Behaviour if the kernel cannot enforce a part of a confinement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnGap {
    /// The process is not started.
    #[default]
    Refuse,
    /// The process is started with the part that the kernel can enforce.
    Reduce,
}

/// Settings of an engine for confined processes.
#[derive(Debug, Clone, Default)]
pub struct SandboxSettings {
    /// Features that are not used even if the kernel has them. Features are probed for the first confined process.
    pub feature_mask: FeatureMask,
    /// Behaviour if the features are not sufficient.
    pub on_gap: OnGap,
}

impl SandboxSettings {
    /// Features of the kernel without the masked ones.
    pub fn features(&self) -> Features {
        Features::probe().masked_by(&self.feature_mask)
    }
}

/// A failure of a process that its confinement caused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// The path, if the process named one.
    pub path: Option<PathBuf>,
    /// Kind of the refused access.
    pub kind: DenialKind,
}

/// Kind of an access that a confinement refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenialKind {
    /// Write to a file.
    Write,
    /// Read or execution of a file.
    Read,
    /// Use of the network.
    Network,
    /// A filtered system call.
    Call,
}
