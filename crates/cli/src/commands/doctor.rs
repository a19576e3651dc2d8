//! `rex doctor`: checks the client, the registry and every target.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use client::hub::HubClient;
use client::{Session, SessionOptions, Target};
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::route::{self, Choice, Inputs, Registry};
use crate::table::TextTable;

/// Targets that are checked concurrently.
const MAX_CONCURRENT_CHECKS: usize = 16;

/// The result for the client, the registry or one target.
#[derive(Debug, Serialize)]
struct Finding {
    name: String,
    /// The address of a target, or the path of a file.
    address: String,
    ok: bool,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Problems of a file that do not prevent its use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

impl Finding {
    fn new(name: &str, address: String, found: Result<String, Failure>) -> Finding {
        let ok = found.is_ok();
        let (detail, hint) = match found {
            Ok(detail) => (detail, None),
            Err(failure) => (failure.message, failure.hint),
        };
        Finding { name: name.to_owned(), address, ok, detail, hint, warnings: Vec::new() }
    }
}

/// Prints one row per finding; the status is 1 if something does not work.
pub(super) async fn run(json: bool) -> Result<CommandStatus, Failure> {
    let inputs = Inputs::gather(None);
    let mut findings = vec![client(), registry(&inputs)];
    let aliases = inputs.registry.iter().flat_map(Registry::aliases).map(str::to_owned);
    findings.extend(targets(std::iter::once("local".to_owned()).chain(aliases).collect()).await?);
    let is_ok = findings.iter().all(|finding| finding.ok);
    match json {
        true => output::json_line(&json!({ "ok": is_ok, "checks": findings }))?,
        false => show(&findings)?,
    }
    Ok(if is_ok { CommandStatus::OK } else { CommandStatus::UNSUCCESSFUL })
}

fn client() -> Finding {
    let program = std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default();
    Finding::new("rex", program, Ok(format!("version {}", env!("CARGO_PKG_VERSION"))))
}

fn registry(inputs: &Inputs) -> Finding {
    let path = inputs.paths.registry.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let found = inputs.registry.as_ref().map_err(Clone::clone);
    let warnings = inputs.registry.as_ref().map(Registry::warnings).unwrap_or_default();
    let finding = Finding::new(
        "registry",
        path,
        found.map(|registry| match registry.aliases().count() {
            0 => "no targets; `rex target add` and `rex target install` add some".to_owned(),
            1 => "1 target".to_owned(),
            count => format!("{count} targets"),
        }),
    );
    Finding { warnings, ..finding }
}

/// Checks the targets concurrently; the result has their order.
async fn targets(names: Vec<String>) -> Result<Vec<Finding>, Failure> {
    let mut findings: Vec<Option<Finding>> = names.iter().map(|_| None).collect();
    let mut running = JoinSet::new();
    let mut left = names.into_iter().enumerate();
    loop {
        while running.len() < MAX_CONCURRENT_CHECKS
            && let Some((index, name)) = left.next()
        {
            running.spawn(async move { (index, target(&name).await) });
        }
        let Some(done) = running.join_next().await else { break };
        let (index, finding) =
            done.map_err(|error| Failure::new(format!("cannot check a target: {error}")))?;
        findings[index] = Some(finding);
    }
    Ok(findings.into_iter().flatten().collect())
}

async fn target(name: &str) -> Finding {
    match route::current(Some(name)) {
        Ok(choice) => {
            let warnings = match name {
                "local" => tokio::task::spawn_blocking(daemon_warnings).await.unwrap_or_default(),
                _ => Vec::new(),
            };
            let finding = Finding::new(name, choice.target.to_string(), connect(&choice).await);
            Finding { warnings, ..finding }
        }
        Err(failure) => Finding::new(name, String::new(), Err(failure)),
    }
}

/// The warnings about the configuration of the daemon on this machine. Without a file there is nothing to warn about: `rex`
/// chooses the root. A daemon that cannot be run is an error of the target.
fn daemon_warnings() -> Vec<String> {
    let Some(program) = client::find_rexd() else { return Vec::new() };
    let checked = Command::new(program).arg("check-config").stdin(Stdio::null()).output();
    let text = checked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let is_default = |line: &str| line.starts_with("configuration") && line.ends_with("none (defaults)");
    match text.lines().any(is_default) {
        true => Vec::new(),
        false => text.lines().filter_map(|line| Some(line.strip_prefix("warning: ")?.to_owned())).collect(),
    }
}

async fn connect(choice: &Choice) -> Result<String, Failure> {
    if let Target::Hub(hub) = &choice.target
        && hub.host.is_none()
    {
        let hosts = HubClient::new(hub).map_err(client::Error::from)?.hosts().await?;
        return Ok(format!(
            "{} of {} hosts online",
            hosts.iter().filter(|host| host.online).count(),
            hosts.len()
        ));
    }
    let begin = Instant::now();
    // Several targets at once cannot share the terminal: ssh does not prompt.
    let options = SessionOptions { reconnect_timeout: Duration::ZERO, ..SessionOptions::default() };
    let session = Session::open(choice.target.clone(), options).await?;
    let took = begin.elapsed().as_millis();
    let opened = session.open_result();
    session.close().await.ok();
    if opened.workspace_roots.is_empty() {
        return Err(Failure::new("no root is configured, so rexd allows no access")
            .hint("add [[security.allowed_roots]] to the config of rexd on that machine"));
    }
    let server = match opened.server_name.as_str() {
        "" => format!("server version {}", opened.server_version),
        name => format!("{name} {}", opened.implementation_version),
    };
    Ok(format!("{server}, {took} ms, roots: {}", opened.workspace_roots.join(", ")))
}

fn show(findings: &[Finding]) -> Result<(), Failure> {
    let mut table = TextTable::new(&["NAME", "STATUS", "ADDRESS", "DETAIL"]);
    for finding in findings {
        let status = if finding.ok { "ok" } else { "failed" };
        let detail = finding.detail.lines().next_back().unwrap_or_default().to_owned();
        table.row(&[finding.name.clone(), status.to_owned(), finding.address.clone(), detail]);
    }
    table.print()?;
    for finding in findings {
        for text in finding.hint.iter().chain(&finding.warnings) {
            output::note(format_args!("{}: {text}", finding.name));
        }
    }
    Ok(())
}
