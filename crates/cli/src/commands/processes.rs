//! Finds a process by its id, a prefix of it, its name, or by asking.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};

use client::process::Process;
use client::{Session, v1};

use crate::escape;
use crate::failure::Failure;

/// Finds the one process with this id, prefix or name.
pub(super) async fn find(session: &Session, id: &str) -> Result<v1::ListedProcess, Failure> {
    pick(session.processes().await?, id)
}

/// The only running process, or the one that the user chooses on the terminal.
pub(super) async fn find_only(session: &Session, may_ask: bool) -> Result<v1::ListedProcess, Failure> {
    let mut running = session.processes().await?;
    running.retain(|process| process.status == "running");
    match (running.pop(), running.len()) {
        (Some(only), 0) => Ok(only),
        (None, _) => Err(Failure::new("no process is running").hint("`rex ps -a` lists ended ones")),
        (Some(last), others) => {
            running.push(last);
            let question = question(&running);
            let answer = match may_ask {
                true => tokio::task::spawn_blocking(move || ask(&question)).await.ok().flatten(),
                false => None,
            };
            let answer = answer.ok_or_else(|| {
                Failure::new(format!("{} processes are running", others + 1))
                    .hint("name one: `rex attach ID`; `rex ps` lists them")
            })?;
            match answer.parse::<usize>().ok().filter(|number| (1..=running.len()).contains(number)) {
                Some(number) => Ok(running.swap_remove(number - 1)),
                None => pick(running, &answer),
            }
        }
    }
}

/// The processes with a number each, and the prompt.
fn question(processes: &[v1::ListedProcess]) -> String {
    let mut text = String::new();
    for (index, process) in processes.iter().enumerate() {
        let name = process.name.as_deref().unwrap_or(&process.process_id);
        let line = format!("{name}  {}", process.argv.join(" "));
        text.push_str(&format!("{:>3}  {}\n", index + 1, escape::line(&line)));
    }
    text.push_str(&format!("attach to [1-{}]: ", processes.len()));
    text
}

/// Asks on the terminal; `None` without one or without an answer.
fn ask(question: &str) -> Option<String> {
    let mut terminal = File::options().read(true).write(true).open("/dev/tty").ok()?;
    write!(terminal, "{question}").ok()?;
    let mut answer = String::new();
    BufReader::new(terminal).read_line(&mut answer).ok()?;
    Some(answer.trim().to_owned()).filter(|answer| !answer.is_empty())
}

/// Attaches to a process of another session, so that requests about it are allowed while the result is held. Detached
/// processes need no attachment. If attaching fails, the following request returns the error.
pub(super) async fn attach_foreign(session: &Session, found: &v1::ListedProcess) -> Option<Process> {
    match found.detached {
        true => None,
        false => session.attach(&found.process_id, found.cursor).await.ok(),
    }
}

/// The one process whose id is `id`, else the one of that name, else the one whose id starts with it; the common prefix `p_`
/// may be omitted. Of several with that name, the running one, or the one that was started last.
fn pick(processes: Vec<v1::ListedProcess>, id: &str) -> Result<v1::ListedProcess, Failure> {
    let begins = |process: &v1::ListedProcess| {
        let full = process.process_id.as_str();
        !id.is_empty()
            && (full.starts_with(id) || full.strip_prefix("p_").is_some_and(|rest| rest.starts_with(id)))
    };
    let named = processes.iter().filter(|process| process.name.as_deref() == Some(id));
    let named = named.max_by_key(|process| (process.status == "running", &process.started_at));
    let exact = processes.iter().find(|process| process.process_id == id).or(named);
    let mut meant: Vec<v1::ListedProcess> = match exact {
        Some(exact) => vec![exact.clone()],
        None => processes.into_iter().filter(begins).collect(),
    };
    match (meant.pop(), meant.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => Err(Failure::new(format!("no process {id}")).hint("`rex ps -a` lists the processes")),
        (Some(_), others) => {
            Err(Failure::new(format!("ambiguous process id {id}: {} processes start with it", others + 1))
                .hint("use more characters of the id; `rex ps -a` lists the processes"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(id: &str) -> v1::ListedProcess {
        v1::ListedProcess {
            process_id: id.to_owned(),
            name: None,
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
            argv_truncated: false,
        }
    }

    #[test]
    fn a_unique_prefix_of_an_id_is_enough() {
        let all = || ["p_ab12", "p_ab34", "p_ab3"].map(listed).to_vec();
        for (id, found) in [("p_ab12", Some("p_ab12")), ("ab1", Some("p_ab12")), ("p_ab3", Some("p_ab3"))] {
            assert_eq!(pick(all(), id).ok().map(|one| one.process_id).as_deref(), found, "{id}");
        }
        for (id, word) in [("x", "no process"), ("", "no process"), ("p_ab", "3 processes")] {
            assert!(pick(all(), id).unwrap_err().message.contains(word), "{id}");
        }
    }

    #[test]
    fn a_name_is_that_of_the_running_process_or_of_the_last_one() {
        let named = |id: &str, status: &str, started_at: &str| v1::ListedProcess {
            name: Some("ab".to_owned()),
            status: status.to_owned(),
            started_at: started_at.to_owned(),
            ..listed(id)
        };
        let ended = [named("p_1", "exited", "1"), named("p_2", "exited", "3"), listed("p_ab3")];
        assert_eq!(pick(ended.to_vec(), "ab").unwrap().process_id, "p_2", "before a prefix of an id");
        let all = [&ended[..], &[named("p_4", "running", "2")]].concat();
        assert_eq!(pick(all, "ab").unwrap().process_id, "p_4");
    }
}
