//! Target: where work is to be done, as people write it and as programs hold it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::shown::shown;

pub use link::dial::Tls;

/// Where work is to be done. Parsed from `local`, `ssh:[USER@]HOST[:PORT]`, `unix:PATH`, `http(s)://…`, `ws(s)://…` or
/// `codex:ws(s)://…`.
///
/// ```
/// use client::Target;
///
/// let target: Target = "ssh:deploy@build-host:2222".parse().unwrap();
/// assert_eq!(target.to_string(), "ssh:deploy@build-host:2222");
/// assert!("ssh:-oProxyCommand=x".parse::<Target>().is_err(), "an option is no host");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A daemon of our own on this machine, for as long as the session lasts.
    Local(LocalTarget),
    /// A daemon that ssh starts on another machine, for as long as the session lasts.
    Ssh(SshTarget),
    /// A running daemon, by its socket.
    Unix(PathBuf),
    /// A running daemon, by HTTP or WebSocket.
    Url(UrlTarget),
    /// A running exec-server of Codex's kind, by WebSocket or behind a rendezvous.
    ExecServer(UrlTarget),
}

/// How a daemon on this machine is started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalTarget {
    /// The program; found beside ours or on the PATH if absent.
    pub program: Option<PathBuf>,
    /// What it serves; its own configuration decides if empty, and without one the current directory.
    pub roots: Vec<PathBuf>,
}

/// How ssh reaches a machine and what it starts there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SshTarget {
    /// A name, an address, or an alias of ssh's own configuration.
    pub host: String,
    /// Who to log in as; ssh's configuration decides if absent.
    pub user: Option<String>,
    /// The port; ssh's configuration decides if absent.
    pub port: Option<u16>,
    /// A key.
    pub identity: Option<PathBuf>,
    /// Further arguments of ssh, before the host.
    pub options: Vec<String>,
    /// What is started there; `rexd --stdio`, wherever it lies, if absent.
    pub command: Option<RemoteCommand>,
}

/// What ssh starts on the other side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteCommand {
    /// A line for the login shell there.
    Line(String),
    /// A program and its arguments, protected from the shell.
    Argv(Vec<String>),
}

/// A daemon that listens, and how to be let in.
#[derive(Clone, PartialEq, Eq)]
pub struct UrlTarget {
    /// `http`, `https`, `ws` or `wss`.
    pub scheme: Scheme,
    /// Name or address, and port if it is written; an IPv6 address in its brackets.
    pub authority: String,
    /// The path, with its query; empty or `/` is the daemon's own.
    pub path: String,
    /// What proves who calls.
    pub token: Option<BearerToken>,
    /// Sent along, for proxies on the way.
    pub headers: Vec<(String, String)>,
    /// Files with certificates: who is trusted, and who we are.
    pub tls: Tls,
}

/// The scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Requests and a stream of events.
    Http,
    /// The same, encrypted.
    Https,
    /// A WebSocket.
    Ws,
    /// The same, encrypted.
    Wss,
}

/// What proves who calls; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(pub String);

/// What a client says in the query of a rendezvous.
pub(crate) const HARNESS: &str = "role=harness";

/// Text that names no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no target: {problem}")]
pub struct ParseTargetError {
    /// What was written, without secrets.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Scheme {
    const ALL: [Scheme; 4] = [Scheme::Http, Scheme::Https, Scheme::Ws, Scheme::Wss];

    /// The word before `://`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Ws => "ws",
            Scheme::Wss => "wss",
        }
    }

    /// Whether the connection is encrypted.
    pub const fn is_encrypted(self) -> bool {
        matches!(self, Scheme::Https | Scheme::Wss)
    }

    /// Whether it is HTTP's own scheme, without a WebSocket.
    pub const fn is_http(self) -> bool {
        matches!(self, Scheme::Http | Scheme::Https)
    }

    /// The port if none is written.
    pub const fn default_port(self) -> u16 {
        match self.is_encrypted() {
            true => 443,
            false => 80,
        }
    }
}

