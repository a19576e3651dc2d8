//! The daemon's own files, which no confined command may see or change. Resolved for every command: files are replaced and
//! symbolic links are switched while the daemon runs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use engine::sandbox::ProtectedPaths;

use super::{real, resolve};
use crate::config::{Config, Paths, TokenSource};

/// The directory of the system's socket, which only rexd uses.
const SYSTEM_RUNTIME: &str = "/run/rexd";
/// Directories in the state directory whose contents are hidden even if a root is inside.
const STATE_ENTRIES: [&str; 4] = ["approvals", "daemons", "keepers", "sessions"];

/// The paths of the daemon's files, as configured.
#[derive(Debug, Clone)]
pub(super) struct OwnFiles {
    /// The state directory.
    state: Option<PathBuf>,
    /// Directories of sockets, in which only rexd has files.
    runtime: Vec<PathBuf>,
    /// Directories of configuration, in which only rexd has files.
    config_dirs: Vec<PathBuf>,
    /// Sockets, token files, the key and the audit. A process that can connect to a socket can have the daemon start
    /// an unconfined one.
    secrets: Vec<PathBuf>,
    /// The configuration file.
    config: Option<PathBuf>,
    /// The configured roots.
    roots: Vec<PathBuf>,
}

impl OwnFiles {
    /// The files of a configuration.
    pub(super) fn new(config: &Config, paths: &Paths) -> OwnFiles {
        let tokens = config.auth.tokens.iter().filter_map(|token| match &token.source {
            TokenSource::File(path) => Some(path.clone()),
            _ => None,
        });
        let key = config.server.tls.as_ref().map(|tls| tls.key.clone());
        let exec_server = &config.exec_server;
        let more = [config.server.unix.clone(), config.audit.path.clone(), paths.token_file.clone(), key];
        let more =
            more.into_iter().chain([exec_server.ws_auth.file.clone(), exec_server.remote_token_file.clone()]);
        let named = paths.listener_files.iter().cloned();
        let config_dirs = paths.user.iter().chain(&paths.system).filter_map(|file| file.parent());
        OwnFiles {
            state: paths.state.clone(),
            runtime: paths.runtime.iter().cloned().chain([PathBuf::from(SYSTEM_RUNTIME)]).collect(),
            config_dirs: config_dirs.map(Path::to_owned).collect(),
            secrets: tokens.chain(more.flatten()).chain(named).collect(),
            config: config.source.clone(),
            roots: config.roots.clone(),
        }
    }

    /// The paths to hide and to protect, with symbolic links resolved. A directory in which only rexd has files is hidden or
    /// protected as a whole, so that it holds for files that are replaced while a command runs. `changeable` are the
    /// resolved paths that some command can write.
    pub(super) fn resolve(&self, changeable: &[PathBuf]) -> ProtectedPaths {
        let is_changeable = |path: &PathBuf| changeable.contains(path);
        let mut directories = ResolvedDirs::default();
        let state = self.state.as_deref().map(|dir| directories.real(dir));
        let runtime: Vec<PathBuf> = self.runtime.iter().map(|dir| directories.real(dir)).collect();
        let config_dirs: Vec<PathBuf> = self.config_dirs.iter().map(|dir| directories.real(dir)).collect();
        let own_parent = |file: &Path| {
            let parent = file
                .parent()
                .filter(|parent| runtime.iter().chain(&config_dirs).any(|own| parent.starts_with(own)));
            parent.map(Path::to_owned).filter(|parent| !is_changeable(parent))
        };
        let mut own = ProtectedPaths::default();
        own.hide.extend(runtime.iter().filter(|dir| !is_changeable(dir)).cloned());
        for file in self.secrets.iter().flat_map(|file| directories.link_and_target(file)) {
            own.hide.extend(own_parent(&file));
            own.hide.push(file);
        }
        for file in self.config.iter().flat_map(|file| directories.link_and_target(file)) {
            own.protect.extend(own_parent(&file));
            // The directory of a link becomes read-only with it, which must not be a whole root.
            let is_link_in_root =
                file.is_symlink() && file.parent().is_some_and(|dir| is_changeable(&dir.into()));
            own.protect.extend((!is_link_in_root).then_some(file));
        }
        let hidden: Vec<&PathBuf> = state.iter().chain(&own.hide).collect();
        let is_own_entry = |root: &Path| {
            let entry = state.as_ref().and_then(|state| root.strip_prefix(state).ok()?.components().next());
            entry.is_some_and(|entry| STATE_ENTRIES.iter().any(|name| entry.as_os_str() == *name))
        };
        let is_inside = |root: &PathBuf| hidden.iter().any(|dir| root != *dir && root.starts_with(dir));
        if changeable.iter().any(is_inside) {
            let roots = self.roots.iter().map(|root| resolve::one(root, changeable));
            own.expose = roots.filter(|root| is_inside(root) && !is_own_entry(root)).collect();
        }
        own.hide.extend(state);
        own
    }
}

