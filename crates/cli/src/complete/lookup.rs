//! Looks up aliases, processes and paths. A target is asked through another `rex`, which can be ended at any time.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use client::v1::{ExecListResult, FsListResult};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::de::DeserializeOwned;

use crate::route::Inputs;

/// The time that a target has to answer: 1 s, or the milliseconds in [`TIME_VARIABLE`]; then there are no candidates.
const ANSWER_TIME: Duration = Duration::from_secs(1);
const TIME_VARIABLE: &str = "REX_COMPLETE_MS";
/// Bytes of an answer; a longer one is not used.
const MAX_ANSWER: u64 = 4 * 1024 * 1024;
/// Candidates for one word; the rest is left out.
const MAX_CANDIDATES: usize = 1000;

/// Finds values for candidates.
#[derive(Debug)]
pub(super) struct Lookup {
    /// The value of `-t`.
    pub(super) target: Option<String>,
}

impl Lookup {
    /// The aliases of the registry.
    pub(super) fn aliases(&self) -> Vec<String> {
        let registry = Inputs::gather(None).registry.unwrap_or_default();
        registry.aliases().map(str::to_owned).collect()
    }

    /// The ids and names of the processes on the target.
    pub(super) fn processes(&self) -> Vec<String> {
        let Some(listed) = self.ask::<ExecListResult>(&["ps"]) else { return Vec::new() };
        let all = listed.processes.into_iter().flat_map(|process| [Some(process.process_id), process.name]);
        all.flatten().take(MAX_CANDIDATES).collect()
    }

    /// The paths on the target that begin with `typed`; directories end with a slash.
    pub(super) fn remote_paths(&self, typed: &str) -> Vec<String> {
        let (directory, name) = split(typed);
        let asked = match directory {
            "" => ".".to_owned(),
            alias if alias.ends_with(':') => format!("{alias}."),
            directory => directory.to_owned(),
        };
        let Some(listed) = self.ask::<FsListResult>(&["ls", "--", &asked]) else { return Vec::new() };
        let named = listed.entries.into_iter().map(|entry| (entry.name, entry.kind == "dir"));
        in_directory(directory, name, named)
    }

    /// The local paths that begin with `typed`.
    pub(super) fn local_paths(&self, typed: &str) -> Vec<String> {
        let (directory, name) = split(typed);
        let read = std::fs::read_dir(Path::new(if directory.is_empty() { "." } else { directory }));
        let named = read.into_iter().flatten().flatten().filter_map(|entry| {
            let is_directory = std::fs::metadata(entry.path()).is_ok_and(|found| found.is_dir());
            Some((entry.file_name().into_string().ok()?, is_directory))
        });
        in_directory(directory, name, named)
    }

    /// Runs `rex --json` and returns its result. It cannot ask for a password: ssh finds neither a terminal that it may use
    /// nor a program that answers.
    fn ask<T: DeserializeOwned>(&self, arguments: &[&str]) -> Option<T> {
        let mut rex = Command::new(std::env::current_exe().ok()?);
        rex.arg("--json");
        if let Some(target) = &self.target {
            rex.args(["-t", target]);
        }
        rex.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        rex.env("SSH_ASKPASS", "/bin/false").env("SSH_ASKPASS_REQUIRE", "force").process_group(0);
        let mut group = ProcessGroup(rex.spawn().ok()?);
        let stdout = group.0.stdout.take()?;
        let (sender, answer) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let read = stdout.take(MAX_ANSWER).read_to_end(&mut text);
            sender.send(read.map(|_| text)).ok();
        });
        let text = answer.recv_timeout(answer_time()).ok()?.ok()?;
        serde_json::from_slice(&text).ok()
    }
}

fn answer_time() -> Duration {
    let chosen = std::env::var(TIME_VARIABLE).ok().and_then(|text| text.parse().ok());
    chosen.map_or(ANSWER_TIME, Duration::from_millis)
}

/// A process that is ended with its children when it is no longer needed.
struct ProcessGroup(Child);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // It may have ended.
            kill_process_group(group, Signal::KILL).ok();
        }
        self.0.wait().ok();
    }
}

/// The directory of a path, with its slash or colon, and the beginning of a name in it.
fn split(typed: &str) -> (&str, &str) {
    let end = typed.rfind(['/', ':']).map_or(0, |at| at + 1);
    typed.split_at_checked(end).unwrap_or(("", typed))
}

/// The paths of the entries that begin with `name`. Hidden ones need a dot.
fn in_directory(directory: &str, name: &str, entries: impl Iterator<Item = (String, bool)>) -> Vec<String> {
    let fitting = entries
        .filter(|(entry, _)| entry.starts_with(name) && (name.starts_with('.') || !entry.starts_with('.')));
    fitting
        .map(|(entry, is_directory)| format!("{directory}{entry}{}", if is_directory { "/" } else { "" }))
        .take(MAX_CANDIDATES)
        .collect()
}
