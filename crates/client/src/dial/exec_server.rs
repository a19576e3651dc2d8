//! Connects to an exec-server through a bridge that serves REXD on the link.

use super::{Carrier, TargetLink};
use crate::error::{ConnectError, ConnectStep};
use crate::exec_server::bridge;
use crate::exec_server::{
    ExecServerAddress, ExecServerClient, ExecServerClientConnectOptions, ExecServerError,
};
use crate::options::SessionOptions;
use crate::target::{Target, UrlTarget};

pub(super) async fn dial(url: &UrlTarget, options: &SessionOptions) -> Result<TargetLink, ConnectError> {
    let timeout = options.connect_timeout;
    let handshake = ExecServerClientConnectOptions {
        client_name: options.client_name.clone(),
        initialize_timeout: timeout,
        resume_session_id: None,
    };
    let failed = |error: ExecServerError| match error {
        ExecServerError::Connect(error) => *error,
        error => ConnectError::new(Target::ExecServer(url.clone()), ConnectStep::OpenSession, error)
            .hint("the program listening there must be `rexd exec-server` or `codex exec-server`"),
    };
    let address = ExecServerAddress { url: url.clone(), timeout, keep_alive: options.keep_alive.clone() };
    let client = ExecServerClient::connect_url(address, handshake).await.map_err(failed)?;
    let (link, bridge) = bridge::open(client).await.map_err(failed)?;
    Ok(TargetLink { link, carrier: Carrier::Bridge(bridge) })
}
