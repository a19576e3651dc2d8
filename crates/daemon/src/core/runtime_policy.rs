//! The operator's rules that can change while the daemon runs: SIGHUP replaces all of them at once.

use std::ffi::OsString;
use std::sync::{Arc, PoisonError, RwLock};

use engine::Policy;
use link::dial::Proxies;

use crate::config::{ApprovalsConfig, Config, Paths};
use crate::core::sandbox::Sandbox;

/// The operator's rules from one version of the configuration.
#[derive(Debug)]
pub struct RuntimePolicy {
    /// Rules on commands and files.
    pub policy: Policy,
    /// The environment that commands inherit, already filtered.
    pub environment: Vec<(OsString, OsString)>,
    /// The proxies that the environment of this process names.
    pub proxies: Proxies,
    /// Who can answer approval requests, and how long they stay open.
    pub approvals: ApprovalsConfig,
    /// The sandbox profiles of commands.
    pub sandbox: Sandbox,
}

impl RuntimePolicy {
    /// The rules of a configuration; commands inherit the environment of this process.
    pub fn new(config: &Config, paths: &Paths) -> RuntimePolicy {
        RuntimePolicy {
            environment: config.policy.environment().apply(std::env::vars_os(), &Default::default()),
            proxies: Proxies::from_variables(|name| std::env::var(name).ok()),
            policy: config.policy.clone(),
            approvals: config.approvals.clone(),
            sandbox: Sandbox::new(config, paths),
        }
    }
}

/// A handle to the current [`RuntimePolicy`]. Clones share it; the lock is held only to copy a pointer.
#[derive(Debug, Clone)]
pub struct RuntimePolicyHandle(Arc<RwLock<Arc<RuntimePolicy>>>);

impl RuntimePolicyHandle {
    /// A handle whose current policy is `runtime_policy`.
    pub fn new(runtime_policy: RuntimePolicy) -> RuntimePolicyHandle {
        RuntimePolicyHandle(Arc::new(RwLock::new(Arc::new(runtime_policy))))
    }

    /// The current policy. A request uses the one that was current when it started.
    pub fn current(&self) -> Arc<RuntimePolicy> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the policy for all requests that start from now on.
    pub fn replace(&self, runtime_policy: RuntimePolicy) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(runtime_policy);
    }
}
