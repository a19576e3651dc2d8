//! Applies a confinement to file operations, so that they have the same access as the commands of the session.

use std::path::{Path, PathBuf};

use super::confinement::Confinement;
use crate::Error;
use crate::files::{Access, PathGuard};

impl PathGuard for Confinement {
    fn check(&self, real: &Path, access: Access) -> Result<(), Error> {
        if self.permits_file_method(real, access) {
            return Ok(());
        }
        let rule = format!("sandbox:{}", self.name());
        let reason = format!("not allowed by the sandbox profile {}", self.name());
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
