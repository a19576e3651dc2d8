//! Checks of the configuration: roots, limits, policy, audit, listeners and tokens; and of the shell.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::{Check, Doctor};
use crate::cli::args::ServeArgs;
use crate::config::{Config, EXPOSED, Listeners, Paths};
use crate::net::auth;
use crate::observe::audit::{AuditFile, VerifyError, verify};

pub(super) fn checks(doctor: &Doctor) -> Vec<Check> {
    let mut checks = Vec::new();
    match Config::load(&doctor.config, &doctor.paths) {
        Ok(config) => {
            checks.push(configuration(&config));
            checks.extend(roots(&config));
            checks.push(limits(&config));
            checks.push(policy(&config));
            checks.push(environment(&config));
            checks.push(audit(&config));
            checks.push(listeners(&config));
            checks.extend(tokens(&config, &doctor.paths));
        }
        Err(error) => {
            let advice = "fix the file; check it with `rexd check-config`";
            checks.push(Check::fail("configuration", error.to_string(), advice));
        }
    }
    checks.push(state(doctor.paths.state.as_deref()));
    checks.push(shell(doctor.program_path.as_deref()));
    checks
}

fn configuration(config: &Config) -> Check {
    let found = match &config.source {
        Some(file) => file.display().to_string(),
        None => format!("none (defaults; would be read from {})", config.file_to_write.display()),
    };
    // Roots have their own checks.
    let about_roots = config.root_warnings();
    let warnings: Vec<&String> =
        config.warnings.iter().filter(|warning| !about_roots.contains(warning)).collect();
    match warnings.first() {
        None => Check::ok("configuration", found),
        Some(first) => Check::warn("configuration", found, format!("{first} ({} warnings)", warnings.len())),
    }
}

fn roots(config: &Config) -> Vec<Check> {
    if let Some(message) = config.no_roots_message() {
        return vec![Check::fail("roots", "none", message)];
    }
    config.roots.iter().map(|path| root(path)).collect()
}

fn root(path: &Path) -> Check {
    let found = path.display().to_string();
    if path == Path::new("/") {
        let advice = "every file that this user can access is served; configure a directory instead";
        return Check::warn("root", found, advice);
    }
    if !path.exists() {
        let found = format!("{found} does not exist yet");
        return Check::warn("root", found, "create it, or let the first write create it");
    }
    if !path.is_dir() {
        return Check::fail("root", format!("{found} is not a directory"), "configure a directory");
    }
    if access(path, Access::READ_OK | Access::EXEC_OK).is_err() {
        return Check::fail("root", format!("{found} cannot be read"), "run rexd as a user who can read it");
    }
    if access(path, Access::WRITE_OK).is_err() {
        return Check::warn("root", format!("{found} is read-only"), "writes to it fail");
    }
    Check::ok("root", found)
}

fn limits(config: &Config) -> Check {
    let limits = &config.limits;
    let time = limits
        .hard_timeout
        .map_or_else(|| "no time limit".to_owned(), |time| format!("timeout up to {time:?}"));
    let output = limits
        .hard_output_bytes
        .map_or_else(|| "no output limit".to_owned(), |bytes| format!("output up to {bytes} bytes"));
    let processes = limits.max_processes_per_session;
    Check::ok("limits", format!("{time}, {output}, {processes} processes per session"))
}

fn policy(config: &Config) -> Check {
    let settings = config.policy.settings();
    let shell = if settings.allow_shell { "shell allowed" } else { "shell off" };
    let (count, default, files) =
        (settings.rules.len(), settings.default.name(), settings.files_default.name());
    Check::ok("policy", format!("{count} rules, default {default}, files {files}, {shell}"))
}

fn environment(config: &Config) -> Check {
    if config.policy.environment().remove_secrets {
        return Check::ok("environment", "commands do not inherit secrets of the daemon");
    }
    let advice = "remove environment.remove_secrets = false, and list the variables that commands need in environment.keep";
    Check::warn("environment", "commands inherit the secrets of the daemon's environment", advice)
}

