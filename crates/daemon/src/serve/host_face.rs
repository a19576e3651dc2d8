//! The host face: alone, or beside the other faces over the same engine.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::future::BoxFuture;

use super::{alone, serve_peers_of, shut_down_alone};
use crate::cli::args::HostArgs;
use crate::config::{Config, HostConfig, Paths, ShareScope};
use crate::core::Core;
use crate::core::session::Face as _;
use crate::core::state::create_private_dir;
use crate::faces::host::{Host, HostIdentity, HostSettings, HubUrl, Redaction, ServeStream, ToolPaths};
use crate::faces::rexd::{self, Rexd};
use crate::net::auth::Secret;
use crate::observe::log;

/// Serves only the host face, until a signal ends the daemon.
pub async fn host(config: &Config, paths: &Paths, args: &HostArgs) -> anyhow::Result<()> {
    let settings = HostFace::new(config, paths, args)?;
    settings.log_to_file();
    let (core, ending) = alone(config, paths)?;
    let _peers = serve_peers_of(&core);
    let face = settings.open(&core)?;
    let rexd = Arc::new(Rexd::new(core.clone(), Some(super::retention(&config.server)), None));
    face.clone().run(serve_rexd(config, &rexd)).await;
    shut_down_alone(&core, &[face.sessions().tasks(), rexd.sessions().tasks()], &ending).await;
    Ok(())
}

/// Serves streams of hub users as REXD, unless the configuration refuses that.
pub(super) fn serve_rexd(config: &Config, face: &Arc<Rexd>) -> Option<ServeStream> {
    let face = face.clone();
    let serve = move |link, context| -> BoxFuture<'static, ()> {
        let stop = face.core().stop.clone();
        Box::pin(rexd::serve(face.clone(), link, context, stop))
    };
    config.host.rexd.then(|| Arc::new(serve) as ServeStream)
}

/// The host face from flags, environment and configuration.
#[derive(Debug)]
pub struct HostFace(HostSettings);

impl HostFace {
    /// Flags take precedence over variables, and these over the file.
    pub fn new(config: &Config, paths: &Paths, args: &HostArgs) -> anyhow::Result<HostFace> {
        HostFace::from_variables(config, paths, args, std::env::vars_os().collect())
    }

    fn from_variables(
        config: &Config,
        paths: &Paths,
        args: &HostArgs,
        variables: Vec<(OsString, OsString)>,
    ) -> anyhow::Result<HostFace> {
        let variable = |name: &str| {
            let value = variables.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
            value.filter(|value| !value.is_empty())
        };
        let text = |name: &str| match variable(name).map(OsString::into_string) {
            Some(Err(_)) => Err(anyhow::anyhow!("the value of {name} is not UTF-8")),
            Some(Ok(text)) => Ok(Some(text)),
            None => Ok(None),
        };
        let file = &config.host;
        let state = paths.state.as_deref();
        let id = args.host_id.clone().or(text("HOST_ID")?).or_else(|| file.id.clone());
        let identity = HostIdentity::load(state, id, text("HOST_TOKEN")?.map(Secret::new))
            .context("the host has no identity")?;
        let in_state = |name: &str| state.map(|state| state.join(name));
        let named = |name: &str| variable(name).map(|path| paths.current.join(PathBuf::from(path)));
        let (redaction, invalid) = Redaction::new(&text("REDACTION_EXTRA_REGEX")?.unwrap_or_default());
        if let Some(invalid) = invalid.first() {
            anyhow::bail!("REDACTION_EXTRA_REGEX has an invalid expression {invalid}");
        }
        Ok(HostFace(HostSettings {
            identity,
            hubs: match hubs(args, text("SERVER_BASE_URL")?, file)? {
                hubs if hubs.is_empty() => {
                    anyhow::bail!("no hub is configured; pass --hub URL, or set host.hubs")
                }
                hubs => hubs,
            },
            join_code: args.join.clone().map(Secret::new),
            journals: in_state("runs").context("there is no state directory: set HOME or XDG_STATE_HOME")?,
            journal_bytes: file.journal_bytes,
            socket: named("LOCAL_UNIX_SOCKET")
                .or_else(|| file.socket.clone())
                .or_else(|| in_state("host.sock")),
            log: named("HOSTD_LOG_PATH").or_else(|| file.log.clone()).or_else(|| in_state("host.log")),
            tools: ToolPaths::from_variables(variables.clone()),
            redaction,
            shares_all: file.share == ShareScope::All,
            prompt_timeout: (file.prompt_timeout_ms > 0)
                .then(|| Duration::from_millis(file.prompt_timeout_ms)),
        }))
    }

