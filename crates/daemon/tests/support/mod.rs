//! A listening daemon and a minimal client.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test uses its part, and may panic")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::proc::watch;
use testkit::sandbox::Sandbox;

pub const TOKEN: &str = "a-token-that-is-long-enough-0123456789";
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running `rexd serve`.
pub struct ServedDaemon {
    pub child: Child,
    pub urls: Vec<String>,
    out: BufReader<std::process::ChildStdout>,
}

impl ServedDaemon {
    /// Starts it with these flags, and reads where it listens.
    pub fn start(sandbox: &Sandbox, flags: &[&str], listeners: usize) -> ServedDaemon {
        let mut command = sandbox.command(env!("CARGO_BIN_EXE_rexd"));
        command.arg("serve").arg("--root").arg(sandbox.root()).args(flags);
        ServedDaemon::spawn(command, listeners)
    }

    pub fn spawn(mut command: Command, listeners: usize) -> ServedDaemon {
        command.env("REXD_TOKEN", TOKEN).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut urls = Vec::new();
        for _ in 0..listeners {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            urls.push(
                line.trim_end()
                    .strip_prefix("listening rexd ")
                    .unwrap_or_else(|| panic!("{line:?}"))
                    .to_owned(),
            );
        }
        ServedDaemon { child, urls, out }
    }

    /// Host and port of the first HTTP listener.
    pub fn address(&self) -> &str {
        let url = self.urls.iter().find(|url| url.starts_with("http")).unwrap();
        url.split_once("://").unwrap().1
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// One request on a connection of its own, and everything that came back.
    pub fn ask(&self, head: &str, body: &str) -> String {
        let mut stream = self.connect();
        let length = body.len();
        let text = format!(
            "{head} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}",
            self.address()
        );
        // Who is refused may see the connection end before all is said.
        stream.write_all(text.as_bytes()).ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// The same with the token.
    pub fn ask_known(&self, head: &str, body: &str) -> String {
        let (line, more) = head.split_once("\r\n").unwrap_or((head, ""));
        let more = if more.is_empty() { String::new() } else { format!("\r\n{more}") };
        let mut stream = self.connect();
        let text = format!(
            "{line} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\nContent-Length: {}{more}\r\n\r\n{body}",
            self.address(),
            body.len()
        );
        stream.write_all(text.as_bytes()).ok();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok();
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> ExitStatus {
        assert!(watch(self.pid()).ends_before(Instant::now() + PATIENCE), "the daemon does not end");
        self.child.wait().unwrap()
    }
}

impl Drop for ServedDaemon {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

pub fn status(answer: &str) -> u16 {
    answer
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or_else(|| panic!("no status: {answer:?}"))
}
