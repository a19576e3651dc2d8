//! Sandbox objects of clients as profiles, and those that cannot be enforced.

use super::*;
use serde_json::json;

fn profiled(entries: serde_json::Value) -> Result<Profile, RpcError> {
    let request: FileSystemSandboxContext = serde_json::from_value(json!({
        "permissions": {
            "type": "managed",
            "file_system": {"type": "restricted", "entries": entries},
            "network": "restricted",
        },
        "cwd": "/usr",
        "windowsSandboxLevel": "disabled",
    }))
    .unwrap();
    profile(Some(&request), None, ProtectedPaths::default).map(Option::unwrap)
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
fn a_missing_or_empty_list_of_roots_grants_no_directory() {
    for (cwd, roots, writable) in [
        ("/usr", json!(null), Some("/usr")),
        ("/usr", json!([]), None),
        ("file:///usr", json!(null), None),
        ("file:///usr", json!([]), None),
        ("file:///usr", json!(["file:///etc"]), Some("/etc")),
    ] {
        let mut request = json!({
            "permissions": {
                "type": "managed",
                "file_system": {"type": "restricted", "entries": [special("root", "read"), special("project_roots", "write")]},
                "network": "restricted",
            },
            "cwd": cwd,
            "windowsSandboxLevel": "disabled",
        });
        if !roots.is_null() {
            request["workspaceRoots"] = roots.clone();
        }
        let request: FileSystemSandboxContext = serde_json::from_value(request).unwrap();
        let profile = profile(Some(&request), None, ProtectedPaths::default).unwrap().unwrap();
        let expected: Vec<PathBuf> = writable.into_iter().map(PathBuf::from).collect();
        assert_eq!(profile.write, expected, "{cwd} {roots}");
    }
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
        assert!(error.message.contains("cannot be enforced"), "{}", error.message);
    }
}
