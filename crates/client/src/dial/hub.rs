//! Connects to a host through its hub: a WebSocket to the hub, on which one relay stream carries the messages.

use http::StatusCode;
use link::Link;
use link::dial::{DialError, Socket};

use super::{failure, limits, relay_stream};
use crate::error::{ConnectError, ConnectStep};
use crate::hub::{HubClient, HubError, path_segment};
use crate::options::SessionOptions;
use crate::target::{HubTarget, Target};

pub(super) async fn dial(hub: &HubTarget, options: &SessionOptions) -> Result<Link, ConnectError> {
    let target = Target::Hub(hub.clone());
    let Some(host) = &hub.host else {
        let cause = "it means all hosts, and this command needs one";
        return Err(ConnectError::new("`hub:`", ConnectStep::OpenSession, cause)
            .hint("use -t hub:HOST; `rex hosts` lists the hosts"));
    };
    let client = HubClient::new(hub)?;
    let socket = match open(&client, host).await? {
        // The text may be the name of a host instead of its id.
        Err(error) if is_unknown(&error) => match host_id(&client, host).await? {
            Some(id) => open(&client, &id).await?,
            None => Err(error),
        },
        opened => opened,
    };
    let socket = socket.map_err(|error| explain(error, &target, client.refused_hint()))?;
    let (link, _closer) = socket.binary(&options.keep_alive, &limits());
    relay_stream(link, &target, link::mux::Limits::default())
}

/// Opens the WebSocket of a host. The outer error is that of the sign-in.
async fn open(client: &HubClient, host: &str) -> Result<Result<Socket, DialError>, ConnectError> {
    client.socket(&format!("/hosts/{}/rexd", path_segment(host))).await
}

fn is_unknown(error: &DialError) -> bool {
    matches!(error, DialError::Refused { status: StatusCode::NOT_FOUND, .. })
}

/// The id of the only host with this name.
async fn host_id(client: &HubClient, name: &str) -> Result<Option<String>, ConnectError> {
    let hosts = match client.hosts().await {
        Ok(hosts) => hosts,
        Err(HubError::Connect(error)) => return Err(*error),
        // The first response, that there is no such host, says more.
        Err(_) => return Ok(None),
    };
    let mut ids = hosts.into_iter().filter(|host| host.name.as_deref() == Some(name)).map(|host| host.id);
    match (ids.next(), ids.next()) {
        (Some(id), None) => Ok(Some(id)),
        (Some(one), Some(other)) => {
            let cause = format!("several hosts have this name: {one}, {other}");
            Err(ConnectError::new(format_args!("hub:{name}"), ConnectStep::Find, cause)
                .hint("use the id of one of them"))
        }
        (None, _) => Ok(None),
    }
}

/// Whether the hub waited for the host in vain.
fn is_away(body: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(body).is_ok_and(|body| body["error"]["code"] == "executor_away")
}

/// Explains why the hub carries no session to the host.
fn explain(error: DialError, target: &Target, hint: &str) -> ConnectError {
    let DialError::Refused { status, body } = &error else { return failure(error, target, hint) };
    let message = super::error_message(body);
    match *status {
        StatusCode::NOT_FOUND => ConnectError::new(target, ConnectStep::Find, "the hub has no such host")
            .hint("`rex hosts` lists the hosts"),
        StatusCode::FORBIDDEN => ConnectError::new(target, ConnectStep::Authenticate, message)
            .hint("an administrator of the hub assigns roles; [host] rexd in the configuration of the host permits sessions"),
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => {
            let cause = match is_away(body) || message.is_empty() {
                true => "the host is not connected to the hub".to_owned(),
                false => message,
            };
            ConnectError::new(target, ConnectStep::Connect, cause)
                .hint("`rex hosts` shows which hosts are online; is `rexd host` running there?")
                .transient()
        }
        _ => failure(error, target, hint),
    }
}
