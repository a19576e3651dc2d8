//! The sandbox object of a client as a sandbox profile, or why it cannot be enforced.
//!
//! The profile applies on top of the operator's.

use std::path::{Component, Path, PathBuf};

use engine::sandbox::{Network, Profile, ProtectedPaths, ReadAccess};
use wire::exec_server::v1::{
    FileSystemAccess, FileSystemEntry, FileSystemPlace, FileSystemPolicy, FileSystemSandboxContext,
    NetworkPolicy, PermissionProfile, SpecialPlace,
};
use wire::jsonrpc::RpcError;

use super::paths::native;
use crate::core::sandbox::real;

/// The directories that programs need to run at all.
const MINIMAL: [&str; 11] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store", "/proc"];

/// The name of the profile that a client sends.
const CLIENT_PROFILE: &str = "client";
/// The rule in an error when that profile denies an access.
pub(super) const CLIENT_RULE: &str = "sandbox:client";

/// Whether a sandbox object takes the network away.
pub(super) fn restricts_network(request: Option<&FileSystemSandboxContext>) -> bool {
    let permissions = request.map(|request| &request.permissions);
    matches!(permissions, Some(PermissionProfile::Managed { network: NetworkPolicy::Restricted, .. }))
}

/// The profile of a sandbox object; `None` if it allows everything. `own` resolves the daemon's own files, which takes longer
/// than a small read.
pub(super) fn profile(
    request: Option<&FileSystemSandboxContext>,
    cwd: Option<&Path>,
    own: impl FnOnce() -> ProtectedPaths,
) -> Result<Option<Profile>, RpcError> {
    let Some(request) = request else { return Ok(None) };
    let PermissionProfile::Managed { file_system, network } = &request.permissions else { return Ok(None) };
    let mut profile = Profile::read_only(&own());
    profile.name = CLIENT_PROFILE.to_owned();
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
            fill(entries, &projects(request, cwd)?, &mut profile)?;
        }
    }
    Ok(Some(profile))
}

/// The directories of the project: `workspaceRoots`, even if it is empty. Clients that send plain paths do not know that
/// member and mean the working directory; those that send `file:` URIs and leave it out mean no directory.
fn projects(request: &FileSystemSandboxContext, cwd: Option<&Path>) -> Result<Vec<PathBuf>, RpcError> {
    match (&request.workspace_roots, &request.cwd) {
        (Some(roots), _) => roots.iter().map(|root| native(root).map(|root| real(&root))).collect(),
        (None, Some(cwd)) if cwd.starts_with("file:") => Ok(Vec::new()),
        (None, Some(cwd)) => Ok(vec![real(&native(cwd)?)]),
        (None, None) => Ok(cwd.iter().map(|cwd| real(cwd)).collect()),
    }
}

/// Fills a profile from the entries. A narrower entry overrides a wider one; of two for the same place, the later one
/// counts.
fn fill(entries: &[FileSystemEntry], projects: &[PathBuf], profile: &mut Profile) -> Result<(), RpcError> {
    let mut entries_by_path: Vec<(PathBuf, FileSystemAccess)> = Vec::new();
    for entry in entries {
        for path in paths(&entry.path, projects)? {
            entries_by_path.retain(|(known, _)| *known != path);
            entries_by_path.push((path, entry.access));
        }
    }
    entries_by_path.sort_by_key(|(path, _)| path.components().count());
    let mut readable = Vec::new();
    for (path, access) in &entries_by_path {
        let above = entries_by_path.iter().rfind(|(wider, _)| path.starts_with(wider) && path != wider);
        let above = above.map(|(_, access)| *access);
        match access {
            FileSystemAccess::Write if is_in(path, &profile.protect) || profile.hides(path) => {
                let reason = format!("{}: it is writable inside a directory that is not", path.display());
                return Err(refused(&reason));
            }
            FileSystemAccess::Write => profile.write.push(path.clone()),
            FileSystemAccess::Read if above == Some(FileSystemAccess::Write) => {
                profile.protect.push(path.clone());
            }
            FileSystemAccess::Read if profile.hides(path) => {
                let reason = format!("{}: it is readable inside a directory that is not", path.display());
                return Err(refused(&reason));
            }
            FileSystemAccess::Read => readable.push(path.clone()),
            // Without a readable parent it is not readable anyway.
            FileSystemAccess::None if above.is_some() => profile.hide.push(path.clone()),
            FileSystemAccess::None => {}
        }
    }
    if !readable.iter().chain(&profile.write).any(|path| path == Path::new("/")) {
        profile.read = ReadAccess::Only(readable);
    }
    Ok(())
}

/// The paths that a place of an entry names.
fn paths(place: &FileSystemPlace, projects: &[PathBuf]) -> Result<Vec<PathBuf>, RpcError> {
    let special = match place {
        FileSystemPlace::Path { path } => return native(path).map(|path| vec![real(&path)]),
        FileSystemPlace::GlobPattern { pattern } => {
            let reason = format!("files that match {pattern:?} change while a command runs");
            return Err(refused(&reason));
        }
        FileSystemPlace::Special { value } => value,
    };
    Ok(match special {
        SpecialPlace::Root => vec![PathBuf::from("/")],
        SpecialPlace::Minimal => {
            MINIMAL.iter().map(Path::new).filter(|path| path.exists()).map(real).collect()
        }
        SpecialPlace::ProjectRoots { subpath: Some(subpath) } if climbs(subpath) => {
            return Err(refused(&format!("{subpath:?} leads outside the project")));
        }
        SpecialPlace::ProjectRoots { subpath } => {
            let within = |root: &PathBuf| match subpath {
                Some(subpath) => root.join(subpath.trim_start_matches('/')),
                None => root.clone(),
            };
            projects.iter().map(within).collect()
        }
        SpecialPlace::Tmpdir => {
            std::env::var_os("TMPDIR").map(|path| real(Path::new(&path))).into_iter().collect()
        }
        SpecialPlace::SlashTmp => vec![real(Path::new("/tmp"))],
        SpecialPlace::Unknown { path, .. } => {
            return Err(refused(&format!("unknown special place {path:?}")));
        }
    })
}

fn climbs(subpath: &str) -> bool {
    Path::new(subpath).components().any(|part| part == Component::ParentDir)
}

fn is_in(path: &Path, places: &[PathBuf]) -> bool {
    places.iter().any(|place| path.starts_with(place))
}

/// The error for a sandbox that cannot be enforced.
pub(super) fn refused(reason: &str) -> RpcError {
    RpcError::invalid_request(format!("the sandbox cannot be enforced as requested: {reason}"))
}

#[cfg(test)]
mod tests;
