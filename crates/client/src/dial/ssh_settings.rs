//! The settings that ssh uses for a host: whether it shares connections itself, what its sessions need, and its ciphers.

use std::ffi::OsString;
use std::process::{Command, Stdio};

/// The settings that ssh uses for a host, as `ssh -G` prints them.
#[derive(Debug)]
pub(super) struct SshSettings(String);

impl SshSettings {
    /// Runs `ssh -G` with the arguments of a connection.
    pub(super) fn read(arguments: &[OsString]) -> Option<SshSettings> {
        let mut command = Command::new("ssh");
        command.arg("-G").args(arguments).stdin(Stdio::null()).stderr(Stdio::null());
        let answer = command.output().ok()?;
        Some(SshSettings(String::from_utf8_lossy(&answer.stdout).into_owned()))
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
    }

    /// Whether ssh is configured to share the connection.
    pub(super) fn has_control_path(&self) -> bool {
        self.get("controlpath").is_some_and(|path| !path.eq_ignore_ascii_case("none"))
    }

    /// The patterns of `SendEnv`, a line each. `None` if the configuration asks for more in a session.
    pub(super) fn variables_to_send(&self) -> Option<String> {
        let is_off = |name: &str| self.get(name).is_none_or(|value| matches!(value, "no" | "none"));
        let needs_nothing = ["forwardagent", "forwardx11", "permitlocalcommand", "remotecommand", "setenv"];
        if !needs_nothing.iter().all(|name| is_off(name)) {
            return None;
        }
        let patterns = self.0.lines().filter_map(|line| line.strip_prefix("sendenv "));
        Some(patterns.flat_map(|pattern| [pattern, "\n"]).collect())
    }

    /// The ciphers with AES-GCM first, which processors with instructions for AES encrypt faster than ssh's first choice.
    /// `None` if the user has selected ciphers, or without such instructions.
    pub(super) fn faster_ciphers(&self) -> Option<String> {
        if !has_aes_instructions() {
            return None;
        }
        let ciphers = self.get("ciphers")?;
        let defaults = SshSettings::read(&["-F".into(), "/dev/null".into(), "--".into(), "host".into()])?;
        (defaults.get("ciphers") == Some(ciphers)).then(|| aes_gcm_first(ciphers))
    }
}

/// Whether the name of a variable matches a pattern of `SendEnv`, in which `*` and `?` stand for any characters.
pub(super) fn matches_name(pattern: &str, name: &str) -> bool {
    match (pattern.chars().next(), name.chars().next()) {
        (None, first) => first.is_none(),
        (Some('*'), first) => {
            matches_name(&pattern[1..], name)
                || first.is_some_and(|first| matches_name(pattern, &name[first.len_utf8()..]))
        }
        (Some(wanted), Some(first)) => {
            (wanted == '?' || wanted == first)
                && matches_name(&pattern[wanted.len_utf8()..], &name[first.len_utf8()..])
        }
        (Some(_), None) => false,
    }
}

fn aes_gcm_first(ciphers: &str) -> String {
    let (first, others): (Vec<&str>, Vec<&str>) =
        ciphers.split(',').partition(|cipher| cipher.contains("-gcm@"));
    [first, others].concat().join(",")
}

#[cfg(target_arch = "x86_64")]
fn has_aes_instructions() -> bool {
    std::arch::is_x86_feature_detected!("aes")
}

#[cfg(target_arch = "aarch64")]
fn has_aes_instructions() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes_instructions() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ciphers_are_reordered_and_none_is_added() {
        assert_eq!(
            aes_gcm_first(
                "chacha20-poly1305@openssh.com,aes128-ctr,aes128-gcm@openssh.com,aes256-gcm@openssh.com"
            ),
            "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr"
        );
        assert_eq!(aes_gcm_first("aes128-ctr"), "aes128-ctr");
    }

    #[test]
    fn only_variables_that_ssh_would_send_are_sent() {
        let send = |text: &str| SshSettings(text.to_owned()).variables_to_send();
        let usual = "forwardagent no\nforwardx11 no\npermitlocalcommand no\nsendenv LANG\nsendenv LC_*\n";
        assert_eq!(send(usual).as_deref(), Some("LANG\nLC_*\n"));
        for more in ["forwardagent yes", "forwardx11 yes", "setenv A=b", "remotecommand tmux"] {
            assert_eq!(send(&format!("{more}\n")), None, "{more}");
        }
        for (pattern, name, expected) in [
            ("LC_*", "LC_ALL", true),
            ("LC_*", "LC_", true),
            ("LC_*", "LC", false),
            ("*", "", true),
            ("A?C", "ABC", true),
            ("A?C", "AC", false),
            ("A*B*C", "AxxBByC", true),
            ("LANG", "LANGUAGE", false),
            ("", "A", false),
        ] {
            assert_eq!(matches_name(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn settings_are_found_by_their_whole_name() {
        let settings = SshSettings("controlpersist no\ncontrolpath none\nciphers a,b\n".to_owned());
        assert_eq!((settings.get("ciphers"), settings.get("control")), (Some("a,b"), None));
        assert!(!settings.has_control_path());
        assert!(SshSettings("controlpath /run/x\n".to_owned()).has_control_path());
    }
}
