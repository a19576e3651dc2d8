//! The guard: what the operator allows now. Read anew on SIGHUP and replaced as a whole, so that nobody sees half of it.

use std::ffi::OsString;
use std::sync::{Arc, PoisonError, RwLock};

use engine::Policy;

use crate::config::{ApprovalsConfig, Config, Paths};
use crate::core::sandbox::Sandbox;

/// Everything the operator allows, as one configuration had it.
#[derive(Debug)]
pub struct RuntimePolicy {
    /// Rules on commands and files.
    pub policy: Policy,
    /// What commands inherit, already filtered.
    pub environment: Vec<(OsString, OsString)>,
    /// Who may answer what the policy asks about.
    pub approvals: ApprovalsConfig,
    /// What confines commands.
    pub sandbox: Sandbox,
}

impl RuntimePolicy {
    /// The guard of a configuration, for commands that inherit from this process.
    pub fn new(config: &Config, paths: &Paths) -> RuntimePolicy {
        RuntimePolicy {
            environment: config.policy.environment().apply(std::env::vars_os(), &Default::default()),
            policy: config.policy.clone(),
            approvals: config.approvals.clone(),
            sandbox: Sandbox::new(config, paths),
        }
    }
}

/// The guard that holds now. Cheap to clone; locked for the copy of a pointer.
#[derive(Debug, Clone)]
pub struct RuntimePolicyHandle(Arc<RwLock<Arc<RuntimePolicy>>>);

impl RuntimePolicyHandle {
    /// Holds this one until it is replaced.
    pub fn new(runtime_policy: RuntimePolicy) -> RuntimePolicyHandle {
        RuntimePolicyHandle(Arc::new(RwLock::new(Arc::new(runtime_policy))))
    }

    /// What holds now. A request keeps to the one it began with.
    pub fn current(&self) -> Arc<RuntimePolicy> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on this one holds.
    pub fn replace(&self, runtime_policy: RuntimePolicy) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(runtime_policy);
    }
}
