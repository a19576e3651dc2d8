//! `rexd check-config`: prints the effective configuration.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use engine::limits::OnOutputLimit;
use engine::policy::PolicySettings;
use engine::sandbox::OnGap;

use super::{Config, ConfigArgs, Listeners, OFF, Paths, ShareScope};
use crate::cli::args::ServeArgs;
use crate::net::auth;

/// Prints the effective configuration, or the error in it. Returns the exit status.
pub fn check_config(args: &ConfigArgs, paths: &Paths, out: &mut dyn Write) -> io::Result<u8> {
    let config = match Config::load(args, paths) {
        Ok(config) => config,
        Err(error) => {
            writeln!(out, "error: {error}")?;
            return Ok(1);
        }
    };
    summary(&config, out)?;
    access(&config, paths, out)?;
    for warning in &config.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    writeln!(out, "ok")?;
    Ok(0)
}

/// Prints the effective values, one per line.
fn summary(config: &Config, out: &mut dyn Write) -> io::Result<()> {
    line(out, "configuration", path_or(config.source.as_deref(), "none (defaults)"))?;
    let roots: Vec<String> = config.roots.iter().map(|root| root.display().to_string()).collect();
    line(out, "roots", if roots.is_empty() { "none".to_owned() } else { roots.join(", ") })?;
    let limits = &config.limits;
    line(out, "default_timeout_ms", limit(limits.default_timeout.map(|time| time.as_millis())))?;
    line(out, "hard_timeout_ms", limit(limits.hard_timeout.map(|time| time.as_millis())))?;
    line(out, "max_output_bytes", limit(limits.max_output_bytes))?;
    line(out, "hard_output_bytes", limit(limits.hard_output_bytes))?;
    line(out, "on_output_limit", on_output_limit(limits.on_output_limit))?;
    line(out, "max_file_read_bytes", limits.max_file_read_bytes)?;
    line(out, "max_processes_per_session", limits.max_processes_per_session)?;
    line(out, "max_concurrent_sessions", limits.max_concurrent_sessions)?;
    let policy = config.policy.settings();
    let on_files = policy.rules.iter().filter(|rule| rule.is_about_files()).count();
    let on_commands = policy.rules.len() - on_files;
    line(out, "policy", format_args!("{on_commands} rules, then {}", policy.default.name()))?;
    line(out, "policy on files", format_args!("{on_files} rules, then {}", policy.files_default.name()))?;
    line(out, "secrets in the environment", secrets(policy))?;
    line(out, "shell", if policy.allow_shell { "allowed" } else { "off" })?;
    line(out, "approvals", approvals(config))?;
    line(out, "sandbox", sandbox(config))?;
    line(out, "audit", audit(config))?;
    line(out, "log_level", config.server.log_level)
}

/// Prints listeners, tokens and certificates. Tokens are printed by name only.
fn access(config: &Config, paths: &Paths, out: &mut dyn Write) -> io::Result<()> {
    let server = &config.server;
    line(out, "http", server.http_listen.as_deref().unwrap_or("off"))?;
    line(out, "unix", path_or(server.unix.as_deref(), "off"))?;
    let exec_server = &config.exec_server;
    let listen = exec_server.listen.map(|address| format!("ws://{address}"));
    let remote =
        exec_server.remote.as_ref().map(|remote| format!("{} at {}", remote.executor_id, remote.url));
    let found: Vec<String> = [listen, remote].into_iter().flatten().collect();
    line(out, "exec-server", if found.is_empty() { "off".to_owned() } else { found.join(", ") })?;
    let stringd = config.stringd.port.map(|port| format!("http://127.0.0.1:{port}"));
    line(out, "stringd", stringd.as_deref().unwrap_or("off"))?;
    line(out, "hubs", hubs(config))?;
    line(out, "tls", path_or(server.tls.as_ref().map(|tls| tls.certificate.as_path()), "off"))?;
    for token in auth::report(config, paths) {
        line(out, "token", format_args!("{}: {}", token.name, token.found))?;
        if let Some(problem) = token.problem {
            writeln!(out, "warning: the token {} cannot be used: {problem}", token.name)?;
        }
    }
    for certificate in &config.auth.certificates {
        let scopes = certificate.scopes.names().join(" + ");
        line(out, "certificate", format_args!("{}: {scopes}", certificate.name))?;
    }
    match Listeners::new(&ServeArgs::default(), config) {
        Ok(listeners) if listeners.is_exposed() => writeln!(out, "warning: {EXPOSED}"),
        Ok(_) => Ok(()),
        Err(error) => writeln!(out, "warning: {error}"),
    }
}

fn hubs(config: &Config) -> String {
    let host = &config.host;
    let hubs: Vec<String> = host.hubs.iter().map(ToString::to_string).collect();
    let shared = match host.share {
        ShareScope::All => "runs and processes of other faces",
        ShareScope::Runs => "runs only",
    };
    let rexd = if host.rexd { ", with REXD" } else { "" };
    if hubs.is_empty() { "none".to_owned() } else { format!("{}: {shared}{rexd}", hubs.join(", ")) }
}

fn line(out: &mut dyn Write, name: &str, value: impl Display) -> io::Result<()> {
    writeln!(out, "{name:<28}{value}")
}

/// The warning about a listener without TLS that other machines can reach.
pub(crate) const EXPOSED: &str = "other machines can reach the HTTP address without TLS, so tokens can be intercepted; set tls_cert and tls_key, or \
     listen on 127.0.0.1 behind a proxy";

fn approvals(config: &Config) -> String {
    let approvals = &config.approvals;
    let who: Vec<&str> = approvals.approvers.iter().map(|glob| glob.as_str()).collect();
    let own = if approvals.self_approval { "" } else { ", never the requester" };
    format!("by {}{own}, within {} ms", who.join(", "), approvals.within.as_millis())
}

fn sandbox(config: &Config) -> String {
    let custom: Vec<&str> = config.sandbox.profiles.iter().map(|profile| profile.name.as_str()).collect();
    let profile = config.sandbox.profile.as_deref().unwrap_or(OFF);
    let gap = match config.sandbox.on_gap {
        OnGap::Refuse => "",
        OnGap::Reduce => ", reduced where the kernel lacks support",
    };
    let own = if custom.is_empty() { String::new() } else { format!("; also {}", custom.join(", ")) };
    format!("{profile}{gap}{own}")
}

fn limit(limit: Option<impl ToString>) -> String {
    limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string())
}

fn path_or(path: Option<&Path>, absent: &str) -> String {
    path.map_or_else(|| absent.to_owned(), |path| path.display().to_string())
}

fn on_output_limit(action: OnOutputLimit) -> &'static str {
    match action {
        OnOutputLimit::Kill => "kill",
        OnOutputLimit::Truncate => "truncate",
    }
}

fn secrets(policy: &PolicySettings) -> &'static str {
    match (policy.environment.remove_secrets, policy.environment.keep.is_empty()) {
        (true, true) => "not inherited",
        (true, false) => "not inherited, except those in environment.keep",
        (false, _) => "inherited (environment.remove_secrets = false)",
    }
}

fn audit(config: &Config) -> String {
    match config.audit.enabled {
        true => path_or(config.audit.path.as_deref(), "none: there is no home directory"),
        false => "off".to_owned(),
    }
}
