//! Features: what this kernel, for this user, can hold.

use std::str::FromStr;
use std::sync::OnceLock;

use super::{landlock, namespace};

/// Landlock's version from which on no gap is left.
const NO_GAP_SINCE: u32 = 6;

static FOUND: OnceLock<Features> = OnceLock::new();

/// What the kernel can hold, found out by trying.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// The version of Landlock's interface.
    pub landlock: Option<u32>,
    /// Whether system calls can be filtered.
    pub seccomp: bool,
    /// Whether a mount namespace can be had, with a user namespace or without.
    pub namespaces: bool,
    /// Whether it takes a user namespace, because this user may not mount.
    pub needs_user_namespace: bool,
}

impl Features {
    /// What there is; looked up once, which takes a child and a few mounts.
    pub fn probe() -> Features {
        FOUND.get_or_init(Features::look).clone()
    }

    /// What there is, if somebody has looked.
    pub(super) fn known() -> Option<Features> {
        FOUND.get().cloned()
    }

    fn look() -> Features {
        let may_mount = namespace::can_be_made(false);
        Features {
            landlock: landlock::version(),
            seccomp: can_filter(),
            namespaces: may_mount || namespace::can_be_made(true),
            needs_user_namespace: !may_mount,
        }
    }

    /// Whether there is nothing that a profile could ask for in vain.
    pub(super) fn hold_everything(&self) -> bool {
        self.seccomp && self.namespaces && self.landlock.is_some_and(|version| version >= NO_GAP_SINCE)
    }

    /// What is left of them under a mask.
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

/// The most that is used of what the kernel can hold: nothing can be added by it that is not there. Read from text such
/// as `landlock=2,namespaces=off,seccomp=off` without asking the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeatureMask {
    landlock: Option<u32>,
    no_seccomp: bool,
    no_namespaces: bool,
}

impl FromStr for FeatureMask {
    type Err = UnknownFeature;

    /// Words it does not know are an error that names them.
    fn from_str(text: &str) -> Result<FeatureMask, UnknownFeature> {
        let mut mask = FeatureMask::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let unknown = || UnknownFeature(word.to_owned());
            let (name, value) = word.split_once('=').ok_or_else(unknown)?;
            match (name.trim(), value.trim()) {
                ("landlock", "off") => mask.landlock = Some(0),
                ("landlock", version) => {
                    let most: u32 = version.parse().map_err(|_| unknown())?;
                    mask.landlock = Some(mask.landlock.map_or(most, |before| before.min(most)));
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

/// A word that names no feature, or no value of one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a feature to lower: use landlock=VERSION, seccomp=off, namespaces=off")]
pub struct UnknownFeature(pub String);

/// Whether calls can be filtered; asks, and changes nothing.
fn can_filter() -> bool {
    match std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) => actions.split_whitespace().any(|action| action == "errno"),
        // Some containers hide it. If there is none after all, the child fails to put it on and does not start.
        Err(_hidden) => {
            std::fs::read_to_string("/proc/self/status").is_ok_and(|text| text.contains("\nSeccomp:"))
        }
    }
}
