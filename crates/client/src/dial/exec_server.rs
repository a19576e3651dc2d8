//! An exec-server of Codex's kind, with a bridge before it that speaks as a daemon does.

use super::{Carrier, Dialed};
use crate::error::{ConnectError, ConnectStep};
use crate::exec_server::bridge;
use crate::exec_server::{ExecServerClient, ExecServerClientConnectOptions, ExecServerError};
use crate::options::SessionOptions;
use crate::target::{Target, UrlTarget};

pub(super) async fn dial(url: &UrlTarget, options: &SessionOptions) -> Result<Dialed, ConnectError> {
    let patience = options.connect_timeout;
    let greeting = ExecServerClientConnectOptions {
        client_name: options.client_name.clone(),
        initialize_timeout: patience,
        resume_session_id: None,
    };
    let wrong = |error: ExecServerError| match error {
        ExecServerError::Connect(error) => *error,
        error => ConnectError::new(Target::ExecServer(url.clone()), ConnectStep::OpenSession, error)
            .hint("what listens there must be an exec-server: `rexd exec-server` or `codex exec-server`"),
    };
    let client = ExecServerClient::connect_url(url.clone(), patience, greeting).await.map_err(wrong)?;
    let (link, fate) = bridge::open(client).await.map_err(wrong)?;
    Ok(Dialed { link, carrier: Carrier::Bridge(fate) })
}
