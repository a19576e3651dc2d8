//! REXD through the hub: a host's second connection is an executor, and clients of users are its harnesses.

use std::sync::Arc;

use axum::response::Response;

use super::executor::within;
use super::harness::HarnessIdentity;
use super::router::StreamOwner;
use super::{ExecutorId, Rendezvous, UpgradeRequest};
use crate::api_error::ApiError;
use crate::auth::{Credential, Principal};

/// The key of a host's router. An executor's id contains no slash, so the two cannot be confused.
fn router_key(host: &str) -> ExecutorId {
    ExecutorId(format!("host/{host}").into())
}

impl Rendezvous {
    /// Serves the REXD connection of an authenticated host on a task.
    pub(crate) fn host_rexd(self: &Arc<Self>, host: String, request: UpgradeRequest) -> Response {
        let UpgradeRequest { handshake, connection } = request;
        let (response, upgraded) = handshake.accept();
        let rendezvous = self.clone();
        self.tasks.spawn(async move {
            if let Some(stream) = within(rendezvous.limits.handshake, upgraded).await {
                let (key, credential) = (router_key(&host), Credential::Host(host));
                rendezvous.serve_executor(&key, &credential, (stream, connection)).await;
            }
        });
        response
    }

    /// Connects a client of a user to a host; waits a limited time for a host that is not connected.
    pub(crate) async fn client_rexd(
        self: &Arc<Self>,
        host: &str,
        principal: &Principal,
        request: UpgradeRequest,
    ) -> Result<Response, ApiError> {
        let owner = StreamOwner { user: principal.name.to_string(), role: principal.role.word().to_owned() };
        let identity = HarnessIdentity { credential: principal.credential.clone(), owner: Some(owner) };
        self.connect(router_key(host), identity, request).await
    }
}
