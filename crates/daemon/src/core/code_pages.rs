//! Unmaps the pages of the program's code that are not needed while the daemon waits; the kernel maps again what runs.
#![expect(unsafe_code, reason = "unmapping pages has no safe interface")]

use std::ops::Range;

use rustix::mm::{Advice, madvise};

/// Unmaps all code; what runs next is mapped again.
pub(crate) fn release() {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let Some(code) = mapping_of(&maps, release as *const () as usize) else { return };
    // SAFETY: the range is one mapping of a file that is never written to, so its pages are read from the file again.
    if let Err(error) = unsafe { madvise(code.start as *mut _, code.len(), Advice::LinuxDontNeed) } {
        tracing::debug!(%error, "the code stays mapped");
    }
}

/// The mapping with an address, if it is code of a file.
fn mapping_of(maps: &str, address: usize) -> Option<Range<usize>> {
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let range = usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?;
        (range.contains(&address) && rest.starts_with("r-xp ") && rest.contains('/')).then_some(range)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_a_file_is_found() {
        let maps = "1000-2000 r--p 00000000 fe:00 1 /bin/rexd\n2000-4000 r-xp 00001000 fe:00 1 /bin/rexd\n\
                    4000-5000 rwxp 00000000 00:00 0 \n5000-6000 r-xp 00000000 00:00 0 [vdso]\nnonsense\n";
        assert_eq!(mapping_of(maps, 0x2fff), Some(0x2000..0x4000));
        for other in [0x1fff, 0x4000, 0x5000, 0x6000] {
            assert_eq!(mapping_of(maps, other), None, "{other:x}");
        }
    }

    #[test]
    fn released_code_runs_again() {
        release();
        only_code_of_a_file_is_found();
    }
}
