//! Finding a process by its id, or by the beginning of it.

use client::process::Process;
use client::{Session, v1};

use crate::failure::Failure;

/// The one process that is meant.
pub(super) async fn find(session: &Session, id: &str) -> Result<v1::ListedProcess, Failure> {
    pick(session.processes().await?, id)
}

/// Brings a process of another session within reach, for as long as what comes back is held. Detached ones are in reach
/// already; who cannot be attached to is for the request itself to say.
pub(super) async fn reach(session: &Session, found: &v1::ListedProcess) -> Option<Process> {
    match found.detached {
        true => None,
        false => session.attach(&found.process_id, found.cursor).await.ok(),
    }
}

/// The one process whose id is this or begins so, with or without the `p_` that all begin with.
fn pick(processes: Vec<v1::ListedProcess>, id: &str) -> Result<v1::ListedProcess, Failure> {
    let begins = |process: &v1::ListedProcess| {
        let full = process.process_id.as_str();
        !id.is_empty()
            && (full.starts_with(id) || full.strip_prefix("p_").is_some_and(|rest| rest.starts_with(id)))
    };
    let mut meant: Vec<v1::ListedProcess> = match processes.iter().find(|process| process.process_id == id) {
        Some(exact) => vec![exact.clone()],
        None => processes.into_iter().filter(begins).collect(),
    };
    match (meant.pop(), meant.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => Err(Failure::new(format!("there is no process {id}")).hint("`rex ps -a` lists them")),
        (Some(_), others) => Err(Failure::new(format!("{} processes begin with {id}", others + 1))
            .hint("give more of the id; `rex ps -a` lists them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(id: &str) -> v1::ListedProcess {
        v1::ListedProcess {
            process_id: id.to_owned(),
            pty_id: None,
            argv: vec!["true".to_owned()],
            cwd: "/".to_owned(),
            pid: None,
            status: "running".to_owned(),
            exit_code: None,
            signal: None,
            started_at: String::new(),
            detached: true,
            face: "rexd".to_owned(),
            cursor: 0,
        }
    }

    #[test]
    fn the_beginning_of_an_id_is_enough_if_only_one_has_it() {
        let all = || ["p_ab12", "p_ab34", "p_ab3"].map(listed).to_vec();
        for (id, found) in [("p_ab12", Some("p_ab12")), ("ab1", Some("p_ab12")), ("p_ab3", Some("p_ab3"))] {
            assert_eq!(pick(all(), id).ok().map(|one| one.process_id).as_deref(), found, "{id}");
        }
        for (id, word) in [("x", "no process"), ("", "no process"), ("p_ab", "3 processes")] {
            assert!(pick(all(), id).unwrap_err().message.contains(word), "{id}");
        }
    }
}
