//! Targets: the machines and daemons a session can be opened on, and their text form.

mod hub;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::redact::redacted;

pub use hub::{HubTarget, SharedTokenProvider, TokenFuture, TokenProvider};
pub use link::dial::Tls;

/// Where a session is opened. Parsed from `local`, `ssh:[USER@]HOST[:PORT]`, `unix:PATH`, `http(s)://…`, `ws(s)://…`,
/// `codex:ws(s)://…` or `hub:HOST`.
///
/// ```
/// use client::Target;
///
/// let target: Target = "ssh:deploy@build-host:2222".parse().unwrap();
/// assert_eq!(target.to_string(), "ssh:deploy@build-host:2222");
/// assert!("ssh:-oProxyCommand=x".parse::<Target>().is_err(), "an option is not a host");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A daemon that is started on this machine for the duration of the session.
    Local(LocalTarget),
    /// A daemon that ssh starts on another machine for the duration of the session.
    Ssh(SshTarget),
    /// A running daemon, over its Unix socket.
    Unix(PathBuf),
    /// A running daemon, over a WebSocket.
    Url(UrlTarget),
    /// A running exec-server, over a WebSocket or behind a rendezvous.
    ExecServer(UrlTarget),
    /// A host of a hub, which carries the session to it.
    Hub(HubTarget),
}

/// How to start a daemon on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LocalTarget {
    /// The program; searched next to this program and on the PATH if absent.
    pub program: Option<PathBuf>,
    /// The directories it serves; if empty, its configuration decides, or else the current directory.
    pub roots: Vec<PathBuf>,
}

/// How ssh connects to a machine and what it starts there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SshTarget {
    /// A name, an address, or an alias of the ssh configuration.
    pub host: String,
    /// The user to log in as; the ssh configuration decides if absent.
    pub user: Option<String>,
    /// The port; the ssh configuration decides if absent.
    pub port: Option<u16>,
    /// The file with the private key.
    pub identity: Option<PathBuf>,
    /// Further arguments of ssh before the host.
    pub options: Vec<String>,
    /// The command that is started there; `rexd --stdio` from the usual directories if absent.
    pub command: Option<RemoteCommand>,
    /// Whether each session has a connection of its own, instead of one that all sessions on the target share.
    pub is_unshared: bool,
}

/// The command that ssh starts on the other machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteCommand {
    /// A line that the login shell interprets.
    Line(String),
    /// A program and its arguments, quoted for the shell.
    Argv(Vec<String>),
}

/// The address of a listening daemon and the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub struct UrlTarget {
    /// The scheme: `http`, `https`, `ws` or `wss`.
    pub scheme: Scheme,
    /// Host and optional port; an IPv6 address is in brackets.
    pub authority: String,
    /// The path and query; empty or `/` means the default path.
    pub path: String,
    /// The bearer token for authentication.
    pub token: Option<BearerToken>,
    /// Additional headers, for proxies.
    pub headers: Vec<(String, String)>,
    /// Files with the trusted certificates and the client certificate.
    pub tls: Tls,
}

/// The scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP, upgraded to a WebSocket.
    Http,
    /// HTTP over TLS, upgraded to a WebSocket.
    Https,
    /// A WebSocket without encryption.
    Ws,
    /// A WebSocket over TLS.
    Wss,
}

/// A bearer token; `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(pub String);

/// The query parameter of a client at a rendezvous.
pub(crate) const HARNESS_ROLE: &str = "role=harness";

/// Why a text is not a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid target `{text}`: {problem}")]
pub struct ParseTargetError {
    /// The text, with secrets redacted.
    pub text: String,
    /// Why it is invalid.
    pub problem: String,
}

impl Scheme {
    const ALL: [Scheme; 4] = [Scheme::Http, Scheme::Https, Scheme::Ws, Scheme::Wss];

    /// The scheme as written before `://`.
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

    /// Whether the scheme is `http` or `https`.
    pub const fn is_http(self) -> bool {
        matches!(self, Scheme::Http | Scheme::Https)
    }

    /// The port of a URL without one.
    pub const fn default_port(self) -> u16 {
        match self.is_encrypted() {
            true => 443,
            false => 80,
        }
    }
}

impl Target {
    /// A daemon on this machine with its own configuration.
    pub fn local() -> Target {
        Target::Local(LocalTarget::default())
    }
}

impl FromStr for Target {
    type Err = ParseTargetError;

