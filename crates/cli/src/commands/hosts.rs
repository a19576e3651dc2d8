//! `rex hosts`: lists the hosts of a hub.

use client::hub::HostRow;
use serde_json::value::RawValue;

use crate::failure::{CommandStatus, Failure};
use crate::hub::selection::SelectedHub;
use crate::output;
use crate::table::TextTable;

/// Lists the hosts of the hub.
pub(super) async fn run(flag: Option<&str>, json: bool) -> Result<CommandStatus, Failure> {
    let hub = SelectedHub::choose(flag)?;
    if json {
        output::json_line(&hub.client.get::<Box<RawValue>>("/hosts").await?)?;
        return Ok(CommandStatus::OK);
    }
    let hosts = hub.client.hosts().await?;
    if hosts.is_empty() {
        output::note(format_args!(
            "no host is connected to {0}: run `rexd host --hub {0}` on one",
            hub.client.url()
        ));
        return Ok(CommandStatus::OK);
    }
    let mut table = TextTable::new(&["ID", "NAME", "STATUS", "LAST SEEN", "VERSION"]);
    for HostRow { id, name, last_seen_at, online, version } in hosts {
        let status = if online { "online" } else { "offline" };
        let seen = last_seen_at.map(|time| short_time(&time)).unwrap_or_default();
        table.row(&[id, name.unwrap_or_default(), status.to_owned(), seen, version.unwrap_or_default()]);
    }
    table.print()?;
    Ok(CommandStatus::OK)
}

/// The date and time of an RFC 3339 text, without its zone.
pub(super) fn short_time(time: &str) -> String {
    time.get(..19).unwrap_or(time).replace('T', " ")
}
