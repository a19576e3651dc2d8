//! The command line of `rex rsh`, which is that of ssh.

use clap::Args as ArgGroup;

/// Arguments of `rex rsh`.
#[derive(Debug, ArgGroup)]
pub struct RshArgs {
    /// Options of ssh, the host, and the command
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "[SSH OPTIONS] HOST CMD"
    )]
    pub words: Vec<String>,
}

/// The options without a value that select how ssh connects. They have no meaning for other targets.
const CONNECTION_FLAGS: &str = "46aACkKqvxXYy";
/// The options with a value that select how ssh connects.
const CONNECTION_VALUES: &str = "bceimoBEFIJS";
/// The other options with a value: they are refused, because their effect would be missing.
const OTHER_VALUES: &str = "DLOPQRWw";
/// The settings of `-o` that are refused, because their effect would be missing, as that of the options with the same meaning;
/// each with the value that has no effect.
const REFUSED_SETTINGS: [(&str, &str); 7] = [
    ("localforward", ""),
    ("remoteforward", ""),
    ("dynamicforward", ""),
    ("remotecommand", "none"),
    ("sessiontype", "default"),
    ("forkafterauthentication", "no"),
    ("tunnel", "no"),
];

/// The parsed command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RshCommandLine {
    /// The host, as written.
    pub host: String,
    /// The user of `-l`.
    pub user: Option<String>,
    /// The port of `-p`.
    pub port: Option<u16>,
    /// The options for ssh itself.
    pub ssh_options: Vec<String>,
    /// The variables of `-o SendEnv=NAME` and `-o SetEnv=NAME=VALUE`.
    pub variables: Vec<String>,
    /// Whether a terminal is requested.
    pub wants_terminal: bool,
    /// Whether stdin is not forwarded.
    pub has_no_input: bool,
    /// Whether the command is the name of a subsystem.
    pub is_subsystem: bool,
    /// Whether only the configuration is printed.
    pub prints_configuration: bool,
    /// The command line for the shell; empty for an interactive shell.
    pub command: String,
}

impl RshArgs {
    /// Parses the words as ssh does: options may also follow the host, and end at `--` or at the command.
    pub fn parse(&self) -> Result<RshCommandLine, String> {
        let mut line = RshCommandLine::default();
        let mut words = self.words.iter();
        let mut has_host = false;
        while let Some(word) = words.next() {
            match word.strip_prefix('-') {
                Some("-") => {
                    if !has_host {
                        line.host = words.next().cloned().unwrap_or_default();
                    }
                    break;
                }
                Some(letters) if !letters.is_empty() => line.take_options(letters, &mut words)?,
                _ if !has_host => {
                    line.host.clone_from(word);
                    has_host = true;
                }
                _ => {
                    line.command.clone_from(word);
                    break;
                }
            }
        }
        for word in words {
            if !line.command.is_empty() {
                line.command.push(' ');
            }
            line.command.push_str(word);
        }
        match line.host.is_empty() {
            true => Err("no host".to_owned()),
            false => Ok(line),
        }
    }
}

