//! The hub of a command that works on a hub: that of its target, or of the last sign-in.

use client::Target;
use client::hub::{HostRow, HubClient, HubError};
use client::target::HubTarget;

use crate::failure::Failure;
use crate::route;

const ROLE_HINT: &str = "your role does not permit this: an administrator of the hub assigns roles";

/// A hub, and the host that a command is limited to.
#[derive(Debug)]
pub struct SelectedHub {
    /// The API of the hub.
    pub client: HubClient,
    /// The id or name of the host; `None` for all hosts.
    pub host: Option<String>,
}

impl SelectedHub {
    /// The hub of `-t`, of the target in use, or of the last sign-in; `flag` is the value of `-t`.
    pub fn choose(flag: Option<&str>) -> Result<SelectedHub, Failure> {
        if let Some(flag) = flag {
            return match route::choose(Some(flag))?.target {
                Target::Hub(hub) => SelectedHub::of(&hub),
                other => Err(Failure::new(format!("`{other}` is not a hub, and this command needs one"))
                    .hint("use -t hub:HOST, or -t hub: for all hosts")),
            };
        }
        match route::choose(None)?.target {
            Target::Hub(hub) => SelectedHub::of(&hub),
            _ => match route::choose_once("hub:")?.target {
                Target::Hub(hub) => SelectedHub::of(&hub),
                other => Err(Failure::new(format!("`hub:` is an alias of {other}"))),
            },
        }
    }

    /// The hub of a target.
    pub fn of(target: &HubTarget) -> Result<SelectedHub, Failure> {
        let client = HubClient::new(target).map_err(HubError::from)?;
        Ok(SelectedHub { client, host: target.host.clone() })
    }

    /// The id of the host, if the command is limited to one.
    pub async fn host_id(&self) -> Result<Option<String>, Failure> {
        match &self.host {
            None => Ok(None),
            Some(host) => find_host(self.client.hosts().await?, host).map(|found| Some(found.id)),
        }
    }
}

/// The host with this id or name.
fn find_host(hosts: Vec<HostRow>, wanted: &str) -> Result<HostRow, Failure> {
    let (mut by_id, others): (Vec<_>, Vec<_>) = hosts.into_iter().partition(|host| host.id == wanted);
    if let Some(host) = by_id.pop() {
        return Ok(host);
    }
    let mut named: Vec<_> = others.into_iter().filter(|host| host.name.as_deref() == Some(wanted)).collect();
    match (named.pop(), named.is_empty()) {
        (Some(host), true) => Ok(host),
        (Some(_), false) => Err(Failure::new(format!("ambiguous host `{wanted}`: several have this name"))
            .hint("use the id of one of them: `rex hosts` lists them")),
        (None, _) => {
            Err(Failure::new(format!("the hub has no host `{wanted}`")).hint("`rex hosts` lists the hosts"))
        }
    }
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Failure {
        let message = error.to_string();
        match error {
            HubError::Connect(error) => Failure { hint: error.hint.clone(), ..Failure::new(message) },
            HubError::Refused { status, .. } if status == http::StatusCode::UNAUTHORIZED => {
                Failure::new(message).hint("sign in again with `rex login URL`")
            }
            HubError::Refused { status, .. } if status == http::StatusCode::FORBIDDEN => {
                Failure::new(message).hint(ROLE_HINT)
            }
            HubError::Rejected { ref code, .. } if code == "forbidden" => {
                Failure::new(message).hint(ROLE_HINT)
            }
            HubError::Decode { .. } => {
                Failure::new(message).hint("the server may be another program or version")
            }
            HubError::Refused { .. }
            | HubError::Rejected { .. }
            | HubError::Rpc { .. }
            | HubError::Late { .. }
            | HubError::Random(_) => Failure::new(message),
        }
    }
}
