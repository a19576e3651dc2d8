//! Features: what this kernel, for this user, can hold.

use std::sync::OnceLock;

use super::{landlock, namespace};

/// Landlock's version from which on no gap is left.
const NO_GAP_SINCE: u32 = 6;

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
    /// What there is; looked up once.
    pub fn probe() -> Features {
        static FOUND: OnceLock<Features> = OnceLock::new();
        FOUND.get_or_init(Features::look).clone()
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

    /// Takes away what `text` says, such as `landlock=2,namespaces=off,seccomp=off`. Nothing can be added that is not
    /// there. Words it does not know are an error that names them.
    pub fn lowered(mut self, text: &str) -> Result<Features, UnknownFeature> {
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let unknown = || UnknownFeature(word.to_owned());
            let (name, value) = word.split_once('=').ok_or_else(unknown)?;
            match (name.trim(), value.trim()) {
                ("landlock", "off") => self.landlock = None,
                ("landlock", version) => {
                    let most: u32 = version.parse().map_err(|_| unknown())?;
                    self.landlock = self.landlock.map(|has| has.min(most)).filter(|version| *version > 0);
                }
                ("seccomp", "off") => self.seccomp = false,
                ("namespaces", "off") => self.namespaces = false,
                ("seccomp" | "namespaces", "on") => {}
                _ => return Err(unknown()),
            }
        }
        Ok(self)
    }
}

impl Default for Features {
    fn default() -> Features {
        Features::probe()
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