    fn from_str(text: &str) -> Result<Target, ParseTargetError> {
        let invalid = |problem: &str| ParseTargetError { text: redacted(text), problem: problem.to_owned() };
        if text == "local" {
            return Ok(Target::local());
        }
        if let Some(address) = text.strip_prefix("ssh:") {
            // `ssh://host` means the same.
            return parse_ssh(address.strip_prefix("//").unwrap_or(address))
                .map(Target::Ssh)
                .map_err(invalid);
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() {
                true => Err(invalid("expected a path after `unix:`")),
                false => Ok(Target::Unix(PathBuf::from(path))),
            };
        }
        for scheme in Scheme::ALL {
            if let Some(rest) = text.strip_prefix(scheme.as_str()).and_then(|rest| rest.strip_prefix("://")) {
                return parse_url(scheme, rest).map(Target::Url).map_err(invalid);
            }
        }
        if let Some(address) = text.strip_prefix("codex:") {
            return match address.parse() {
                Ok(Target::Url(url)) if !url.scheme.is_http() => Ok(Target::ExecServer(url)),
                Ok(_) | Err(_) => Err(invalid(
                    "expected ws://HOST:PORT, as the exec-server prints it, or wss://… after `codex:`",
                )),
            };
        }
        if let Some(host) = text.strip_prefix("hub:") {
            return HubTarget::parse(host).map(Target::Hub).map_err(invalid);
        }
        Err(invalid(
            "expected one of local, ssh:[USER@]HOST[:PORT], unix:PATH, http(s)://…, ws(s)://…, codex:ws(s)://…, hub:HOST",
        ))
    }
}

fn parse_ssh(address: &str) -> Result<SshTarget, &'static str> {
    let (user, host) = match address.rsplit_once('@') {
        Some((user, host)) => (Some(user.to_owned()), host),
        None => (None, address),
    };
    let (host, port) = split_port(host.trim_end_matches('/'))?;
    let ssh = SshTarget { host, user, port, ..SshTarget::default() };
    match ssh.is_plain() {
        true => Ok(ssh),
        false => Err("host and user must be plain names, without spaces and shell characters"),
    }
}

/// Splits host and port; the brackets of an IPv6 address are removed, as ssh does not accept them.
fn split_port(authority: &str) -> Result<(String, Option<u16>), &'static str> {
    let port = |text: &str| match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(Some(port)),
        _ => Err("the port must be a number from 1 to 65535"),
    };
    if let Some((host, rest)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match rest.strip_prefix(':') {
            Some(text) => Ok((host.to_owned(), port(text)?)),
            None if rest.is_empty() => Ok((host.to_owned(), None)),
            None => Err("only a port may follow the closing bracket"),
        };
    }
    match authority.split_once(':') {
        // More than one colon: an IPv6 address without brackets.
        Some((host, rest)) if !rest.contains(':') => Ok((host.to_owned(), port(rest)?)),
        _ => Ok((authority.to_owned(), None)),
    }
}

fn parse_url(scheme: Scheme, rest: &str) -> Result<UrlTarget, &'static str> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.contains('@') {
        return Err("the URL must not contain a token: set REX_TOKEN or the target's tokenFile");
    }
    if authority.is_empty() || authority.starts_with(':') || rest.contains(char::is_whitespace) {
        return Err("expected a host after `://`");
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
    /// Whether host and user cannot be mistaken for options or shell syntax.
    pub fn is_plain(&self) -> bool {
        let is_special = |text: &str| {
            let breaks = |c: char| c.is_whitespace() || c.is_control() || "'\"`$\\;&|<>(){}*?!#".contains(c);
            text.is_empty() || text.starts_with('-') || text.contains(breaks)
        };
        !is_special(&self.host) && !self.user.as_deref().is_some_and(is_special)
    }
}

impl UrlTarget {
    /// The complete address including secrets in its query, for files and not for messages.
    pub fn to_text(&self) -> String {
        format!("{}://{}{}", self.scheme.as_str(), self.authority, self.path)
    }

    /// Whether the query selects the client's role at a rendezvous, where relay frames carry the messages.
    pub fn is_harness(&self) -> bool {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        query.split('&').any(|part| part == HARNESS_ROLE)
    }

    /// The host and port to connect to.
    pub fn address(&self) -> (String, u16) {
        // The port was checked when the URL was parsed.
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
            Target::Hub(hub) => write!(f, "{hub}"),
        }
    }
}

impl fmt::Display for UrlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The query of a rendezvous may contain a token.
        f.write_str(&redacted(&self.to_text()))
    }
}

impl fmt::Debug for UrlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>();
        f.debug_struct("UrlTarget")
            .field("address", &redacted(&self.to_text()))
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
    fn a_target_is_displayed_as_it_was_written() {
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
            "hub:host-a",
            "hub:",
        ] {
            assert_eq!(text.parse::<Target>().map(|target| target.to_string()).as_deref(), Ok(text));
        }
        assert_eq!("ssh://me@h:1/".parse::<Target>().unwrap().to_string(), "ssh:me@h:1");
    }

    #[test]
    fn an_invalid_target_is_explained() {
        for (text, word) in [
            ("", "one of"),
            ("web", "one of"),
            ("ssh:", "plain names"),
            ("ssh:-oProxyCommand=touch x", "plain names"),
            ("ssh:-x@host", "plain names"),
            ("ssh:$(touch x)", "plain names"),
            ("hub:a/b", "`hub:`"),
            ("hub:a\u{1b}[2J", "`hub:`"),
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
    fn a_token_in_a_query_is_kept_and_not_displayed() {
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
    fn a_url_has_a_host_and_a_port() {
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
