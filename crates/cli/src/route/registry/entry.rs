//! TargetEntry: a target of the registry, converted from its JSON fields.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use client::Target;
use client::target::{HubTarget, LocalTarget, RemoteCommand, SshTarget, Tls, UrlTarget};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::raw_object::RawObject;
use crate::route::paths::expand_home;
use crate::route::suggest;

/// The fields that are known here or to the plugins; others are preserved.
const KNOWN_FIELDS: [&str; 25] = [
    "transport",
    "host",
    "user",
    "port",
    "identityFile",
    "sshOptions",
    "share",
    "command",
    "path",
    "url",
    "headers",
    "token",
    "tokenFile",
    "caFile",
    "certFile",
    "keyFile",
    "defaultCwd",
    "workspaceRoots",
    "pathPrefixes",
    "description",
    "loginShell",
    "capabilities",
    "rootPolicy",
    "homeDir",
    "env",
];

/// The field that lists a target's path prefixes.
pub(super) const PREFIXES: &str = "pathPrefixes";

/// A target of the registry. Local paths are as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetEntry {
    /// The target, without its token.
    pub target: Target,
    /// The working directory on the target.
    pub default_cwd: Option<String>,
    /// Where its token comes from.
    pub token: Option<TokenSource>,
    /// A description for people.
    pub description: Option<String>,
    /// Fields that are probably misspelt, each with the known one.
    pub misspelt: Vec<(String, &'static str)>,
}

/// Where a target's token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// A token file.
    File(PathBuf),
    /// The registry itself, which other programs read too.
    Registry(client::target::BearerToken),
}

/// A local directory in which a target is used.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "PrefixText")]
pub struct Prefix {
    /// The local directory.
    pub from: PathBuf,
    /// The directory on the target that it is mapped to.
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

/// The JSON fields of a target.
struct Fields(RawObject);

impl TargetEntry {
    /// Parses the fields of a target; the error names the field.
    pub(super) fn parse(text: &str) -> Result<TargetEntry, String> {
        let fields = serde_json::from_str(text).map(Fields).map_err(|_| "not a JSON object".to_owned())?;
        let default_cwd = fields.text("defaultCwd")?;
        let token = match fields.path("tokenFile")? {
            Some(file) => Some(TokenSource::File(file)),
            None => {
                fields.text("token")?.map(|token| TokenSource::Registry(client::target::BearerToken(token)))
            }
        };
        Ok(TargetEntry {
            target: fields.target()?,
            default_cwd,
            token,
            description: fields.text("description")?,
            misspelt: fields.misspelt(),
        })
    }

    /// Parses only the path prefixes: every command needs those of all targets, even of otherwise invalid ones.
    pub(super) fn prefixes_of(text: &str) -> Result<Vec<Prefix>, String> {
        let fields = serde_json::from_str(text).map(Fields).map_err(|_| "not a JSON object".to_owned())?;
        Ok(fields.get(PREFIXES)?.unwrap_or_default())
    }

    /// One warning for each field that is probably misspelt.
    pub fn warnings(&self, alias: &str) -> Vec<String> {
        let warning = |(field, meant): &(String, &str)| {
            format!("unknown field `{field}` of `{alias}` in the registry: did you mean `{meant}`?")
        };
        self.misspelt.iter().map(warning).collect()
    }

    /// Expands `~` in its local paths.
    pub(crate) fn expand_home(mut self, home: Option<&Path>) -> TargetEntry {
        let expand = |path: &mut PathBuf| *path = expand_home(path, home);
        match &mut self.target {
            Target::Local(local) => local.roots.iter_mut().for_each(expand),
            Target::Ssh(ssh) => ssh.identity.iter_mut().for_each(expand),
            Target::Unix(path) => expand(path),
            Target::Url(url) | Target::ExecServer(url) => expand_certificates(&mut url.tls, expand),
            Target::Hub(hub) => hub.hub.iter_mut().for_each(|url| expand_certificates(&mut url.tls, expand)),
        }
        if let Some(TokenSource::File(file)) = &mut self.token {
            expand(file);
        }
        self
    }
}

/// The unknown keys that are similar to a known one, which is absent.
pub(super) fn misspelt(object: &RawObject, known: &[&'static str]) -> Vec<(String, &'static str)> {
    let unknown = object.keys().filter(|name| !known.contains(name));
    let meant = |name: &str| {
        suggest::nearest(name, known.iter().copied()).filter(|meant| object.get(meant).is_none())
    };
    unknown.filter_map(|name| Some((name.to_owned(), meant(name)?))).collect()
}

fn expand_certificates(tls: &mut Tls, expand: impl Fn(&mut PathBuf)) {
    [&mut tls.ca_file, &mut tls.cert_file, &mut tls.key_file].into_iter().flatten().for_each(expand);
}

impl Fields {
    fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, String> {
        match self.0.get(name) {
            None => Ok(None),
            // serde's position is relative to the field and would mislead.
            Some(value) => serde_json::from_str(value.get()).map_err(|error| {
                let text = error.to_string();
                format!("`{name}`: {}", text.split(" at line ").next().unwrap_or(&text))
            }),
        }
    }

    fn misspelt(&self) -> Vec<(String, &'static str)> {
        misspelt(&self.0, &KNOWN_FIELDS)
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
            // `ssh-stdio` and a missing transport are older spellings of `ssh`.
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
                    Err("`url`: the URL of an exec-server starts with ws:// or wss://".to_owned())
                }
                url => Ok(Target::ExecServer(url)),
            },
            Some("hub") => self.hub().map(Target::Hub),
            Some(other) => {
                Err(format!("unknown transport `{other}`: use ssh, local, unix, http, ws, codex or hub"))
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
            is_unshared: self.get("share")? == Some(false),
        };
        match ssh.is_plain() {
            true => Ok(ssh),
            false => Err("`host` and `user` must be plain names".to_owned()),
        }
    }

    fn hub(&self) -> Result<HubTarget, String> {
        let host = self.text("host")?.unwrap_or_default();
        let target = HubTarget::parse(&host).map_err(|problem| format!("`host`: {problem}"))?;
        let hub = self.text("url")?.map(|_| self.url()).transpose()?;
        Ok(HubTarget { hub, ..target })
    }

    fn url(&self) -> Result<UrlTarget, String> {
        let text = self.text("url")?.ok_or("this transport needs `url`")?;
        let mut url = match text.parse::<Target>() {
            Ok(Target::Url(url)) => url,
            Ok(other) => return Err(format!("`url`: `{other}` is not an http(s):// or ws(s):// URL")),
            Err(wrong) => return Err(format!("`url`: {wrong}; expected an http(s):// or ws(s):// URL")),
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
