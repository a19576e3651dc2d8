//! `[sandbox]`: the profile of all commands, and additional profiles.

use std::path::PathBuf;

use engine::sandbox::{Network, OnGap, ResourceLimits};

use super::section::{ConfigError, Section, TomlValue};

/// The profile of all commands, and the configured profiles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxConfig {
    /// The name of the profile of every command; `None` means no sandbox.
    pub profile: Option<String>,
    /// What to do if the kernel cannot enforce a part of a profile.
    pub on_gap: OnGap,
    /// Resource limits of one command, under any profile.
    pub limits: ResourceLimits,
    /// The profiles besides the built-in ones.
    pub profiles: Vec<CustomProfile>,
}

/// A sandbox profile of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CustomProfile {
    /// The name of the profile.
    pub name: String,
    /// Readable paths; empty means all paths.
    pub read: Vec<PathBuf>,
    /// Writable paths.
    pub write: Vec<PathBuf>,
    /// Whether the roots of the session are also writable.
    pub write_roots: bool,
    /// Hidden paths.
    pub hide: Vec<PathBuf>,
    /// Read-only paths inside writable ones.
    pub protect: Vec<PathBuf>,
    /// The available network.
    pub network: Network,
    /// Whether unix sockets are available while the network is restricted.
    pub unix_sockets: bool,
    /// Resource limits of one command.
    pub limits: ResourceLimits,
}

/// The names of the built-in profiles.
pub const BUILT_IN: [&str; 2] = ["read-only", "workspace-write"];
/// The name for no sandbox.
pub const OFF: &str = "off";

pub(super) fn read(section: Section<'_, '_>) -> Result<SandboxConfig, ConfigError> {
    let mut profiles: Vec<CustomProfile> = Vec::new();
    for table in section.sections("profiles")? {
        let span = table.span();
        let profile = profile(table)?;
        let is_taken = BUILT_IN.contains(&profile.name.as_str()) || profile.name == OFF;
        if is_taken || profiles.iter().any(|other| other.name == profile.name) {
            let reason = format!("duplicate sandbox profile {:?}", profile.name);
            return Err(section.document.error(span, reason));
        }
        profiles.push(profile);
    }
    let profile = section.text("profile")?.filter(|name| name != OFF);
    let custom = profiles.iter().map(|profile| profile.name.as_str());
    let names: Vec<&str> = [OFF].into_iter().chain(BUILT_IN).chain(custom).collect();
    if let Some(name) = profile.as_deref().filter(|name| !names.contains(name)) {
        let names = names.join(", ");
        let reason =
            format!("unknown sandbox profile {name:?}; use one of {names} or add it to [[sandbox.profiles]]");
        return Err(section.error_at("profile", reason));
    }
    let on_gap = section.choice("on_gap", &[("refuse", OnGap::Refuse), ("reduce", OnGap::Reduce)])?;
    let limits = limits(section.section("limits")?)?;
    if limits != ResourceLimits::default() && profile.is_none() {
        section.warn("limits", "sandbox.limits applies only under a profile, and sandbox.profile is not set: commands that request no profile have no limits");
    }
    Ok(SandboxConfig { profile, on_gap: on_gap.unwrap_or_default(), limits, profiles })
}

fn profile(section: Section<'_, '_>) -> Result<CustomProfile, ConfigError> {
    Ok(CustomProfile {
        name: section.name("sandbox profile")?,
        network: network(&section)?,
        read: path_list(&section, "read")?,
        write: path_list(&section, "write")?,
        write_roots: section.boolean("write_roots", false)?,
        hide: path_list(&section, "hide")?,
        protect: path_list(&section, "protect")?,
        unix_sockets: section.boolean("unix_sockets", false)?,
        limits: limits(section.section("limits")?)?,
    })
}

fn network(section: &Section<'_, '_>) -> Result<Network, ConfigError> {
    let (connect, bind) = (ports(section, "connect_ports")?, ports(section, "bind_ports")?);
    let has_ports = !connect.is_empty() || !bind.is_empty();
    let ports = Network::Ports { connect, bind };
    let default = if has_ports { ports.clone() } else { Network::Off };
    let choices =
        [("on", Network::On), ("off", Network::Off), ("loopback", Network::Loopback), ("ports", ports)];
    let network = section.choice("network", &choices)?.unwrap_or(default);
    match has_ports && !matches!(network, Network::Ports { .. }) {
        true => Err(section.error_at("network", "connect_ports and bind_ports require network = \"ports\"")),
        false => Ok(network),
    }
}

fn ports(section: &Section<'_, '_>, key: &'static str) -> Result<Vec<u16>, ConfigError> {
    let port = |item: &TomlValue<'_>| {
        let integer = item.get_ref().as_integer();
        let port = integer.and_then(|text| u16::from_str_radix(text.as_str(), text.radix()).ok());
        let reason = || format!("{} must contain port numbers", section.path_of(key));
        port.ok_or_else(|| section.document.error(item.span(), reason()))
    };
    section.items(key)?.into_iter().map(port).collect()
}

fn path_list(section: &Section<'_, '_>, key: &'static str) -> Result<Vec<PathBuf>, ConfigError> {
    section.each(key, |text| {
        let path = section.document.paths.expand(text);
        match path.is_absolute() {
            true => Ok(path),
            false => Err(format!("{} must contain absolute paths, not {path:?}", section.path_of(key))),
        }
    })
}

fn limits(section: Section<'_, '_>) -> Result<ResourceLimits, ConfigError> {
    Ok(ResourceLimits {
        memory_bytes: section.number("memory_bytes")?,
        processes: section.number("processes")?,
        file_bytes: section.number("file_bytes")?,
        open_files: section.number("open_files")?,
        cpu_seconds: section.number("cpu_seconds")?,
    })
}
