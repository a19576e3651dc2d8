//! Features: what this kernel can enforce for this user.

use std::str::FromStr;
use std::sync::OnceLock;

use super::{landlock, namespace};

/// Version of Landlock that leaves no gaps.
const NO_GAP_SINCE: u32 = 6;

static PROBED: OnceLock<Features> = OnceLock::new();

/// Features of the kernel, found by probing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// Version of the Landlock ABI.
    pub landlock: Option<u32>,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// Whether a mount namespace can be created, with or without a user namespace.
    pub namespaces: bool,
    /// Whether a user namespace is needed because this user may not mount.
    pub needs_user_namespace: bool,
}

impl Features {
    /// Probes the kernel once, with a child process and a few mounts, and caches the result.
    pub fn probe() -> Features {
        PROBED.get_or_init(Features::probe_kernel).clone()
    }

    /// The cached result, if the kernel was probed.
    pub(super) fn known() -> Option<Features> {
        PROBED.get().cloned()
    }

    fn probe_kernel() -> Features {
        let may_mount = namespace::can_be_created(false);
        Features {
            landlock: landlock::version(),
            seccomp: can_filter(),
            namespaces: may_mount || namespace::can_be_created(true),
            needs_user_namespace: !may_mount,
        }
    }

    /// Whether every profile can be enforced completely.
    pub(super) fn have_no_gaps(&self) -> bool {
        self.seccomp && self.namespaces && self.landlock.is_some_and(|version| version >= NO_GAP_SINCE)
    }

    /// The features without those that the mask removes.
    pub fn masked_by(self, mask: &FeatureMask) -> Features {
        let landlock = self.landlock.map(|has| has.min(mask.landlock.unwrap_or(has)));
        Features {
            landlock: landlock.filter(|version| *version > 0),
            seccomp: self.seccomp && !mask.no_seccomp,
            namespaces: self.namespaces && !mask.no_namespaces,
            needs_user_namespace: self.needs_user_namespace,
        }
    }
}

/// Features that are not used even if the kernel has them; it cannot add features. Parsed from text such as
/// `landlock=2,namespaces=off,seccomp=off`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeatureMask {
    landlock: Option<u32>,
    no_seccomp: bool,
    no_namespaces: bool,
}

impl FromStr for FeatureMask {
    type Err = UnknownFeature;

    /// Fails on the first unknown word.
    fn from_str(text: &str) -> Result<FeatureMask, UnknownFeature> {
        let mut mask = FeatureMask::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let unknown = || UnknownFeature(word.to_owned());
            let (name, value) = word.split_once('=').ok_or_else(unknown)?;
            match (name.trim(), value.trim()) {
                ("landlock", "off") => mask.landlock = Some(0),
                ("landlock", version) => {
                    let version: u32 = version.parse().map_err(|_| unknown())?;
                    mask.landlock = Some(mask.landlock.map_or(version, |before| before.min(version)));
                }
                ("seccomp", "off") => mask.no_seccomp = true,
                ("namespaces", "off") => mask.no_namespaces = true,
                ("seccomp" | "namespaces", "on") => {}
                _ => return Err(unknown()),
            }
        }
        Ok(mask)
    }
}

/// An unknown feature, or an invalid value for one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown feature {0:?}: use landlock=VERSION, landlock=off, seccomp=off or namespaces=off")]
pub struct UnknownFeature(pub String);

/// Whether system calls can be filtered, without installing a filter.
fn can_filter() -> bool {
    match std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) => actions.split_whitespace().any(|action| action == "errno"),
        // Some containers hide the file. If filters are unavailable, the child fails to install one and does not start.
        Err(_hidden) => {
            std::fs::read_to_string("/proc/self/status").is_ok_and(|text| text.contains("\nSeccomp:"))
        }
    }
}
