//! The sandbox object of a client as a confinement: what it means here, or why it cannot be held.
//!
//! What the client wants comes on top of what the operator wants: all of it holds.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use engine::files::Access;
use engine::sandbox::{Confinement, Network, Profile, ProtectedPaths, ReadAccess};
use wire::exec_server::ErrorObject;
use wire::exec_server::v1::{
    FileSystemAccess, FileSystemEntry, FileSystemPlace, FileSystemPolicy, FileSystemSandboxContext,
    NetworkPolicy, PermissionProfile, SpecialPlace,
};

use super::errors::failed;
use super::paths::native;
use super::processes::Start;
use super::session::Session;
use crate::core::runtime_policy::RuntimePolicy;
use crate::core::sandbox::{SandboxTempDir, real};

/// What it takes to run programs at all.
const MINIMAL: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/proc"];

/// How one process or call is confined.
#[derive(Debug)]
pub(super) struct Confined {
    pub(super) confinement: Option<Arc<Confinement>>,
    /// Where it may put temporary files, if that is a place of its own.
    pub(super) temp: Option<PathBuf>,
}

impl Session {
    /// What confines a process.
    pub(super) fn confined(
        &mut self,
        runtime_policy: &Arc<RuntimePolicy>,
        start: &Start,
    ) -> Result<Confined, ErrorObject> {
        let wish = start.params.sandbox.as_ref();
        if start.params.enforce_managed_network == Some(true) && !restricts_network(wish) {
            let reason = "a network that must go through the client's proxy cannot be held here";
            return Err(refused(reason));
        }
        let confinement = self.confinement(runtime_policy, wish, Some(&start.cwd))?;
        let temp = match (&confinement, &self.temp) {
            (Some(confinement), Some(temp)) if confinement.permits(temp.path(), Access::Write) => {
                let failed = |error| ErrorObject::internal(format!("{}: {error}", temp.path().display()));
                temp.make().map_err(failed)?;
                Some(temp.path().to_owned())
            }
            _ => None,
        };
        Ok(Confined { confinement, temp })
    }

    /// What confines whoever asks with this wish; nothing if neither they nor the operator want anything.
    pub(super) fn confinement(
        &mut self,
        runtime_policy: &Arc<RuntimePolicy>,
        wish: Option<&FileSystemSandboxContext>,
        cwd: Option<&Path>,
    ) -> Result<Option<Arc<Confinement>>, ErrorObject> {
        let own = runtime_policy.sandbox.own_outside(&[]);
        let asked = wish.map(|wish| profile(wish, cwd, &own)).transpose()?.flatten();
        if asked.is_none() && runtime_policy.sandbox.profile_name().is_none() {
            return Ok(None);
        }
        if self.temp.is_none() {
            self.temp = Some(SandboxTempDir::new().map_err(failed)?);
        }
        let Some(temp) = &self.temp else { return Err(ErrorObject::internal("no temporary directory")) };
        let operators = runtime_policy.sandbox.confinement(&[], self.service.roots.paths(), temp);
        let operators = operators.map_err(|unknown| ErrorObject::internal(unknown.to_string()))?;
        let layers = operators.iter().flat_map(|held| held.layers().iter().cloned());
        let confinement = Confinement::new(layers.chain(asked.map(Arc::new)));
        Ok((!confinement.is_off()).then(|| Arc::new(confinement)))
    }
}

fn restricts_network(wish: Option<&FileSystemSandboxContext>) -> bool {
    let permissions = wish.map(|wish| &wish.permissions);
    matches!(permissions, Some(PermissionProfile::Managed { network: NetworkPolicy::Restricted, .. }))
}

