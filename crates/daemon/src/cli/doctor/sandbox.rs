//! Checks of the sandbox: what the kernel can hold, and whether that is enough for the operator's profile.

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
    // A bad configuration has a check of its own.
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
            let advice = "nothing can be hidden or kept read-only inside writable paths: allow user namespaces for this \
                          user (user.max_user_namespaces, kernel.unprivileged_userns_clone, AppArmor)";
            Check::warn("mount namespaces", "refused", advice)
        }
    }
}

/// What the operator's profile, or the one most would choose, loses on this kernel.
fn profile(config: &Config, sandbox: &Sandbox, features: &Features) -> Check {
    let (name, is_wanted) = match sandbox.profile_name() {
        Some(name) => (name, true),
        None => (BUILT_IN[1], false),
    };
    let Ok(temp) = SandboxTempDir::new() else {
        return Check::warn("sandbox", name, "there is no randomness");
    };
    let confinement = match sandbox.confinement(&[Some(name)], &config.roots, &temp) {
        Ok(Some(confinement)) => confinement,
        Ok(None) => return Check::ok("sandbox", "off"),
        Err(unknown) => return Check::fail("sandbox", name, unknown.to_string()),
    };
    let gaps = confinement.gaps(features);
    let essential: Vec<String> = gaps.iter().filter(|gap| gap.is_essential()).map(Gap::to_string).collect();
    let notes: Vec<String> = gaps.iter().filter(|gap| !gap.is_essential()).map(Gap::to_string).collect();
    let found = if is_wanted { name.to_owned() } else { format!("off ({name} can be asked for)") };
    match (essential.is_empty(), notes.is_empty(), config.sandbox.on_gap) {
        (true, true, _) => Check::ok("sandbox", found),
        (true, false, _) => Check::warn("sandbox", found, notes.join("; ")),
        (false, _, OnGap::Refuse) if is_wanted => {
            let advice =
                format!("{}; or set sandbox.on_gap = \"reduce\" to run without", essential.join("; "));
            Check::fail("sandbox", format!("{name} cannot be held, so no command is started"), advice)
        }
        (false, _, OnGap::Refuse) => {
            Check::warn("sandbox", format!("off, and {name} would be refused"), essential.join("; "))
        }
        (false, _, OnGap::Reduce) => {
            Check::warn("sandbox", format!("{found}, reduced"), essential.join("; "))
        }
    }
}
