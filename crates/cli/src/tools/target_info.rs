//! TargetInfo: which machine the tools work on, as models and approvers see it.

use client::{Session, v1};

use crate::route::Choice;

/// The machine of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetInfo {
    /// The alias or the address of the target.
    name: String,
    /// The working directory of the session.
    pub(super) cwd: Option<String>,
    host: Option<v1::HostInfo>,
}

impl TargetInfo {
    /// Asks the server. A server that does not report its machine is described by its address alone.
    pub(super) async fn of(choice: &Choice, session: &Session) -> TargetInfo {
        let info = session.call(&v1::SessionInfo { session_id: session.id() }).await.ok();
        let name = match &choice.alias {
            Some(alias) => format!("{alias} ({})", choice.target),
            None => choice.target.to_string(),
        };
        let cwd = info.as_ref().map(|info| info.cwd.clone()).filter(|cwd| !cwd.is_empty());
        TargetInfo { name, cwd, host: info.and_then(|info| info.host) }
    }

    /// The shell that runs commands.
    pub(super) fn shell(&self) -> Option<&str> {
        self.host.as_ref()?.shell.as_deref()
    }

    /// The machine, for an approver.
    pub(super) fn place(&self) -> String {
        match &self.host {
            Some(host) => format!("{} (target {})", host.name, self.name),
            None => self.name.clone(),
        }
    }

    /// The machine, for a model, on one line.
    pub(super) fn description(&self, shell: Option<&str>, directory: Option<&str>) -> String {
        let mut facts = vec![format!("target {}", self.name)];
        if let Some(host) = &self.host {
            facts.extend([format!("host {}", host.name), host.os.clone()]);
        }
        facts.extend(shell.map(|shell| format!("shell {shell}")));
        facts.extend(directory.map(|directory| format!("working directory {directory}")));
        // Names and paths of a target cannot look like other lines of a result.
        facts.join(", ").replace(['\n', '\r'], " ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_every_known_fact_on_one_line() {
        let host = v1::HostInfo {
            name: "web-1".to_owned(),
            os: "Linux 6.1 x86_64".to_owned(),
            shell: Some("bash".to_owned()),
        };
        let mut info = TargetInfo { name: "web (ssh:web-1)".to_owned(), cwd: None, host: Some(host) };
        assert_eq!(
            info.description(info.shell(), Some("/srv\n[x]")),
            "target web (ssh:web-1), host web-1, Linux 6.1 x86_64, shell bash, working directory /srv [x]"
        );
        assert_eq!(info.place(), "web-1 (target web (ssh:web-1))");
        info.host = None;
        assert_eq!(info.description(None, None), "target web (ssh:web-1)");
        assert_eq!(info.place(), "web (ssh:web-1)");
    }
}