/// Directories that were resolved, since most paths share theirs with others.
#[derive(Default)]
struct ResolvedDirs(BTreeMap<PathBuf, PathBuf>);

impl ResolvedDirs {
    /// A directory with the links of its existing part resolved.
    fn real(&mut self, dir: &Path) -> PathBuf {
        if let Some(known) = self.0.get(dir) {
            return known.clone();
        }
        let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else { return real(dir) };
        let unlinked = self.real(parent).join(name);
        let resolved = if unlinked.is_symlink() { real(&unlinked) } else { unlinked };
        self.0.insert(dir.to_owned(), resolved.clone());
        resolved
    }

    /// A path in its resolved directory, and the file that it leads to if it is a symbolic link.
    fn link_and_target(&mut self, path: &Path) -> Vec<PathBuf> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return vec![real(path)] };
        let link = self.real(parent).join(name);
        match link.is_symlink() {
            true => vec![real(&link), link],
            false => vec![link],
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test panics")]
mod tests {
    use super::*;

    #[test]
    fn only_configured_roots_are_exposed_and_never_what_rexd_stores() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().canonicalize().unwrap().join(name);
        for name in ["state/home", "state/keepers/k", "state/other", "config", "run"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        let own = |roots: &[&str]| OwnFiles {
            state: Some(at("state")),
            runtime: vec![at("run")],
            config_dirs: vec![at("config")],
            secrets: vec![at("config/token"), at("key")],
            config: Some(at("config/config.toml")),
            roots: roots.iter().map(|root| at(root)).collect(),
        };
        let resolved = |roots: &[&str]| {
            let changeable: Vec<PathBuf> = roots.iter().map(|root| at(root)).collect();
            own(roots).resolve(&changeable)
        };
        let found = resolved(&["state/home", "elsewhere"]);
        assert_eq!(found.expose, [at("state/home")]);
        for hidden in ["state", "run", "config", "config/token", "key"] {
            assert!(found.hide.contains(&at(hidden)), "{hidden}: {found:?}");
        }
        assert_eq!(found.protect, [at("config"), at("config/config.toml")]);
        for hidden in ["state", "state/keepers", "state/keepers/k", ""] {
            let found = resolved(&[hidden]);
            assert!(found.expose.is_empty() && found.hide.contains(&at("state")), "{hidden}: {found:?}");
        }
        // A root is not hidden as a directory of rexd's; its files are.
        let found = resolved(&["config", "run"]);
        assert!(!found.hide.contains(&at("config")) && !found.hide.contains(&at("run")), "{found:?}");
        assert!(found.hide.contains(&at("config/token")) && !found.protect.contains(&at("config")));
        // A client that narrows its session to a directory in the state directory gains nothing.
        let profile = engine::sandbox::Profile::workspace_write(&[at("state/other")], None, &resolved(&[""]));
        assert!(profile.hides(&at("state/other")));
    }
}
