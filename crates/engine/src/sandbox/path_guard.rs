//! A confinement as a guard on files: what a session's commands cannot touch, its file operations cannot either.

use std::path::{Path, PathBuf};

use super::confinement::Confinement;
use crate::Error;
use crate::files::{Access, PathGuard};

impl PathGuard for Confinement {
    fn check(&self, real: &Path, access: Access) -> Result<(), Error> {
        if self.permits(real, access) {
            return Ok(());
        }
        let rule = format!("sandbox:{}", self.name());
        let reason = format!("the sandbox profile {} does not allow it", self.name());
        Err(Error::Guarded { path: real.to_owned(), access, rule, reason })
    }

    fn refused_beneath(&self, real: &Path, access: Access) -> Option<PathBuf> {
        let layers = self.layers().iter();
        let protected = layers.clone().flat_map(|layer| &layer.protect).filter(|_| access == Access::Write);
        let mut refused = layers.flat_map(|layer| &layer.hide).chain(protected);
        refused.find(|path| path.starts_with(real)).cloned()
    }

    fn needs_every_entry(&self) -> bool {
        false
    }
}
