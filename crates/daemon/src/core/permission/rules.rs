//! The policy's rules on files where a path is really opened: a link that was swapped in since gains nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::Error;
use engine::files::{Access, PathGuard};
use engine::policy::{self, PathAccess, PolicyOperation, PolicyQuery, Verdict};

use crate::core::runtime_policy::RuntimePolicy;

/// Refuses what the rules deny, and what they ask about unless somebody has approved it.
pub(crate) struct Rules {
    pub(crate) runtime_policy: Arc<RuntimePolicy>,
    /// The face it is asked through.
    pub(crate) face: &'static str,
    /// What the client calls itself.
    pub(crate) client: Arc<str>,
    /// Who asks, by what they have proved.
    pub(crate) caller: Arc<str>,
    /// What somebody has approved, with everything beneath.
    pub(crate) approved: Vec<PathBuf>,
}

impl PathGuard for Rules {
    fn check(&self, real: &Path, access: Access) -> Result<(), Error> {
        let touch = match access {
            Access::Read => PathAccess::read(real),
            Access::Write => PathAccess::write(real),
        };
        let touches = [touch];
        let decision = self.runtime_policy.policy.decide(&PolicyQuery {
            face: self.face,
            client: &self.client,
            caller: &self.caller,
            operation: PolicyOperation::Files(&touches),
        });
        match decision.verdict {
            Verdict::Allow => Ok(()),
            Verdict::Ask if self.approved.iter().any(|approved| real.starts_with(approved)) => Ok(()),
            Verdict::Ask | Verdict::Deny | Verdict::NoShell => {
                let policy::Decision { rule, reason, .. } = decision;
                Err(Error::Guarded { path: real.to_owned(), access, rule: rule.to_string(), reason })
            }
        }
    }

    /// Rules are patterns on names: what they refuse below a directory is known only by looking at each entry.
    fn refused_beneath(&self, _real: &Path, _access: Access) -> Option<PathBuf> {
        None
    }

    fn needs_every_entry(&self) -> bool {
        true
    }
}
