//! `[sandbox]`: the profile of all commands, and additional profiles.

use std::path::PathBuf;

use engine::sandbox::{Network, OnGap, ResourceLimits};

use super::paths::Paths;
use super::section::{ConfigError, Section};

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

#[derive(Debug, Clone, Copy)]
enum NetworkName {
    On,
    Off,
    Loopback,
    Ports,
}

const NETWORKS: [(&str, NetworkName); 4] = [
    ("on", NetworkName::On),
    ("off", NetworkName::Off),
    ("loopback", NetworkName::Loopback),
    ("ports", NetworkName::Ports),
];

pub(super) fn read(section: Section<'_, '_>, paths: &Paths) -> Result<SandboxConfig, ConfigError> {
    let mut profiles: Vec<CustomProfile> = Vec::new();
    for table in section.sections("profiles")? {
        let span = table.span();
        let profile = profile(table, paths)?;
        let is_taken = BUILT_IN.contains(&profile.name.as_str()) || profile.name == OFF;
        if is_taken || profiles.iter().any(|other| other.name == profile.name) {
            let reason = format!("duplicate sandbox profile {:?}", profile.name);
            return Err(section.document.error(span, reason));
        }
        profiles.push(profile);
    }
    let profile = section.text("profile")?.filter(|name| name != OFF);
    let is_known = |name: &str| BUILT_IN.contains(&name) || profiles.iter().any(|one| one.name == name);
    if let Some(name) = profile.as_deref().filter(|name| !is_known(name)) {
        let own = profiles.iter().map(|profile| profile.name.as_str());
        let names: Vec<&str> = [OFF].into_iter().chain(BUILT_IN).chain(own).collect();
        let reason = format!(
            "unknown sandbox profile {name:?}; use one of {} or add it to [[sandbox.profiles]]",
            names.join(", ")
        );
        return Err(section.document.error(section.span_of("profile"), reason));
    }
    let on_gap = section.choice("on_gap", &[("refuse", OnGap::Refuse), ("reduce", OnGap::Reduce)])?;
    let limits = limits(section.section("limits")?)?;
    if limits != ResourceLimits::default() && profile.is_none() {
        let text = "sandbox.limits has no effect without sandbox.profile";
        section.document.warn(section.span_of("limits"), text);
    }
    section.finish();
    Ok(SandboxConfig { profile, on_gap: on_gap.unwrap_or_default(), limits, profiles })
}

fn profile(section: Section<'_, '_>, paths: &Paths) -> Result<CustomProfile, ConfigError> {
    let name = section.text("name")?.filter(|name| !name.is_empty());
    let name =
        name.ok_or_else(|| section.document.error(section.span(), "a sandbox profile needs a name"))?;
    let network = network(&section)?;
    let profile = CustomProfile {
        name,
        read: path_list(&section, "read", paths)?,
        write: path_list(&section, "write", paths)?,
        write_roots: section.boolean("write_roots")?.unwrap_or(false),
        hide: path_list(&section, "hide", paths)?,
        protect: path_list(&section, "protect", paths)?,
        network,
        unix_sockets: section.boolean("unix_sockets")?.unwrap_or(false),
        limits: limits(section.section("limits")?)?,
    };
    section.finish();
    Ok(profile)
}

fn network(section: &Section<'_, '_>) -> Result<Network, ConfigError> {
    let connect = ports(section, "connect_ports")?;
    let bind = ports(section, "bind_ports")?;
    let has_ports = !connect.is_empty() || !bind.is_empty();
    let word = section.choice("network", &NETWORKS)?;
    match word.unwrap_or(if has_ports { NetworkName::Ports } else { NetworkName::Off }) {
        NetworkName::Ports => Ok(Network::Ports { connect, bind }),
        _ if has_ports => {
            let reason = "connect_ports and bind_ports require network = \"ports\"";
            Err(section.document.error(section.span_of("network"), reason))
        }
        NetworkName::On => Ok(Network::On),
        NetworkName::Off => Ok(Network::Off),
        NetworkName::Loopback => Ok(Network::Loopback),
    }
}

fn ports(section: &Section<'_, '_>, key: &'static str) -> Result<Vec<u16>, ConfigError> {
    let wrong = |item: &toml::Spanned<toml::de::DeValue<'_>>| {
        section.document.error(item.span(), format!("{} must contain port numbers", section.path_of(key)))
    };
    let port = |item: &toml::Spanned<toml::de::DeValue<'_>>| {
        let integer = item.get_ref().as_integer().ok_or_else(|| wrong(item))?;
        u16::from_str_radix(integer.as_str(), integer.radix()).map_err(|_range| wrong(item))
    };
    section.items(key)?.into_iter().map(port).collect()
}

fn path_list(
    section: &Section<'_, '_>,
    key: &'static str,
    paths: &Paths,
) -> Result<Vec<PathBuf>, ConfigError> {
    let mut list = Vec::new();
    for item in section.items(key)? {
        let path = paths.expand(&section.as_text(key, item)?);
        if !path.is_absolute() {
            let reason = format!("{} must contain absolute paths, not {:?}", section.path_of(key), path);
            return Err(section.document.error(item.span(), reason));
        }
        list.push(path);
    }
    Ok(list)
}

fn limits(section: Section<'_, '_>) -> Result<ResourceLimits, ConfigError> {
    let limits = ResourceLimits {
        memory_bytes: section.number("memory_bytes")?,
        processes: section.number("processes")?,
        file_bytes: section.number("file_bytes")?,
        open_files: section.number("open_files")?,
        cpu_seconds: section.number("cpu_seconds")?,
    };
    section.finish();
    Ok(limits)
}
