//! `rexd run`: starts a run on the host of this user and stays attached until it ends.
//!
//! The host starts the run and records what is typed; output and exit status come from the keeper, so that the terminal
//! stays attached while the host restarts.

mod request;
mod terminal;

use std::io::{IsTerminal as _, Read as _, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use engine::process::{Cursor, ExitStatus, KeeperEvent, ProcessId};
use futures_util::future::OptionFuture;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::args::RunArgs;
use crate::config::{Config, Paths};
use crate::keeper::Keepers;
use request::{LocalClient, MAX_INPUT};
use terminal::{RawMode, terminal_size};

/// Starts the run and returns its exit status.
pub async fn run(config: &Config, paths: &Paths, args: &RunArgs, keepers: &Keepers) -> anyhow::Result<u8> {
    let client = LocalClient::new(socket(config, paths)?);
    let cwd = paths.current.to_str().context("the path of the current directory is not UTF-8")?;
    let mut start = json!({ "tool": args.tool, "cmd": command_line(&args.command), "cwd": cwd });
    if let Some((cols, rows)) = terminal_size() {
        start["cols"] = json!(cols);
        start["rows"] = json!(rows);
    }
    let started = client.post("/runs", &start).await?;
    let run_id = started["run_id"].as_str().context("the host returned no run")?.to_owned();
    let described = client.get(&format!("/runs/{run_id}")).await?;
    let process = described["process_id"].as_str().context("the host returned no process")?;
    let (kept, _) = keepers.kept(&ProcessId(process.to_owned()), Cursor(0)).await?;
    let mut keeper = kept.keeper;
    let _raw = std::io::stdin().is_terminal().then(RawMode::enter).transpose()?;
    let typing = forward_input(&client, &run_id);
    let output = async {
        let mut out = std::io::stdout();
        while let Some(event) = keeper.next().await {
            match event {
                KeeperEvent::Output { bytes, .. } => {
                    out.write_all(&bytes)?;
                    out.flush()?;
                }
                KeeperEvent::Closed(closed) => return Ok(closed.exit),
                KeeperEvent::Lost { .. } | KeeperEvent::Exited(_) => {}
            }
        }
        bail!("the run was killed together with its keeper")
    };
    let exit = tokio::select! {
        exit = output => exit?,
        failed = typing => match failed {
            Ok(never) => match never {},
            Err(error) => return Err(error),
        },
    };
    Ok(match exit {
        ExitStatus::Code(code) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
        ExitStatus::Signal(signal) => u8::try_from(128 + signal.number()).unwrap_or(u8::MAX),
    })
}

/// The socket of the host: as the host itself finds it.
fn socket(config: &Config, paths: &Paths) -> anyhow::Result<PathBuf> {
    let named = ["LOCAL_UNIX_SOCKET", "RELAY_HOSTD_SOCK"].iter().find_map(std::env::var_os);
    let named = named.filter(|path| !path.is_empty()).map(PathBuf::from);
    let default = || paths.state.as_ref().map(|state| state.join("host.sock"));
    let found = named.or_else(|| config.host.socket.clone()).or_else(default);
    found.context("there is no state directory: set HOME or XDG_STATE_HOME")
}

/// The words of a command as one line for a shell; a single word is the line itself.
fn command_line(words: &[String]) -> String {
    match words {
        [line] => line.clone(),
        words => words
            .iter()
            .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
            .collect::<Vec<_>>()
            .join(" "),
    }
}

/// Sends what is typed, and the size of the terminal when it changes, until the run ends.
async fn forward_input(client: &LocalClient, run_id: &str) -> anyhow::Result<std::convert::Infallible> {
    let mut resized = signal(SignalKind::window_change())?;
    let mut typed = Vec::new();
    let mut reading = Some(tokio::task::spawn_blocking(read_block));
    loop {
        tokio::select! {
            Some(block) = OptionFuture::from(reading.as_mut()) => {
                let block = block.context("standard input cannot be read")??;
                let is_last = block.is_empty();
                typed.extend(block);
                reading = (!is_last).then(|| tokio::task::spawn_blocking(read_block));
                let text = whole_text(&mut typed, is_last);
                if !text.is_empty() {
                    // The viewer who typed last gives the size; another one may have set its own.
                    claim_size(client, run_id).await?;
                    send(client, &format!("/runs/{run_id}/stdin"), &json!({ "text": text })).await?;
                }
            }
            _ = resized.recv() => claim_size(client, run_id).await?,
        }
    }
}

/// Gives the run the size of this terminal.
async fn claim_size(client: &LocalClient, run_id: &str) -> anyhow::Result<()> {
    match terminal_size() {
        Some((cols, rows)) => {
            let size = json!({ "cols": cols, "rows": rows });
            send(client, &format!("/runs/{run_id}/resize"), &size).await
        }
        None => Ok(()),
    }
}

/// The next input, on a thread of its own; empty at the end.
fn read_block() -> std::io::Result<Vec<u8>> {
    let mut block = vec![0; MAX_INPUT];
    let count = std::io::stdin().read(&mut block)?;
    block.truncate(count);
    Ok(block)
}

/// A run that has ended takes no input: its exit status follows.
async fn send(client: &LocalClient, path: &str, data: &Value) -> anyhow::Result<()> {
    match client.post(path, data).await {
        Ok(_) => Ok(()),
        Err(error) if error.to_string().contains("the process ended") => Ok(()),
        Err(error) => Err(error),
    }
}

/// Takes the whole characters; an incomplete one stays unless nothing follows.
fn whole_text(typed: &mut Vec<u8>, is_last: bool) -> String {
    let whole = match std::str::from_utf8(typed) {
        Err(error) if error.error_len().is_none() && !is_last => error.valid_up_to(),
        _ => typed.len(),
    };
    String::from_utf8_lossy(&typed.drain(..whole).collect::<Vec<u8>>()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_characters_are_sent_whole() {
        let words =
            |words: &[&str]| command_line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(&["make test | tee log"]), "make test | tee log");
        assert_eq!(words(&["echo", "it's", "$HOME"]), r"'echo' 'it'\''s' '$HOME'");
        let mut typed = b"a\xc3".to_vec();
        assert_eq!(whole_text(&mut typed, false), "a");
        typed.push(0xa9);
        assert_eq!(whole_text(&mut typed, false), "é");
        typed.push(0xc3);
        assert_eq!(whole_text(&mut typed, true), "\u{fffd}");
    }
}
