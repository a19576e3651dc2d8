//! `rexd check-config`: what the configuration comes to, for people.

use std::io::{self, Write};
use std::time::Duration;

use engine::limits::OnOutputLimit;
use engine::policy::Verdict;

use super::{Config, ConfigArgs, Places};

/// Reads the configuration and prints what it comes to, or what is wrong. Returns the status to exit with.
pub fn check_config(args: &ConfigArgs, places: &Places, out: &mut dyn Write) -> io::Result<u8> {
    match Config::load(args, places) {
        Ok(config) => {
            summary(&config, out)?;
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

/// The effective values, one a line.
pub(crate) fn summary(config: &Config, out: &mut dyn Write) -> io::Result<()> {
    let mut line = |name: &str, value: String| writeln!(out, "{name:<28}{value}");
    let source =
        config.source.as_ref().map_or_else(|| "none, defaults".to_owned(), |file| file.display().to_string());
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
    line("policy", format!("{} rules, then {}", policy.rules.len(), verdict(policy.default)))?;
    line("shell", if policy.allow_shell { "allowed" } else { "off" }.to_owned())?;
    line("audit", audit(config))?;
    line("http", config.server.http_listen.clone().unwrap_or_else(|| "off".to_owned()))?;
    line("log_level", config.server.log_level.name().to_owned())
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

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Allow => "allow",
        Verdict::Ask => "ask",
        Verdict::Deny => "deny",
        Verdict::NoShell => "no shell",
    }
}

fn audit(config: &Config) -> String {
    match (&config.audit.path, config.audit.enabled) {
        (_, false) => "off".to_owned(),
        (None, true) => "nowhere: no home directory".to_owned(),
        (Some(path), true) => path.display().to_string(),
    }
}
