//! The hub of the demonstration: an embedded store in a temporary directory, one user, one token.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use client::Target;
use client::hub::HubClient;
use client::target::{BearerToken, HubTarget, UrlTarget};
use tokio::time::Instant;

use super::certificates::Certificates;
use super::daemon::HOST_ID;
use super::programs::Server;
use super::workspace::Workspace;
use crate::failure::Failure;

/// The user of the browser.
const USER: &str = "admin";
/// The name of the token of the demonstration.
const TOKEN: &str = "rex-up";
/// How long the host may take to connect.
const ONLINE_WITHIN: Duration = Duration::from_secs(60);
/// The time between two checks for it.
const CHECK: Duration = Duration::from_millis(20);

/// A running hub, terminated when this is dropped.
#[derive(Debug)]
pub(super) struct DemoHub {
    program: PathBuf,
    data: PathBuf,
    server: Server,
    port: u16,
    certificates: Option<Certificates>,
    token: String,
}

impl DemoHub {
    /// Starts the hub; with `lan`, over TLS on all addresses.
    pub(super) fn start(workspace: &Workspace, lan: bool) -> Result<DemoHub, Failure> {
        let program = client::find_rexhub().ok_or_else(|| {
            Failure::new("cannot find rexhub").hint("put rexhub next to rex or on the PATH")
        })?;
        let data = workspace.own("hub");
        let certificates = lan.then(|| Certificates::create(workspace)).transpose()?;
        manage(&program, &data, &["user", "add", USER, "--role", "admin"])?;
        let token =
            manage(&program, &data, &["token", "add", TOKEN, "--kind", "client", "--role", "admin"])?.0;
        let mut command = Command::new(&program);
        command.arg("serve").arg("--data").arg(&data).env_remove("REXHUB_DATABASE");
        command.args(["--enrol", "code", "--listen", if lan { "0.0.0.0:0" } else { "127.0.0.1:0" }]);
        if let Some(files) = &certificates {
            command.arg("--tls-cert").arg(&files.certificate).arg("--tls-key").arg(&files.key);
            command.arg("--ca-cert").arg(&files.authority);
        }
        let (server, listeners) = Server::start(command, 1)?;
        let port = listeners.first().and_then(|url| url.rsplit_once(':')?.1.parse().ok());
        let port = port.ok_or_else(|| Failure::new("the hub did not print its address"))?;
        Ok(DemoHub { program, data, server, port, certificates, token })
    }

    /// Its URL on this machine.
    pub(super) fn local_url(&self) -> String {
        self.url("127.0.0.1")
    }

    fn url(&self, host: &str) -> String {
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        format!("{scheme}://{host}:{}", self.port)
    }

    /// Its URL for browsers: on the local network if it serves that.
    pub(super) fn browser_url(&self) -> String {
        match &self.certificates {
            Some(certificates) => self.url(&certificates.address.to_string()),
            None => self.local_url(),
        }
    }

    /// The file of the authority that signed its certificate.
    pub(super) fn authority(&self) -> Option<&Path> {
        self.certificates.as_ref().map(|files| files.authority.as_path())
    }

    /// The SHA-256 fingerprint of the authority.
    pub(super) fn fingerprint(&self) -> Option<&str> {
        self.certificates.as_ref().map(|files| files.fingerprint.as_str())
    }

    /// A code with which one host enrols.
    pub(super) fn join_code(&self) -> Result<String, Failure> {
        Ok(manage(&self.program, &self.data, &["join-code"])?.0)
    }

    /// A link with which a browser signs in once, and with TLS its QR code.
    pub(super) fn sign_in_link(&self) -> Result<(String, String), Failure> {
        let url = self.browser_url();
        let mut arguments = vec!["user", "link", USER, "--url", &url];
        arguments.extend(self.certificates.is_some().then_some("--qr"));
        manage(&self.program, &self.data, &arguments)
    }

    /// This machine as a host of the hub.
    pub(super) fn host(&self) -> Result<HubTarget, Failure> {
        let Target::Url(url) =
            self.local_url().parse::<Target>().map_err(|error| Failure::new(error.to_string()))?
        else {
            return Err(Failure::new("the hub printed an invalid address"));
        };
        let tls = client::target::Tls { ca_file: self.authority().map(Path::to_owned), ..url.tls.clone() };
        let url = UrlTarget { token: Some(BearerToken(self.token.clone())), tls, ..url };
        Ok(HubTarget { host: Some(HOST_ID.to_owned()), hub: Some(url), sign_in: None })
    }

    /// The API of the hub, once this machine is connected to it.
    pub(super) async fn client(&self) -> Result<HubClient, Failure> {
        let client = HubClient::new(&self.host()?).map_err(client::hub::HubError::from)?;
        let deadline = Instant::now() + ONLINE_WITHIN;
        while !client.hosts().await?.iter().any(|host| host.id == HOST_ID && host.online) {
            if Instant::now() > deadline {
                return Err(Failure::new("rexd did not connect to rexhub in time"));
            }
            tokio::time::sleep(CHECK).await;
        }
        Ok(client)
    }

    /// Sends SIGTERM and waits for the exit.
    pub(super) fn terminate(&mut self) -> Result<(), Failure> {
        self.server.terminate()
    }
}

/// Runs a command of `rexhub`; returns the line on stdout, and stderr.
fn manage(program: &Path, data: &Path, arguments: &[&str]) -> Result<(String, String), Failure> {
    let mut command = Command::new(program);
    command.args(arguments).arg("--data").arg(data).env_remove("REXHUB_DATABASE").stdin(Stdio::null());
    let output = command
        .output()
        .map_err(|error| Failure::new(format!("cannot start {}: {error}", program.display())))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok((text(&output.stdout).trim().to_owned(), text(&output.stderr))),
        false => {
            let name = arguments.iter().take(2).copied().collect::<Vec<_>>().join(" ");
            Err(Failure::new(format!("rexhub {name} failed: {}", text(&output.stderr).trim())))
        }
    }
}