impl Target {
    /// A daemon on this machine with what it finds by itself.
    pub fn local() -> Target {
        Target::Local(LocalTarget::default())
    }
}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Target, ParseTargetError> {
        let wrong = |problem: &str| ParseTargetError { text: shown(text), problem: problem.to_owned() };
        if text == "local" {
            return Ok(Target::local());
        }
        if let Some(place) = text.strip_prefix("ssh:") {
            // `ssh://host` is how URLs are written, and means the same.
            return parse_ssh(place.strip_prefix("//").unwrap_or(place)).map(Target::Ssh).map_err(wrong);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() {
                true => Err(wrong("a path follows `unix:`")),
                false => Ok(Target::Unix(PathBuf::from(path))),
            };
        }
        for scheme in Scheme::ALL {
            if let Some(rest) = text.strip_prefix(scheme.as_str()).and_then(|rest| rest.strip_prefix("://")) {
                return parse_url(scheme, rest).map(Target::Url).map_err(wrong);
            }
        }
        if let Some(address) = text.strip_prefix("codex:") {
            return match address.parse() {
                Ok(Target::Url(url)) if !url.scheme.is_http() => Ok(Target::ExecServer(url)),
                _ => Err(wrong(
                    "`codex:` is followed by ws://HOST:PORT, as the exec-server prints it, or wss://…",
                )),
            };
        }
        if text.starts_with("hub:") {
            return Err(wrong("targets of this kind are not in this version yet"));
        }
        Err(wrong(
            "it is none of local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…",
        ))
    }
}

fn parse_ssh(place: &str) -> Result<SshTarget, &'static str> {
    let (user, place) = match place.rsplit_once('@') {
        Some((user, place)) => (Some(user.to_owned()), place),
        None => (None, place),
    };
    let (host, port) = split_port(place.trim_end_matches('/'))?;
    let ssh = SshTarget { host, user, port, ..SshTarget::default() };
    match ssh.is_plain() {
        true => Ok(ssh),
        false => Err("host and user must be plain names"),
    }
}

/// Host and port; a bracketed address loses its brackets, which ssh does not take.
fn split_port(place: &str) -> Result<(String, Option<u16>), &'static str> {
    let port = |text: &str| match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(Some(port)),
        _ => Err("the port is a number from 1 to 65535"),
    };
    if let Some((host, rest)) = place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match rest.strip_prefix(':') {
            Some(text) => Ok((host.to_owned(), port(text)?)),
            None if rest.is_empty() => Ok((host.to_owned(), None)),
            None => Err("only a port may follow the bracket"),
        };
    }
    match place.split_once(':') {
        // More than one colon is an address of version 6 without its brackets.
        Some((host, rest)) if !rest.contains(':') => Ok((host.to_owned(), port(rest)?)),
        _ => Ok((place.to_owned(), None)),
    }
}

fn parse_url(scheme: Scheme, rest: &str) -> Result<UrlTarget, &'static str> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') {
        return Err("a token does not belong into the URL: set REX_TOKEN or the target's tokenFile");
    }
    if authority.is_empty() || authority.starts_with(':') || rest.contains(char::is_whitespace) {
        return Err("a host follows `://`");
    }
    split_port(authority)?;
    let path = path.split('#').next().unwrap_or_default();
    Ok(UrlTarget {
        scheme,
        authority: authority.to_owned(),
        path: path.to_owned(),
        token: None,
        headers: Vec::new(),
        tls: Tls::default(),
    })
}

impl SshTarget {
    /// Whether host and user are names that neither ssh nor a shell could take for something else.
    pub fn is_plain(&self) -> bool {
        let is_odd = |text: &str| {
            let breaks = |c: char| c.is_whitespace() || c.is_control() || "'\"`$\\;&|<>(){}*?!#".contains(c);
            text.is_empty() || text.starts_with('-') || text.contains(breaks)
        };
        !is_odd(&self.host) && !self.user.as_deref().is_some_and(is_odd)
    }
}

impl UrlTarget {
    /// The whole address, with a token that its query may hold: for files, not for people.
    pub fn to_text(&self) -> String {
        format!("{}://{}{}", self.scheme.as_str(), self.authority, self.path)
    }

