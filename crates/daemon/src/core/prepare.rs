//! What the function that prepares a request sees: its session, its context, and the paths it may reach.

use std::sync::Arc;

use engine::files::PathGuard;
use engine::{RootedPath, Roots};
use wire::jsonrpc::RpcError;

use super::authorize::Authorization;
use super::effects::{Effects, FileEffects};
use super::path_rules::PathRules;
use super::request::RequestContext;
use super::session::{Face, Session};

/// What a request is checked and converted with.
#[derive(Debug)]
pub struct PrepareContext<'a, F: Face> {
    /// The session that it belongs to.
    pub session: &'a Session<F>,
    /// What it will run under.
    pub request: &'a RequestContext,
}

impl<F: Face> PrepareContext<'_, F> {
    /// A path of the request, checked against the roots only.
    pub fn admit(&self, path: &str) -> Result<RootedPath, engine::Error> {
        self.session.roots.admit(&self.request.cwd, path.as_ref())
    }

    /// A path as the request may use it: under the session's sandbox and the rules on files.
    pub fn guarded(&self, path: &RootedPath) -> RootedPath {
        self.guards().into_iter().fold(path.clone(), |path, guard| path.guarded(guard))
    }

    /// The session's roots under its sandbox and the rules on files.
    pub fn guarded_roots(&self) -> Roots {
        self.guards().into_iter().fold(self.session.roots.clone(), |roots, guard| roots.guarded(guard))
    }

    fn guards(&self) -> Vec<Arc<dyn PathGuard>> {
        let policy = self.session.core.policy.current();
        let mut guards: Vec<Arc<dyn PathGuard>> = Vec::new();
        if let Some(confinement) = self.session.sandbox.of_session(&policy) {
            guards.push(confinement);
        }
        if policy.policy.restricts_files() {
            guards.push(Arc::new(self.rules(self.request.authorization.clone())));
        }
        guards
    }

    /// The directory that a command starts in. The command is authorized as a whole, with its directory, so rules that
    /// ask do not ask again about the directory.
    pub fn start_directory(&self, path: &RootedPath) -> RootedPath {
        match self.session.core.policy.current().policy.restricts_files() {
            true => path.guarded(Arc::new(self.rules(Authorization::everything()))),
            false => path.clone(),
        }
    }

    /// The effects of the request on files, if the policy has rules on files.
    pub fn file_effects(
        &self,
        effects: impl FnOnce() -> Result<FileEffects, RpcError>,
    ) -> Result<Effects, RpcError> {
        match self.session.core.policy.current().policy.restricts_files() {
            true => Ok(Effects::Files(Box::new(effects()?))),
            false => Ok(Effects::None),
        }
    }

    fn rules(&self, authorization: Authorization) -> PathRules {
        let (policy, requester) = (self.session.core.policy.clone(), self.request.requester.clone());
        PathRules { policy, requester, authorization }
    }
}
