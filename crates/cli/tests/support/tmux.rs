//! A shell in a terminal of tmux, which answers the queries of programs as a person's terminal does.
#![allow(dead_code, reason = "each test uses some of it")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use testkit::daemon::PATIENCE;
use testkit::sandbox::Sandbox;
use testkit::tries::Tries;

/// Captures in a row that must be equal: the screen is not taken while it is being drawn.
const STEADY: usize = 3;

/// A terminal with a bash whose prompt is `here> `.
pub(crate) struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// Starts the shell in the sandbox's root, with the environment of `like` and the programs of `bin` first.
    pub(crate) fn start(sandbox: &Sandbox, like: &Command, bin: &Path) -> Tmux {
        let socket = sandbox.path("tmux.sock");
        let mut tmux = Command::new("tmux");
        tmux.env_clear();
        for (name, value) in like.get_envs() {
            tmux.env(name, value.unwrap_or_default());
        }
        tmux.env("PATH", format!("{}:/usr/bin:/bin:/usr/sbin", bin.display())).env("PS1", "here> ");
        tmux.env("LANG", "C.UTF-8").env("TERM", "xterm-256color").current_dir(sandbox.root());
        tmux.arg("-S").arg(&socket).args([
            "-u",
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "100",
            "-y",
            "30",
        ]);
        let started = tmux.args(["bash", "--norc", "--noprofile", "-i"]).output().expect("tmux");
        assert!(started.status.success(), "{started:?}");
        let terminal = Tmux { socket };
        terminal.shows("here>");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(arguments).output().expect("tmux");
        assert!(output.status.success(), "tmux {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Types text as it is.
    pub(crate) fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", "--", text]);
    }

    /// Presses a key by its name, such as `Enter`.
    pub(crate) fn presses(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Types a line and Enter.
    pub(crate) fn enters(&self, line: &str) {
        self.types(line);
        self.presses("Enter");
    }

    /// The screen, without trailing spaces and empty lines.
    pub(crate) fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"]).trim_end().to_owned()
    }

    /// The screen with its colours.
    pub(crate) fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the screen holds and stays as it is; returns it.
    pub(crate) fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut tries = Tries::within(2 * PATIENCE, what);
        let (mut last, mut same) = (String::new(), 0);
        loop {
            let screen = self.screen();
            same = if screen == last && holds(&screen) { same + 1 } else { 0 };
            if same >= STEADY {
                return screen;
            }
            assert!(Instant::now() < deadline, "it does not {what}; it shows:\n{screen}");
            last = screen;
            tries.again();
        }
    }

    /// Waits until the screen contains a text.
    pub(crate) fn shows(&self, text: &str) -> String {
        self.until(&format!("show {text:?}"), |screen| screen.contains(text))
    }

    /// Waits until the last line is exactly this one.
    pub(crate) fn waits_at(&self, prompt: &str) -> String {
        self.until(&format!("wait at {prompt:?}"), |screen| {
            screen.lines().next_back().is_some_and(|line| line.trim_end() == prompt)
        })
    }

    /// Empties the screen at the prompt of the shell.
    pub(crate) fn clears(&self) {
        self.enters("clear");
        self.until("be cleared", |screen| screen == "here>");
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ended = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").output();
    }
}
