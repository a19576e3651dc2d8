//! Checks of kernel features; each is tried where that has no side effects.

use std::fs;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::Check;

pub(super) fn checks(state: Option<&Path>) -> Vec<Check> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let version = version(&release);
    let mut checks = vec![Check::ok("kernel", release)];
    checks.push(feature(
        "openat2",
        openat2_works(),
        "paths are resolved component by component, which is slower",
    ));
    checks.push(feature("pidfd", pidfd_open(getpid(), PidfdFlags::empty()).is_ok(), "needs Linux 5.3"));
    checks.push(since("clone3 into a cgroup", version, (5, 7)));
    checks.push(since("close_range", version, (5, 9)));
    checks.extend(cgroups());
    checks.push(unnamed_files(state));
    checks
}

fn feature(name: &'static str, works: bool, advice: &str) -> Check {
    if works { Check::ok(name, "works") } else { Check::warn(name, "not available", advice) }
}

/// A feature that cannot be tried without side effects: checked by the kernel version.
fn since(name: &'static str, version: (u32, u32), needed: (u32, u32)) -> Check {
    if version >= needed {
        Check::ok(name, format!("since Linux {}.{}", needed.0, needed.1))
    } else {
        Check::warn(name, "missing", format!("needs Linux {}.{}", needed.0, needed.1))
    }
}

fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn openat2_works() -> bool {
    openat2(CWD, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH).is_ok()
}

fn cgroups() -> Vec<Check> {
    const WITHOUT: &str = "process trees are tracked by process groups instead";
    let Ok(directory) = engine::process::own_cgroup_dir() else {
        return vec![Check::warn("cgroup v2", "not mounted", WITHOUT)];
    };
    let probe = directory.join(format!("rexd-doctor-{}", getpid().as_raw_nonzero()));
    if let Err(error) = fs::create_dir(&probe) {
        let found = format!("{}: {}", directory.display(), engine::error::errno_text(&error));
        return vec![Check::warn("cgroup v2", found, WITHOUT)];
    }
    let kill = probe.join("cgroup.kill").exists();
    let removed = fs::remove_dir(&probe);
    let found = format!("writable at {}", directory.display());
    vec![
        match removed {
            Ok(()) => Check::ok("cgroup v2", found),
            Err(error) => {
                Check::warn("cgroup v2", found, format!("cannot remove {}: {error}", probe.display()))
            }
        },
        feature("cgroup.kill", kill, "needs Linux 5.14; processes of a tree are killed one by one"),
    ]
}

fn unnamed_files(state: Option<&Path>) -> Check {
    let directory =
        state.into_iter().flat_map(Path::ancestors).find(|path| path.is_dir()).unwrap_or(Path::new("/tmp"));
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match openat(CWD, directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(_) => Check::ok("O_TMPFILE", format!("works in {}", directory.display())),
        Err(error) => {
            let found = format!("{}: {}", directory.display(), engine::error::errno_text(&error.into()));
            Check::warn("O_TMPFILE", found, "temporary files get a name instead")
        }
    }
}
