//! Entry: what an alias stands for, from the fields of the registry to exact types.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use client::Target;
use client::target::{LocalTarget, RemoteCommand, SshTarget, UrlTarget};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::document::Ordered;
use crate::route::places::in_home;

/// The field with a target's prefixes.
pub(super) const PREFIXES: &str = "pathPrefixes";

/// What an alias stands for. Paths of this machine are as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The target, without its token.
    pub target: Target,
    /// Where commands start there.
    pub default_cwd: Option<String>,
    /// What proves who calls.
    pub token: Option<TokenSource>,
    /// What somebody has written about it.
    pub description: Option<String>,
}

/// Where a target's token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// A file of its own.
    File(PathBuf),
    /// The registry itself, which other programs read too.
    Registry(client::target::BearerToken),
}

/// A directory here in which a target is used.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "PrefixText")]
pub struct Prefix {
    /// The directory here.
    pub from: PathBuf,
    /// The same directory there, if they are one project.
    pub to: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a directory, or {\"from\": DIRECTORY, \"to\": DIRECTORY}")]
enum PrefixText {
    Used(PathBuf),
    Mapped { from: PathBuf, to: String },
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a line, an array of arguments, or {\"program\": FILE, \"args\": [..]}")]
enum CommandText {
    Line(String),
    Argv(Vec<String>),
    Program {
        program: String,
        #[serde(default)]
        args: Vec<String>,
    },
}

/// The fields of a target.
struct Fields(Ordered);

impl Entry {
    /// Reads a target's fields; what is wrong with them, if something is.
    pub(super) fn parse(text: &str) -> Result<Entry, String> {
        let fields = serde_json::from_str(text).map(Fields).map_err(|_| "it is no object".to_owned())?;
        let default_cwd = fields.text("defaultCwd")?;
        let token = match fields.path("tokenFile")? {
            Some(file) => Some(TokenSource::File(file)),
            None => {
                fields.text("token")?.map(|token| TokenSource::Registry(client::target::BearerToken(token)))
            }
        };
        Ok(Entry { target: fields.target()?, default_cwd, token, description: fields.text("description")? })
    }

    /// A target's prefixes alone: every command looks at those of all targets, whatever else is wrong with them.
    pub(super) fn prefixes_of(text: &str) -> Result<Vec<Prefix>, String> {
        let fields = serde_json::from_str(text).map(Fields).map_err(|_| "it is no object".to_owned())?;
        Ok(fields.get(PREFIXES)?.unwrap_or_default())
    }

    /// The same with `~` in its paths as the home directory.
    pub(crate) fn at_home(mut self, home: Option<&Path>) -> Entry {
        let expand = |path: &mut PathBuf| *path = in_home(path, home);
        match &mut self.target {
            Target::Local(local) => local.roots.iter_mut().for_each(expand),
            Target::Ssh(ssh) => ssh.identity.iter_mut().for_each(expand),
            Target::Unix(path) => expand(path),
            Target::Url(url) | Target::ExecServer(url) => {
                let tls = &mut url.tls;
                [&mut tls.ca_file, &mut tls.cert_file, &mut tls.key_file]
                    .into_iter()
                    .flatten()
                    .for_each(expand);
            }
        }
        if let Some(TokenSource::File(file)) = &mut self.token {
            expand(file);
        }
        self
    }
}

impl Fields {
    fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, String> {
        match self.0.get(name) {
            None => Ok(None),
            // The place is one within the field, which helps nobody.
            Some(value) => serde_json::from_str(value.get()).map_err(|error| {
                let text = error.to_string();
                format!("`{name}`: {}", text.split(" at line ").next().unwrap_or(&text))
            }),
        }
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        Ok(self.get::<String>(name)?.filter(|text| !text.is_empty()))
    }

    fn path(&self, name: &str) -> Result<Option<PathBuf>, String> {
        Ok(self.text(name)?.map(PathBuf::from))
    }

    fn target(&self) -> Result<Target, String> {
        let transport = self.text("transport")?;
        match transport.as_deref() {
            // The seed calls it ssh-stdio, the plugins ssh; before they named it there was nothing else.
            Some("ssh" | "ssh-stdio") | None => self.ssh().map(Target::Ssh),
            Some("local" | "stdio") => {
                let roots = self.get("workspaceRoots")?.unwrap_or_default();
                Ok(Target::Local(LocalTarget { roots, ..LocalTarget::default() }))
            }
            Some("unix") => {
                self.path("path")?.map(Target::Unix).ok_or_else(|| "a unix target needs `path`".to_owned())
            }
            Some("http" | "https" | "ws" | "wss") => self.url().map(Target::Url),
            Some("codex") => match self.url()? {
                url if url.scheme.is_http() => {
                    Err("`url`: an exec-server's begins with ws:// or wss://".to_owned())
                }
                url => Ok(Target::ExecServer(url)),
            },
            Some(other) => {
                Err(format!("the transport `{other}` is none of ssh, local, unix, http, ws and codex"))
            }
        }
    }

    fn ssh(&self) -> Result<SshTarget, String> {
        let command = self.get::<CommandText>("command")?.map(|command| match command {
            CommandText::Line(line) => RemoteCommand::Line(line),
            CommandText::Argv(argv) => RemoteCommand::Argv(argv),
            CommandText::Program { program, args } => {
                RemoteCommand::Argv(std::iter::once(program).chain(args).collect())
            }
        });
        let is_empty = |command: &RemoteCommand| match command {
            RemoteCommand::Line(line) => line.trim().is_empty(),
            RemoteCommand::Argv(argv) => argv.first().is_none_or(String::is_empty),
        };
        let ssh = SshTarget {
            host: self.text("host")?.ok_or("an ssh target needs `host`")?,
            user: self.text("user")?,
            port: self.get("port")?,
            identity: self.path("identityFile")?,
            options: self.get("sshOptions")?.unwrap_or_default(),
            command: command.filter(|command| !is_empty(command)),
        };
        match ssh.is_plain() {
            true => Ok(ssh),
            false => Err("`host` and `user` must be plain names".to_owned()),
        }
    }

    fn url(&self) -> Result<UrlTarget, String> {
        let text = self.text("url")?.ok_or("it needs `url`")?;
        let mut url = match text.parse::<Target>() {
            Ok(Target::Url(url)) => url,
            Ok(other) => return Err(format!("`url`: `{other}` is no http(s):// or ws(s):// address")),
            Err(wrong) => return Err(format!("`url`: {wrong}; it is an http(s):// or ws(s):// address")),
        };
        url.headers =
            self.get::<BTreeMap<String, String>>("headers")?.unwrap_or_default().into_iter().collect();
        url.tls.ca_file = self.path("caFile")?;
        url.tls.cert_file = self.path("certFile")?;
        url.tls.key_file = self.path("keyFile")?;
        Ok(url)
    }
}

impl From<PrefixText> for Prefix {
    fn from(text: PrefixText) -> Prefix {
        match text {
            PrefixText::Used(from) => Prefix { from, to: None },
            PrefixText::Mapped { from, to } => Prefix { from, to: Some(to) },
        }
    }
}
