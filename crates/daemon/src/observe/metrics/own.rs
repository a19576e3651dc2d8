//! Descriptors and memory of this process, read from `/proc` when the page is rendered.

/// The number of open descriptors.
pub(super) fn open_descriptors() -> Option<u64> {
    // The listing includes its own descriptor.
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    u64::try_from(count).ok()?.checked_sub(1)
}

/// The limit of open descriptors.
pub(super) fn max_descriptors() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// The resident memory in bytes.
pub(super) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_descriptors_and_memory() {
        let open = open_descriptors().unwrap();
        assert!(open >= 3 && max_descriptors().is_none_or(|most| open <= most), "{open}");
        assert!(resident_bytes().unwrap() > 100 * 1_024);
    }
}