impl RshCommandLine {
    /// Takes the letters of one word, of which the last may have a value.
    fn take_options<'a>(
        &mut self,
        letters: &str,
        words: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), String> {
        let mut rest = letters.chars();
        while let Some(letter) = rest.next() {
            match letter {
                't' => self.wants_terminal = true,
                'T' => self.wants_terminal = false,
                'n' => self.has_no_input = true,
                's' => self.is_subsystem = true,
                'G' => self.prints_configuration = true,
                _ if CONNECTION_FLAGS.contains(letter) => self.ssh_options.push(format!("-{letter}")),
                _ => {
                    let takes_value = "lp".contains(letter)
                        || CONNECTION_VALUES.contains(letter)
                        || OTHER_VALUES.contains(letter);
                    if !takes_value || OTHER_VALUES.contains(letter) {
                        return Err(format!("unsupported option -{letter}"));
                    }
                    let value = match rest.as_str() {
                        "" => words.next().cloned().ok_or_else(|| format!("-{letter} needs a value"))?,
                        value => value.to_owned(),
                    };
                    return self.take_value(letter, value);
                }
            }
        }
        Ok(())
    }

    fn take_value(&mut self, letter: char, value: String) -> Result<(), String> {
        match letter {
            'l' => self.user = Some(value),
            'p' => self.port = Some(value.parse().map_err(|_| format!("invalid port {value}"))?),
            _ => {
                if letter != 'o' || self.take_setting(&value)? {
                    self.ssh_options.extend([format!("-{letter}"), value]);
                }
            }
        }
        Ok(())
    }

    /// Takes a setting that has a meaning for the command. Returns whether it is also for the ssh that carries the connection.
    fn take_setting(&mut self, setting: &str) -> Result<bool, String> {
        let setting = setting.trim();
        let (name, value) = setting.split_once(['=', ' ', '\t']).unwrap_or((setting, ""));
        // There may be spaces around the `=`.
        let value = value.trim_start().strip_prefix('=').unwrap_or(value).trim();
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "sendenv" | "setenv" => self.variables.extend(value.split_whitespace().map(str::to_owned)),
            "requesttty" => self.wants_terminal = matches!(value, "yes" | "force"),
            "stdinnull" => {
                self.has_no_input = value.eq_ignore_ascii_case("yes");
                return Ok(false);
            }
            _ => {
                let refused = REFUSED_SETTINGS.iter().find(|(refused, _)| *refused == lower);
                if refused.is_some_and(|(_, without_effect)| !value.eq_ignore_ascii_case(without_effect)) {
                    return Err(format!("unsupported option -o {name}"));
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<RshCommandLine, String> {
        RshArgs { words: line.split(' ').map(str::to_owned).collect() }.parse()
    }

    #[test]
    fn the_lines_of_real_programs_are_understood() {
        let rsync = parse("-l ada -p 2222 build rsync --server -vlogDtpre.iLsfxCIvu . /srv").unwrap();
        assert_eq!(
            (rsync.host.as_str(), rsync.user.as_deref(), rsync.port),
            ("build", Some("ada"), Some(2222))
        );
        assert_eq!(rsync.command, "rsync --server -vlogDtpre.iLsfxCIvu . /srv");
        let scp = parse("-x -oPermitLocalCommand=no -oRequestTTY=no -oForwardAgent=no -p22 -s -- build sftp")
            .unwrap();
        assert!(scp.is_subsystem && scp.command == "sftp" && scp.port == Some(22) && scp.host == "build");
        let git = parse("-o SendEnv=GIT_PROTOCOL git@host git-upload-pack '/a b.git'").unwrap();
        assert_eq!(git.variables, ["GIT_PROTOCOL"]);
        assert_eq!((git.host.as_str(), git.command.as_str()), ("git@host", "git-upload-pack '/a b.git'"));
        assert!(parse("-G host").unwrap().prints_configuration);
        assert!(parse("-oRemoteCommand=none -oTunnel=no -oSessionType=default host").is_ok());
        let words = ["-o", "RemoteCommand = None", "-o", "StdinNull = yes", "host"].map(str::to_owned);
        let parsed = RshArgs { words: words.into() }.parse().unwrap();
        assert!(parsed.has_no_input && parsed.ssh_options == ["-o", "RemoteCommand = None"], "{parsed:?}");
        let ansible =
            parse("-C -o ControlMaster=auto -o ControlPath=/x/%C -tt host /bin/sh -c 'exit 0'").unwrap();
        assert!(ansible.wants_terminal && ansible.command == "/bin/sh -c 'exit 0'");
        assert_eq!(ansible.ssh_options, ["-C", "-o", "ControlMaster=auto", "-o", "ControlPath=/x/%C"]);
        assert_eq!(parse("host -4n -- ls -l").unwrap().command, "ls -l");
        assert_eq!(parse("host").unwrap().command, "");
    }

    #[test]
    fn an_option_whose_effect_would_be_missing_is_refused() {
        for (line, word) in [
            ("-N host", "-N"),
            ("-f host true", "-f"),
            ("-L 80:a:80 host", "-L"),
            ("-D80 host", "-D"),
            ("-W a:1 host", "-W"),
            ("-nO exit host", "-O"),
            ("-o LocalForward=1:a:1 host", "-o LocalForward"),
            ("-oremoteforward=1:a:1 host", "-o remoteforward"),
            ("-o DynamicForward=1080 host", "-o DynamicForward"),
            ("-o RemoteCommand=true host", "-o RemoteCommand"),
            ("-oSessionType=none host", "-o SessionType"),
            ("-oForkAfterAuthentication=yes host", "-o ForkAfterAuthentication"),
            ("-oTunnel=yes host", "-o Tunnel"),
            ("-p x host", "port"),
            ("-p", "-p needs"),
            ("-4", "no host"),
            ("--", "no host"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
