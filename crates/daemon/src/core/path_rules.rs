//! The policy's rules on files, checked where a path is opened, so that a link swapped in after the decision gains nothing.

use std::path::{Path, PathBuf};

use engine::Error;
use engine::files::{Access, PathGuard};
use engine::policy::{PathAccess, PolicyOperation, Verdict};

use super::authorize::Authorization;
use super::request::Requester;
use super::runtime_policy::RuntimePolicyHandle;

/// Denies what the rules deny, and what they ask about unless the request was authorized for it.
pub struct PathRules {
    /// The policy of the moment in which a path is opened.
    pub policy: RuntimePolicyHandle,
    /// Who opens it.
    pub requester: Requester,
    /// What its request was authorized for.
    pub authorization: Authorization,
}

impl PathGuard for PathRules {
    fn check(&self, real: &Path, access: Access) -> Result<(), Error> {
        let policy = self.policy.current();
        if !policy.policy.restricts_files() {
            return Ok(());
        }
        let path_access = match access {
            Access::Read => PathAccess::read(real),
            Access::Write => PathAccess::write(real),
        };
        let decision = policy.policy.decide(&self.requester.query(PolicyOperation::Files(&[path_access])));
        match decision.verdict {
            Verdict::Allow => Ok(()),
            Verdict::Ask if self.authorization.covers(real) => Ok(()),
            Verdict::Ask | Verdict::Deny | Verdict::NoShell => Err(Error::Guarded {
                path: real.to_owned(),
                access,
                rule: decision.rule.to_string(),
                reason: decision.reason,
            }),
        }
    }

    /// Rules are patterns on names, so each entry below a directory has to be checked.
    fn refused_beneath(&self, _real: &Path, _access: Access) -> Option<PathBuf> {
        None
    }

    fn needs_every_entry(&self) -> bool {
        true
    }
}

opaque_debug!(PathRules);
