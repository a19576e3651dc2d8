//! `rexd check-config`: prints the effective configuration.

use std::io::{self, Write};
use std::time::Duration;

use engine::limits::OnOutputLimit;
use engine::policy::PolicySettings;
use engine::sandbox::OnGap;

use super::{Config, ConfigArgs, Listeners, OFF, Paths};
use crate::cli::args::ServeArgs;
use crate::net::auth;

/// Prints the effective configuration, or the error in it. Returns the exit status.
pub fn check_config(args: &ConfigArgs, paths: &Paths, out: &mut dyn Write) -> io::Result<u8> {
    match Config::load(args, paths) {
        Ok(config) => {
            summary(&config, out)?;
            access(&config, paths, out)?;
            for warning in &config.warnings {
                writeln!(out, "warning: {warning}")?;
            }
            writeln!(out, "ok")?;
            Ok(0)
        }
        Err(error) => {
            writeln!(out, "error: {error}")?;
            Ok(1)
        }
    }
}

/// Prints the effective values, one per line.
pub(crate) fn summary(config: &Config, out: &mut dyn Write) -> io::Result<()> {
    let mut line = |name: &str, value: String| writeln!(out, "{name:<28}{value}");
    let source = config
        .source
        .as_ref()
        .map_or_else(|| "none (defaults)".to_owned(), |file| file.display().to_string());
    line("configuration", source)?;
    let roots: Vec<String> = config.roots.iter().map(|root| root.display().to_string()).collect();
    line("roots", if roots.is_empty() { "none".to_owned() } else { roots.join(", ") })?;
    let limits = &config.limits;
    line("default_timeout_ms", time(limits.default_timeout))?;
    line("hard_timeout_ms", time(limits.hard_timeout))?;
    line("max_output_bytes", size(limits.max_output_bytes))?;
    line("hard_output_bytes", size(limits.hard_output_bytes))?;
    line("on_output_limit", on_output_limit(limits.on_output_limit).to_owned())?;
    line("max_file_read_bytes", limits.max_file_read_bytes.to_string())?;
    line("max_processes_per_session", limits.max_processes_per_session.to_string())?;
    line("max_concurrent_sessions", limits.max_concurrent_sessions.to_string())?;
    let policy = config.policy.settings();
    let on_files = policy.rules.iter().filter(|rule| rule.is_about_files()).count();
    let on_commands = policy.rules.len() - on_files;
    line("policy", format!("{on_commands} rules, then {}", policy.default.name()))?;
    line("policy on files", format!("{on_files} rules, then {}", policy.files_default.name()))?;
    line("secrets in the environment", secrets(policy).to_owned())?;
    line("shell", if policy.allow_shell { "allowed" } else { "off" }.to_owned())?;
    line("approvals", approvals(config))?;
    line("sandbox", sandbox(config))?;
    line("audit", audit(config))?;
    line("log_level", config.server.log_level.name().to_owned())
}

/// Prints listeners, tokens and certificates. Tokens are printed by name only.
fn access(config: &Config, paths: &Paths, out: &mut dyn Write) -> io::Result<()> {
    let server = &config.server;
    let off = || "off".to_owned();
    writeln!(out, "{:<28}{}", "http", server.http_listen.clone().unwrap_or_else(off))?;
    let unix = server.unix.as_ref().map_or_else(off, |path| path.display().to_string());
    writeln!(out, "{:<28}{unix}", "unix")?;
    let exec_server = &config.exec_server;
    let listen = exec_server.listen.map(|address| format!("ws://{address}"));
    let remote =
        exec_server.remote.as_ref().map(|remote| format!("{} at {}", remote.executor_id, remote.url));
    let found: Vec<String> = [listen, remote].into_iter().flatten().collect();
    let found = if found.is_empty() { off() } else { found.join(", ") };
    writeln!(out, "{:<28}{found}", "exec-server")?;
    let tls = server.tls.as_ref().map_or_else(off, |tls| tls.certificate.display().to_string());
    writeln!(out, "{:<28}{tls}", "tls")?;
    for token in auth::report(config, paths) {
        writeln!(out, "{:<28}{}: {}", "token", token.name, token.found)?;
        if let Some(problem) = token.problem {
            writeln!(out, "warning: the token {} cannot be used: {problem}", token.name)?;
        }
    }
    for certificate in &config.auth.certificates {
        writeln!(
            out,
            "{:<28}{}: {}",
            "certificate",
            certificate.name,
            certificate.scopes.names().join(" + ")
        )?;
    }
    match Listeners::new(&ServeArgs::default(), config) {
        Ok(listeners) if listeners.is_exposed() => writeln!(out, "warning: {EXPOSED}"),
        Ok(_) => Ok(()),
        Err(error) => writeln!(out, "warning: {error}"),
    }
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

fn time(limit: Option<Duration>) -> String {
    limit.map_or_else(|| "none".to_owned(), |limit| limit.as_millis().to_string())
}

fn size(limit: Option<u64>) -> String {
    limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string())
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
    match (&config.audit.path, config.audit.enabled) {
        (_, false) => "off".to_owned(),
        (None, true) => "none: there is no home directory".to_owned(),
        (Some(path), true) => path.display().to_string(),
    }
}