/// What a sandbox object means; nothing if it allows everything.
pub(super) fn profile(
    wish: &FileSystemSandboxContext,
    cwd: Option<&Path>,
    own: &ProtectedPaths,
) -> Result<Option<Profile>, ErrorObject> {
    let PermissionProfile::Managed { file_system, network } = &wish.permissions else { return Ok(None) };
    let mut profile = Profile::read_only(own);
    profile.name = "client".to_owned();
    if *network == NetworkPolicy::Enabled {
        (profile.network, profile.unix_sockets) = (Network::On, true);
    }
    match file_system {
        FileSystemPolicy::Unrestricted if *network == NetworkPolicy::Enabled => return Ok(None),
        FileSystemPolicy::Unrestricted => {
            profile.write = vec![PathBuf::from("/")];
            profile.protect.clear();
        }
        FileSystemPolicy::Restricted { entries, .. } => {
            let paths = Paths { projects: projects(wish, cwd)? };
            paths.fill(entries, &mut profile)?;
        }
    }
    Ok(Some(profile))
}

/// The directories that are the project.
fn projects(wish: &FileSystemSandboxContext, cwd: Option<&Path>) -> Result<Vec<PathBuf>, ErrorObject> {
    if let Some(roots) = wish.workspace_roots.as_ref().filter(|roots| !roots.is_empty()) {
        return roots.iter().map(|root| native(root).map(|root| real(&root))).collect();
    }
    let cwd = match &wish.cwd {
        Some(cwd) => Some(native(cwd)?),
        None => cwd.map(Path::to_owned),
    };
    Ok(cwd.iter().map(|cwd| real(cwd)).collect())
}

/// What the words for places mean.
struct Paths {
    projects: Vec<PathBuf>,
}

impl Paths {
    /// Fills a profile with what the entries say. Narrower ones hold over wider ones; of two that name the same place,
    /// the later one.
    fn fill(&self, entries: &[FileSystemEntry], profile: &mut Profile) -> Result<(), ErrorObject> {
        let mut said: Vec<(PathBuf, FileSystemAccess)> = Vec::new();
        for entry in entries {
            for path in self.paths(&entry.path)? {
                said.retain(|(known, _)| *known != path);
                said.push((path, entry.access));
            }
        }
        said.sort_by_key(|(path, _)| path.components().count());
        let mut readable = Vec::new();
        for (path, access) in &said {
            let above = said.iter().rfind(|(wider, _)| path.starts_with(wider) && path != wider);
            let above = above.map(|(_, access)| *access);
            match access {
                FileSystemAccess::Write if is_in(path, &profile.protect) || is_in(path, &profile.hide) => {
                    let reason = "it is writable inside a place that is not";
                    return Err(cannot_hold(path, reason));
                }
                FileSystemAccess::Write => profile.write.push(path.clone()),
                FileSystemAccess::Read if above == Some(FileSystemAccess::Write) => {
                    profile.protect.push(path.clone());
                }
                FileSystemAccess::Read if is_in(path, &profile.hide) => {
                    return Err(cannot_hold(path, "it is readable inside a place that is not"));
                }
                FileSystemAccess::Read => readable.push(path.clone()),
                // Where nothing else can be read, what is not named cannot be either.
                FileSystemAccess::None if above.is_some() => profile.hide.push(path.clone()),
                FileSystemAccess::None => {}
            }
        }
        let reads_all = |path: &PathBuf| path == Path::new("/");
        if !readable.iter().chain(&profile.write).any(reads_all) {
            profile.read = ReadAccess::Only(readable);
        }
        Ok(())
    }