    /// Whether it is a rendezvous that carries an exec-server's messages in relay frames: its query decides.
    pub fn is_harness(&self) -> bool {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        query.split('&').any(|part| part == HARNESS)
    }

    /// Host and port to connect to.
    pub fn address(&self) -> (String, u16) {
        // It was checked when it was read; an odd port cannot be there.
        let (host, port) = split_port(&self.authority).unwrap_or((self.authority.clone(), None));
        (host, port.unwrap_or(self.scheme.default_port()))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Local(_) => f.write_str("local"),
            Target::Ssh(ssh) => write!(f, "ssh:{ssh}"),
            Target::Unix(path) => write!(f, "unix:{}", path.display()),
            Target::Url(url) => write!(f, "{url}"),
            Target::ExecServer(url) => write!(f, "codex:{url}"),
        }
    }
}

impl fmt::Display for UrlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A rendezvous takes a token in the query; whoever reads this is not to have it.
        f.write_str(&shown(&self.to_text()))
    }
}

impl fmt::Debug for UrlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>();
        f.debug_struct("UrlTarget")
            .field("address", &shown(&self.to_text()))
            .field("token", &self.token)
            .field("headers", &names)
            .field("tls", &self.tls)
            .finish()
    }
}

impl fmt::Display for SshTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]", self.host)?,
            false => f.write_str(&self.host)?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_alike() {
        for text in [
            "local",
            "ssh:build-host",
            "ssh:deploy@build-host:2222",
            "ssh:[fe80::1]:22",
            "unix:/run/rexd.sock",
            "http://127.0.0.1:7377",
            "wss://example.org/rexd/ws?x=1",
            "codex:ws://127.0.0.1:7000",
            "codex:wss://example.org/cloud/executor/e/rendezvous?role=harness",
        ] {
            assert_eq!(text.parse::<Target>().map(|target| target.to_string()).as_deref(), Ok(text));
        }
        assert_eq!("ssh://me@h:1/".parse::<Target>().unwrap().to_string(), "ssh:me@h:1");
    }

    #[test]
    fn what_is_no_target_says_why() {
        for (text, word) in [
            ("", "none of"),
            ("web", "none of"),
            ("ssh:", "plain names"),
            ("ssh:-oProxyCommand=touch x", "plain names"),
            ("ssh:-x@host", "plain names"),
            ("ssh:$(touch x)", "plain names"),
            ("hub:host-a", "not in this version"),
            ("codex:http://x", "ws://"),
            ("codex:", "ws://"),
            ("codex:ssh:host", "ws://"),
            ("codex:ws://", "ws://"),
            ("ssh:host:0", "port"),
            ("ssh:host:99999", "port"),
            ("unix:", "path"),
            ("http://", "host"),
            ("https://secret@host/", "token"),
            ("ws://host:x", "port"),
        ] {
            let problem = text.parse::<Target>().unwrap_err().problem;
            assert!(problem.contains(word), "{text}: {problem}");
        }
    }

    #[test]
    fn a_token_in_a_query_is_kept_and_not_shown() {
        let text = "ws://h/rendezvous?role=harness&token=secret";
        for text in [text.to_owned(), format!("{text}&x=1")] {
            let Ok(Target::ExecServer(url)) = format!("codex:{text}").parse() else { panic!("{text}") };
            assert_eq!(url.to_text(), text);
            assert!(!format!("{url:?}").contains("secret"), "{url:?}");
            assert_eq!(Target::ExecServer(url).to_string(), format!("codex:{}", text.replace("secret", "…")));
        }
        for text in ["codex:https://hub/x?token=secret", "https://secret@host/", "x:y?ticket=secret"] {
            let error = text.parse::<Target>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
    }

    #[test]
    fn a_url_knows_where_to_connect() {
        for (text, host, port) in [
            ("http://h", "h", 80),
            ("wss://h/x", "h", 443),
            ("ws://[::1]:7377/ws", "::1", 7377),
            ("https://127.0.0.1:1", "127.0.0.1", 1),
        ] {
            let Ok(Target::Url(url)) = text.parse() else { panic!("{text}") };
            assert_eq!(url.address(), (host.to_owned(), port));
        }
    }
}