fn audit(config: &Config) -> Check {
    if !config.audit.enabled {
        return Check::warn("audit", "off", "set audit.enabled = true to record requests");
    }
    let Some(path) = &config.audit.path else {
        return Check::warn("audit", "no path", "set audit.path in the configuration");
    };
    if let Err(error) = AuditFile::open(path, config.audit.configured) {
        let advice = "make it writable for this user, or change audit.path";
        return match config.audit.configured {
            true => Check::fail("audit", error.to_string(), advice),
            false => Check::warn("audit", error.to_string(), advice),
        };
    }
    match verify(path) {
        Ok(summary) => {
            Check::ok("audit", format!("{}, {} records, chain valid", path.display(), summary.records))
        }
        Err(error @ VerifyError::Unreadable(_)) => {
            Check::warn("audit", format!("{}: {error}", path.display()), "the chain cannot be verified")
        }
        Err(error @ VerifyError::Broken { .. }) => {
            let advice = "the file was changed; move it away, and the next record starts a new file";
            Check::warn("audit", format!("{}: {error}", path.display()), advice)
        }
    }
}

/// The listeners of `rexd serve`.
fn listeners(config: &Config) -> Check {
    let listeners = match Listeners::new(&ServeArgs::default(), config) {
        Ok(listeners) => listeners,
        Err(error) => return Check::fail("listeners", "client_ca without TLS", error.to_string()),
    };
    let tls = if listeners.tls.is_some() { " with TLS" } else { "" };
    let http = listeners.http.as_ref().map(|address| format!("http {address}{tls}"));
    let unix = listeners.unix.as_ref().map(|path| format!("unix {}", path.display()));
    let stdio = listeners.stdio.then(|| "stdio".to_owned());
    let exec_server = listeners.exec_server.map(|address| format!("exec-server ws://{address}"));
    let remote = config.exec_server.remote.as_ref().filter(|_| listeners.registers);
    let remote = remote.map(|remote| format!("executor {} at {}", remote.executor_id, remote.url));
    let found: Vec<String> = [stdio, http, unix, exec_server, remote].into_iter().flatten().collect();
    match listeners.is_exposed() {
        true => Check::warn("listeners", found.join(", "), EXPOSED),
        false if found.is_empty() => {
            Check::warn("listeners", "none", "set http_listen or unix in [server], or pass --http or --unix")
        }
        false => Check::ok("listeners", found.join(", ")),
    }
}

fn tokens(config: &Config, paths: &Paths) -> Vec<Check> {
    let check = |token: auth::TokenReport| {
        let found = format!("{}: {}", token.name, token.found);
        match token.problem {
            None => Check::ok("token", found),
            Some(trouble) => Check::warn("token", found, trouble),
        }
    };
    auth::report(config, paths).into_iter().map(check).collect()
}

fn state(state: Option<&Path>) -> Check {
    let Some(state) = state else {
        let found = "none: there is no home directory";
        return Check::warn("state directory", found, "set XDG_STATE_HOME or HOME");
    };
    let found = state.display().to_string();
    let nearest = state.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    match access(nearest, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Check::ok("state directory", found),
        Err(_) => Check::warn("state directory", format!("{found} is not writable"), "set XDG_STATE_HOME"),
    }
}

fn shell(program_path: Option<&OsStr>) -> Check {
    match find_program("sh", program_path) {
        Some(path) => Check::ok("shell", path.display().to_string()),
        None => {
            Check::warn("shell", "no sh in PATH", "install a shell; shell commands cannot run without it")
        }
    }
}

fn find_program(name: &str, program_path: Option<&OsStr>) -> Option<PathBuf> {
    let mut candidates = std::env::split_paths(program_path?).map(|directory| directory.join(name));
    candidates.find(|candidate| candidate.is_file() && access(candidate, Access::EXEC_OK).is_ok())
}