    fn paths(&self, place: &FileSystemPlace) -> Result<Vec<PathBuf>, ErrorObject> {
        let special = match place {
            FileSystemPlace::Path { path } => return native(path).map(|path| vec![real(&path)]),
            FileSystemPlace::GlobPattern { pattern } => {
                let reason = format!("what matches {pattern:?} changes while a command runs");
                return Err(refused(&reason));
            }
            FileSystemPlace::Special { value } => value,
        };
        Ok(match special {
            SpecialPlace::Root => vec![PathBuf::from("/")],
            SpecialPlace::Minimal => {
                let paths = MINIMAL.iter().map(Path::new).filter(|path| path.exists());
                paths.map(real).collect()
            }
            SpecialPlace::ProjectRoots { subpath: Some(subpath) } if climbs(subpath) => {
                return Err(refused(&format!("{subpath:?} leads out of the project")));
            }
            SpecialPlace::ProjectRoots { subpath } => {
                let within = |root: &PathBuf| match subpath {
                    Some(subpath) => root.join(subpath.trim_start_matches('/')),
                    None => root.clone(),
                };
                self.projects.iter().map(within).collect()
            }
            SpecialPlace::Tmpdir => {
                std::env::var_os("TMPDIR").map(|path| real(Path::new(&path))).into_iter().collect()
            }
            SpecialPlace::SlashTmp => vec![real(Path::new("/tmp"))],
            SpecialPlace::Unknown { path, .. } => {
                return Err(refused(&format!("nobody here knows the place {path:?}")));
            }
        })
    }
}

fn climbs(subpath: &str) -> bool {
    Path::new(subpath).components().any(|part| part == Component::ParentDir)
}

fn is_in(path: &Path, paths: &[PathBuf]) -> bool {
    paths.iter().any(|place| path.starts_with(place))
}

fn cannot_hold(path: &Path, reason: &str) -> ErrorObject {
    refused(&format!("{}: {reason}", path.display()))
}

fn refused(reason: &str) -> ErrorObject {
    ErrorObject::invalid_request(format!("the sandbox cannot be held as asked: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn profiled(entries: serde_json::Value) -> Result<Profile, ErrorObject> {
        let wish: FileSystemSandboxContext = serde_json::from_value(json!({
            "permissions": {
                "type": "managed",
                "file_system": {"type": "restricted", "entries": entries},
                "network": "restricted",
            },
            "cwd": "file:///usr",
            "windowsSandboxLevel": "disabled",
        }))
        .unwrap();
        profile(&wish, None, &ProtectedPaths::default()).map(Option::unwrap)
    }

    fn special(kind: &str, access: &str) -> serde_json::Value {
        json!({"path": {"type": "special", "value": {"kind": kind}}, "access": access})
    }

    fn plain(path: &str, access: &str) -> serde_json::Value {
        json!({"path": {"type": "path", "path": path}, "access": access})
    }

    #[test]
    fn a_workspace_is_writable_but_for_what_is_narrower() {
        let entries = json!([
            special("root", "read"),
            special("project_roots", "write"),
            {"path": {"type": "special", "value": {"kind": "project_roots", "subpath": ".git"}}, "access": "read"},
            plain("/etc/secret", "none"),
        ]);
        let profile = profiled(entries).unwrap();
        assert_eq!(profile.read, ReadAccess::Everything);
        assert_eq!(profile.write, [Path::new("/usr")]);
        assert_eq!(profile.protect, [Path::new("/usr/.git")]);
        assert_eq!(profile.hide, [Path::new("/etc/secret")]);
        assert_eq!(profile.network, Network::Off);
    }

    #[test]
    fn without_the_root_only_what_is_named_can_be_read() {
        let profile = profiled(json!([special("minimal", "read"), plain("/var/x", "write")])).unwrap();
        let ReadAccess::Only(readable) = profile.read else { panic!("everything can be read") };
        assert!(readable.contains(&PathBuf::from("/usr")) && !readable.contains(&PathBuf::from("/var")));
        assert_eq!(profile.write, [Path::new("/var/x")]);
    }

    #[test]
    fn what_cannot_be_held_is_refused_with_its_reason() {
        let pattern = json!({"path": {"type": "glob_pattern", "pattern": "**/*.env"}, "access": "none"});
        for entries in [
            json!([special("root", "read"), pattern]),
            json!([plain("/a", "write"), plain("/a/b", "read"), plain("/a/b/c", "write")]),
        ] {
            let error = profiled(entries).unwrap_err();
            assert_eq!(error.code, -32600);
            assert!(error.message.contains("cannot be held"), "{}", error.message);
        }
    }
}
