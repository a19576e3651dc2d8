//! Applies a confinement: the last step of a child before exec.
#![expect(unsafe_code, reason = "code between clone and exec works on raw descriptors and pointers")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use super::prepared::PreparedSandbox;
use crate::process::sys::call;

/// Step at which a child failed to apply its confinement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfinementStep {
    Namespaces = 1,
    Directory,
    Privileges,
    Landlock,
    Filter,
}

impl ConfinementStep {
    /// The step with the number that the child reported.
    pub(crate) fn from_number(number: i32) -> Option<ConfinementStep> {
        [
            ConfinementStep::Namespaces,
            ConfinementStep::Directory,
            ConfinementStep::Privileges,
            ConfinementStep::Landlock,
            ConfinementStep::Filter,
        ]
        .into_iter()
        .find(|step| *step as i32 == number)
    }

    /// The failed action, for error messages.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            ConfinementStep::Namespaces => "enter its namespaces",
            ConfinementStep::Directory => "enter its working directory, which is hidden or was replaced",
            ConfinementStep::Privileges => "drop its privileges",
            ConfinementStep::Landlock => "apply its Landlock rules",
            ConfinementStep::Filter => "install its seccomp filter",
        }
    }
}

/// A confinement in the form that a child needs, which must not allocate memory.
#[derive(Debug)]
pub(crate) struct ChildConfinement {
    namespaces: Option<[i32; 4]>,
    directory: CString,
    /// Device and inode of the directory that was opened outside.
    is_directory: (u64, u64),
    rulesets: Box<[i32]>,
    header: [u32; 2],
    capabilities: [u32; 6],
    /// The seccomp filter; length 0 if there is none.
    filter: libc::sock_fprog,
    _prepared: Arc<PreparedSandbox>,
}

// SAFETY: the only pointer refers to the filter, which is shared, immutable and kept alive by `_prepared`.
unsafe impl Send for ChildConfinement {}

/// Version 3 of the capability structure, with 64 bits per set.
const CAPABILITIES: u32 = 0x2008_0522;
const SET_FILTER: usize = 1;

impl ChildConfinement {
    /// The confinement of a child that starts in the open directory `cwd`.
    pub(crate) fn new(prepared: Arc<PreparedSandbox>, cwd: BorrowedFd<'_>) -> io::Result<ChildConfinement> {
        let stat = rustix::fs::fstat(cwd)?;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", cwd.as_raw_fd()))?;
        let directory =
            CString::new(path.into_os_string().into_vec()).map_err(|_nul| io::ErrorKind::InvalidInput)?;
        let (low, high) = (prepared.capabilities as u32, (prepared.capabilities >> 32) as u32);
        Ok(ChildConfinement {
            namespaces: prepared.namespaces.as_ref().map(|made| made.raw()),
            directory,
            is_directory: (stat.st_dev, stat.st_ino),
            rulesets: prepared.rulesets.iter().map(|rules| rules.raw()).collect(),
            header: [CAPABILITIES, 0],
            // Effective, permitted, inheritable, twice: the low half, then the high half.
            capabilities: [low, low, 0, high, high, 0],
            filter: libc::sock_fprog {
                len: u16::try_from(prepared.filter.len()).map_err(|_long| io::ErrorKind::InvalidInput)?,
                filter: prepared.filter.as_ptr().cast_mut().cast(),
            },
            _prepared: prepared,
        })
    }
}

/// Confines this child irrevocably and enters its directory. On failure returns the step and the errno.
///
/// # Safety
/// Only for a child between clone and exec: it changes what the whole process may do.
pub(crate) unsafe fn enter(confinement: &ChildConfinement, cwd: i32) -> Result<(), (ConfinementStep, isize)> {
    // SAFETY: every call affects this child only, with memory that `confinement` keeps alive.
    unsafe {
        match confinement.namespaces {
            Some(namespaces) => {
                let mut index = 0;
                while index < namespaces.len() {
                    if namespaces[index] >= 0 {
                        syscall(
                            ConfinementStep::Namespaces,
                            libc::SYS_setns,
                            [namespaces[index] as usize, 0, 0, 0, 0],
                        )?;
                    }
                    index += 1;
                }
                enter_directory(confinement)?;
            }
            None => syscall(ConfinementStep::Directory, libc::SYS_fchdir, [cwd as usize, 0, 0, 0, 0])?,
        }
        let no_new_privileges = [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0];
        syscall(ConfinementStep::Privileges, libc::SYS_prctl, no_new_privileges)?;
        let (header, sets) =
            (confinement.header.as_ptr() as usize, confinement.capabilities.as_ptr() as usize);
        syscall(ConfinementStep::Privileges, libc::SYS_capset, [header, sets, 0, 0, 0])?;
        let mut layer = 0;
        while layer < confinement.rulesets.len() {
            let rules = confinement.rulesets[layer] as usize;
            syscall(ConfinementStep::Landlock, libc::SYS_landlock_restrict_self, [rules, 0, 0, 0, 0])?;
            layer += 1;
        }
        if confinement.filter.len > 0 {
            let filter = core::ptr::from_ref(&confinement.filter) as usize;
            syscall(ConfinementStep::Filter, libc::SYS_seccomp, [SET_FILTER, 0, filter, 0, 0])?;
        }
    }
    Ok(())
}

/// Enters the directory by name inside the namespace: a descriptor from outside would refer to the outer mounts.
///
/// # Safety
/// As for [`enter`].
unsafe fn enter_directory(confinement: &ChildConfinement) -> Result<(), (ConfinementStep, isize)> {
    let mut found = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `confinement` keeps the path alive; on success the kernel fills the whole structure.
    unsafe {
        let path = confinement.directory.as_ptr() as usize;
        syscall(ConfinementStep::Directory, libc::SYS_chdir, [path, 0, 0, 0, 0])?;
        let here = c".".as_ptr() as usize;
        let fd = libc::AT_FDCWD as usize;
        syscall(
            ConfinementStep::Directory,
            libc::SYS_newfstatat,
            [fd, here, found.as_mut_ptr() as usize, 0, 0],
        )?;
        let found = found.assume_init_ref();
        if (found.st_dev, found.st_ino) != confinement.is_directory {
            return Err((ConfinementStep::Directory, libc::ESTALE as isize));
        }
    }
    Ok(())
}

/// Makes one system call and names the step if it fails.
///
/// # Safety
/// As for the call itself.
#[inline(always)]
unsafe fn syscall(
    step: ConfinementStep,
    number: i64,
    arguments: [usize; 5],
) -> Result<(), (ConfinementStep, isize)> {
    // SAFETY: the caller upholds the contract.
    match unsafe { call(number as usize, arguments) } {
        error if error < 0 => Err((step, -error)),
        _ => Ok(()),
    }
}
