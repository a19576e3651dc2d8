//! Checks of the sandbox: kernel features, and whether they are enough for the configured profile.

use engine::sandbox::{Features, Gap, OnGap};

use super::{Check, Doctor};
use crate::config::{BUILT_IN, Config};
use crate::core::sandbox::{FEATURES_VARIABLE, Sandbox, SandboxTempDir, lowered_features};

pub(super) fn checks(doctor: &Doctor) -> Vec<Check> {
    let features = match lowered_features() {
        Ok(features) => features,
        Err(unknown) => return vec![Check::fail("sandbox", FEATURES_VARIABLE, unknown.to_string())],
    };
    let mut checks = vec![landlock(&features), seccomp(&features), namespaces(&features)];
    // An invalid configuration has its own check.
    if let Ok(config) = Config::load(&doctor.config, &doctor.paths) {
        checks.push(profile(&config, &Sandbox::new(&config, &doctor.paths), &features));
    }
    checks
}

fn landlock(features: &Features) -> Check {
    match features.landlock {
        Some(version) => Check::ok("landlock", format!("version {version}")),
        None => Check::warn("landlock", "missing", Gap::Landlock.to_string()),
    }
}

fn seccomp(features: &Features) -> Check {
    match features.seccomp {
        true => Check::ok("seccomp", "works"),
        false => Check::warn("seccomp", "missing", Gap::Seccomp.to_string()),
    }
}

fn namespaces(features: &Features) -> Check {
    match (features.namespaces, features.needs_user_namespace) {
        (true, false) => Check::ok("mount namespaces", "work"),
        (true, true) => Check::ok("mount namespaces", "work, in a user namespace"),
        (false, _) => {
            let advice = "paths inside writable ones cannot be hidden or read-only; allow user namespaces for this user \
                          (user.max_user_namespaces, kernel.unprivileged_userns_clone, AppArmor)";
            Check::warn("mount namespaces", "not available", advice)
        }
    }
}

/// The parts of the configured profile, or of `workspace-write`, that this kernel cannot enforce.
fn profile(config: &Config, sandbox: &Sandbox, features: &Features) -> Check {
    let (name, is_configured) = match sandbox.profile_name() {
        Some(name) => (name, true),
        None => (BUILT_IN[1], false),
    };
    let Ok(temp) = SandboxTempDir::new() else {
        return Check::warn("sandbox", name, "no random numbers available");
    };
    let confinement = match sandbox.confinement(&[Some(name)], &config.roots, &temp) {
        Ok(Some(confinement)) => confinement,
        Ok(None) => return Check::ok("sandbox", "off"),
        Err(unknown) => return Check::fail("sandbox", name, unknown.to_string()),
    };
    let gaps = confinement.gaps(features);
    let essential: Vec<String> = gaps.iter().filter(|gap| gap.is_essential()).map(Gap::to_string).collect();
    let notes: Vec<String> = gaps.iter().filter(|gap| !gap.is_essential()).map(Gap::to_string).collect();
    let found = if is_configured { name.to_owned() } else { format!("off ({name} is available)") };
    match (essential.is_empty(), notes.is_empty(), config.sandbox.on_gap) {
        (true, true, _) => Check::ok("sandbox", found),
        (true, false, _) => Check::warn("sandbox", found, notes.join("; ")),
        (false, _, OnGap::Refuse) if is_configured => {
            let advice =
                format!("{}; or set sandbox.on_gap = \"reduce\" to run without", essential.join("; "));
            Check::fail("sandbox", format!("{name} cannot be enforced, so no command starts"), advice)
        }
        (false, _, OnGap::Refuse) => {
            Check::warn("sandbox", format!("off ({name} is not available)"), essential.join("; "))
        }
        (false, _, OnGap::Reduce) => {
            Check::warn("sandbox", format!("{found}, reduced"), essential.join("; "))
        }
    }
}
