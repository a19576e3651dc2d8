//! Names of processes: unique among the running ones of the user, and accepted in place of their ids.

use engine::process::{Description, ProcessId};
use serde_json::json;
use wire::rexd::v1::{RpcError, codes};

use crate::core::Core;
use crate::faces::rexd::errors::{invalid, rpc_error};
use crate::faces::rexd::peers::OtherDaemons;
use crate::keeper::NameLock;

/// The maximal length of a name in bytes.
const MAX_NAME_BYTES: usize = 64;
/// The beginnings of ids, which no name has.
const ID_PREFIXES: [&str; 2] = ["p_", "pty_"];

/// Checks the name of a process that is to be started.
pub(super) fn check(name: &str) -> Result<(), RpcError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_valid =
        name.len() <= MAX_NAME_BYTES && name.bytes().all(is_plain) && !name.starts_with(['-', '.']);
    match is_valid && is_name(name) {
        true => Ok(()),
        false => Err(invalid(
            "name",
            "use up to 64 letters, digits, `.`, `_` and `-`; it must not start with `-`, `.`, `p_` or `pty_`",
        )),
    }
}

/// Whether a text in the place of an id is a name.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && !ID_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

/// The process with this name that may be seen: the running one, or the one that was started last.
pub(super) async fn resolve(
    core: &Core,
    name: &str,
    may_see: impl Fn(&Description) -> bool,
) -> Option<ProcessId> {
    let is_meant = |process: &Description| process.name.as_deref() == Some(name) && may_see(process);
    let attached = core.engine.processes().await.into_iter().filter(|one| is_meant(one.description()));
    let attached = attached.map(|one| {
        let rank = (one.state().closed.is_none(), one.description().started_at);
        (rank, one.id().clone())
    });
    let detached = match &core.keepers {
        Some(keepers) => keepers.list().await,
        None => Vec::new(),
    };
    let detached = detached.into_iter().filter(|one| is_meant(&one.description));
    let detached = detached.map(|one| ((one.facts.closed.is_none(), one.description.started_at), one.id));
    attached.chain(detached).max_by_key(|(rank, _)| *rank).map(|(_, id)| id)
}

/// Checks that no running process of the user has the name. While the lock is held, no other process gets it.
pub(super) async fn reserve(
    core: &Core,
    others: Option<OtherDaemons>,
    name: &str,
) -> Result<Option<NameLock>, RpcError> {
    let lock = match &core.keepers {
        Some(keepers) => Some(keepers.lock_names().await.map_err(rpc_error)?),
        None => None,
    };
    let has_name = |process: &Description| process.name.as_deref() == Some(name);
    let attached = core.engine.processes().await;
    let attached = attached.iter().filter(|one| one.state().closed.is_none() && has_name(one.description()));
    let mut holders: Vec<String> = attached.map(|one| one.id().0.clone()).collect();
    if let Some(keepers) = &core.keepers {
        let detached = keepers.list().await.into_iter();
        let running = detached.filter(|one| one.facts.closed.is_none() && has_name(&one.description));
        holders.extend(running.map(|one| one.id.0));
    }
    if let Some(others) = others {
        let elsewhere = others.processes().await.into_iter();
        let running = elsewhere.filter(|one| one.status == "running" && one.name.as_deref() == Some(name));
        holders.extend(running.map(|one| one.process_id));
    }
    match holders.first() {
        None => Ok(lock),
        Some(holder) => {
            let message = format!("a running process has the name {name} already: {holder}");
            let data = json!({ "field": "name", "name": name, "process_id": holder });
            Err(RpcError::new(codes::CONCURRENCY_CONFLICT, message).with_data(data))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_plain_word_that_is_no_id() {
        for name in ["build", "a", "web-1.2_x", &"x".repeat(64)] {
            assert!(check(name).is_ok(), "{name}");
        }
        for name in ["", "p_1", "pty_1", "-x", ".x", "a b", "a/b", "é", "a\n", &"x".repeat(65)] {
            assert!(check(name).is_err(), "{name}");
        }
    }
}
