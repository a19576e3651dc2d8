//! Short options whose value is a password, for the programs that have one: `mysql -pX`, `sshpass -p X`.

/// The option of a program that takes a password.
#[derive(Debug, Clone, Copy)]
pub(super) struct PasswordOption {
    flag: &'static str,
    /// Whether the value may also be the next word.
    is_separable: bool,
    /// Options with a value, if the program runs another one: the rule ends at the command.
    before_command: Option<&'static [&'static str]>,
}

const fn attached(flag: &'static str) -> PasswordOption {
    PasswordOption { flag, is_separable: false, before_command: None }
}

const fn either(flag: &'static str) -> PasswordOption {
    PasswordOption { flag, is_separable: true, before_command: None }
}

const SSHPASS: PasswordOption =
    PasswordOption { flag: "-p", is_separable: true, before_command: Some(&["-p", "-f", "-d", "-P"]) };

/// Programs and groups of commands with a subcommand `login`.
const WITH_LOGIN: &[&str] =
    &["docker", "podman", "nerdctl", "buildah", "skopeo", "oras", "registry", "az", "acr", "oc"];

/// The option of the program with this path or name.
fn of_program(before: &str, word: &str) -> Option<PasswordOption> {
    let name = word.rsplit('/').next().unwrap_or(word);
    Some(match name {
        "sshpass" => SSHPASS,
        "7z" | "7za" | "7zr" => attached("-p"),
        "login" if WITH_LOGIN.contains(&before) => either("-p"),
        "redis-cli" => either("-a"),
        "zip" | "unzip" | "sqlcmd" | "bcp" | "ipmitool" => either("-P"),
        _ if name.starts_with("mysql") || name.starts_with("mariadb") => attached("-p"),
        _ if name.starts_with("mongo") => either("-p"),
        _ if name.starts_with("ldap") => either("-w"),
        _ => return None,
    })
}

/// A word of a command, as the option of its program sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionWord {
    /// No part of the option.
    Other,
    /// The value of the option before it.
    Value,
    /// The flag with its value: its first bytes are the flag.
    Flag(usize),
}

impl OptionWord {
    /// The flag in a word that also has its value.
    pub(super) fn flag_before_value(self, word: &str) -> Option<&str> {
        match self {
            OptionWord::Flag(length) if word.len() > length => Some(&word[..length]),
            _ => None,
        }
    }
}

/// The password option of the command that is being read.
#[derive(Debug, Default)]
pub(super) struct CurrentCommand(Option<PasswordOption>);

impl CurrentCommand {
    /// The command has ended; another one may follow.
    pub(super) fn end(&mut self) {
        self.0 = None;
    }

    /// Reads the next word of the command, given the word before it.
    pub(super) fn read(&mut self, before: &str, word: &str) -> OptionWord {
        if let Some(option) = self.0 {
            if option.is_separable && before == option.flag {
                return OptionWord::Value;
            }
            if word.starts_with(option.flag) {
                return OptionWord::Flag(option.flag.len());
            }
            if option.before_command.is_some_and(|with_value| !with_value.contains(&before))
                && !word.starts_with('-')
            {
                self.end();
            }
        }
        if let Some(option) = of_program(before, word) {
            self.0 = Some(option);
        }
        OptionWord::Other
    }
}
