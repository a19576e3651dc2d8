//! A machine behind ssh that is this one with another home.
#![allow(dead_code, reason = "each test uses some of it")]

use std::path::PathBuf;

use testkit::sandbox::Sandbox;
use testkit::sshd::Sshd;

use crate::support::text;

/// A machine behind ssh; its home is the sandbox's `there`.
pub(crate) struct Machine {
    pub(crate) sandbox: Sandbox,
    pub(crate) sshd: Sshd,
}

impl Machine {
    /// Starts it. No rexd is on it, and no config.
    pub(crate) fn start() -> Machine {
        Machine::start_with("")
    }

    /// The same, with additional environment variables for the login.
    pub(crate) fn start_with(environment: &str) -> Machine {
        Machine::start_so(environment, "")
    }

    /// The same, with more in the configuration of its sshd.
    pub(crate) fn start_so(environment: &str, more: &str) -> Machine {
        let sandbox = Sandbox::new();
        let home = sandbox.path("there");
        std::fs::create_dir(&home).expect("a home");
        let environment = sandbox.expand(environment);
        let more = sandbox.expand(more);
        let lines = format!("SetEnv HOME={0} XDG_STATE_HOME={0}/state {environment}\n{more}", home.display());
        let sshd = Sshd::start_with(&sandbox, &lines);
        Machine { sandbox, sshd }
    }

    /// Remembers it as `alias`, with more arguments.
    pub(crate) fn add(&self, alias: &str, more: &[&str]) {
        let options = format!("-F{}", self.sshd.client_config(&self.sandbox).display());
        let arguments = ["target", "add", alias, "ssh:machine", "-o", &options];
        text(&self.sandbox, &[&arguments[..], more].concat());
    }

    /// A path in its home.
    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.sandbox.path("there").join(name)
    }
}