    /// Writes the log to its file too.
    pub fn log_to_file(&self) {
        let Some(path) = &self.0.log else { return };
        let opened = match path.parent().filter(|dir| !dir.exists()) {
            // The state directory, at the first start.
            Some(dir) => create_private_dir(dir).and_then(|()| log::also_to_file(path)),
            None => log::also_to_file(path),
        };
        if let Err(error) = opened {
            tracing::warn!(%error, "cannot write the log to {}", path.display());
        }
    }

    /// Opens the face on this core.
    pub(super) fn open(self, core: &Arc<Core>) -> anyhow::Result<Arc<Host>> {
        let journals = self.0.journals.clone();
        Host::new(core.clone(), self.0).with_context(|| format!("cannot use {}", journals.display()))
    }
}

fn hubs(args: &HostArgs, variable: Option<String>, file: &HostConfig) -> anyhow::Result<Vec<HubUrl>> {
    let named: Vec<String> = match args.hubs.is_empty() {
        true => variable.into_iter().collect(),
        false => args.hubs.clone(),
    };
    let mut hubs = Vec::new();
    for url in &named {
        let hub = HubUrl::parse(url)?;
        if !hubs.contains(&hub) {
            hubs.push(hub);
        }
    }
    match hubs.is_empty() {
        true => Ok(file.hubs.clone()),
        false => Ok(hubs),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::ConfigArgs;

    /// The settings for these flags and variables; the file names a hub, an id, a socket and a log.
    fn settings(args: &HostArgs, variables: &[(&str, &str)]) -> anyhow::Result<HostSettings> {
        let state = tempfile::tempdir().unwrap();
        let paths = Paths {
            state: Some(state.path().join("rexd")),
            home: Some("/home/user".into()),
            current: "/cwd".into(),
            ..Paths::default()
        };
        let file =
            "[host]\nhubs = [\"http://file\"]\nid = \"file\"\nsocket = \"/file.sock\"\nlog = \"/file.log\"\n";
        let config = Config::parse(file, Path::new("c.toml"), &ConfigArgs::default(), &paths).unwrap();
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        HostFace::from_variables(&config, &paths, args, variables).map(|face| face.0)
    }

    fn hubs_of(settings: &HostSettings) -> Vec<String> {
        settings.hubs.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn flags_take_precedence_over_variables_and_these_over_the_file() {
        let file = settings(&HostArgs::default(), &[]).unwrap();
        assert_eq!((hubs_of(&file), file.identity.id.as_str()), (vec!["ws://file".to_owned()], "file"));
        assert_eq!((file.socket, file.log), (Some("/file.sock".into()), Some("/file.log".into())));
        let variables = [
            ("SERVER_BASE_URL", "https://variable"),
            ("HOST_ID", "variable"),
            ("HOST_TOKEN", "token"),
            ("LOCAL_UNIX_SOCKET", "variable.sock"),
            ("HOSTD_LOG_PATH", "/variable.log"),
            ("REDACTION_EXTRA_REGEX", "acct-[0-9]+"),
        ];
        let variable = settings(&HostArgs::default(), &variables).unwrap();
        assert_eq!(hubs_of(&variable), ["wss://variable"]);
        assert_eq!((variable.identity.id.as_str(), variable.identity.token.expose()), ("variable", "token"));
        assert_eq!(variable.socket, Some("/cwd/variable.sock".into()), "relative to the current directory");
        assert_eq!(variable.log, Some("/variable.log".into()));
        assert_eq!(variable.redaction.text("of acct-42"), "of [hidden]");
        let hubs = ["http://one", "http://two", "http://one/"].map(str::to_owned).to_vec();
        let args = HostArgs { hubs, host_id: Some("flag".to_owned()), ..HostArgs::default() };
        let flag = settings(&args, &variables).unwrap();
        assert_eq!(
            (hubs_of(&flag), flag.identity.id.as_str()),
            (vec!["ws://one".to_owned(), "ws://two".to_owned()], "flag")
        );
        let empty =
            settings(&HostArgs::default(), &[("SERVER_BASE_URL", ""), ("LOCAL_UNIX_SOCKET", "")]).unwrap();
        assert_eq!(
            (hubs_of(&empty), empty.socket),
            (vec!["ws://file".to_owned()], Some("/file.sock".into()))
        );
    }

    #[test]
    fn a_value_that_cannot_be_used_is_an_error_that_names_its_variable() {
        let error = settings(&HostArgs::default(), &[("REDACTION_EXTRA_REGEX", "(")]).unwrap_err();
        assert!(error.to_string().contains("REDACTION_EXTRA_REGEX"), "{error}");
        assert!(settings(&HostArgs::default(), &[("SERVER_BASE_URL", "ftp://hub")]).is_err());
    }
}
