//! Putting a confinement on: what a child does last before it executes its program.
#![expect(unsafe_code, reason = "code between clone and exec works on raw descriptors and pointers")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::Arc;

use super::prepared::PreparedSandbox;
use crate::process::sys::call;

/// What a child was at when it could not confine itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfinementStep {
    Namespaces = 1,
    Directory,
    Privileges,
    Landlock,
    Filter,
}

impl ConfinementStep {
    /// The step of this number, as the child wrote it.
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

    /// What it tried, for people.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            ConfinementStep::Namespaces => "enter its namespaces",
            ConfinementStep::Directory => "enter its working directory, which is hidden or was replaced",
            ConfinementStep::Privileges => "give up its privileges",
            ConfinementStep::Landlock => "put on its Landlock rules",
            ConfinementStep::Filter => "put on its filter of system calls",
        }
    }
}

/// A confinement as a child wants it: everything laid out, nothing left to allocate.
#[derive(Debug)]
pub(crate) struct ChildConfinement {
    namespaces: Option<[i32; 4]>,
    directory: CString,
    /// Device and number of the directory that was opened outside.
    is_directory: (u64, u64),
    rulesets: Box<[i32]>,
    header: [u32; 2],
    capabilities: [u32; 6],
    /// The kernel's description of the filter; no length, no filter.
    filter: libc::sock_fprog,
    _prepared: Arc<PreparedSandbox>,
}

// SAFETY: the one pointer inside leads into the filter, which is shared, never changed and kept alive beside it.
unsafe impl Send for ChildConfinement {}

/// The third version of the structure, which has room for all capabilities.
const CAPABILITIES: u32 = 0x2008_0522;
const SET_FILTER: usize = 1;

impl ChildConfinement {
    /// ChildConfinement for a child that starts in the directory that `cwd` is open on.
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

/// Confines this child for good, and enters its directory. What failed, and the kernel's number for why.
///
/// # Safety
/// Only for a child between clone and exec: it changes what the whole process may do.
pub(crate) unsafe fn enter(orders: &ChildConfinement, cwd: i32) -> Result<(), (ConfinementStep, isize)> {
    // SAFETY: every call acts on this child alone, with memory that the orders keep.
    unsafe {
        match orders.namespaces {
            Some(namespaces) => {
                let mut index = 0;
                while index < namespaces.len() {
                    if namespaces[index] >= 0 {
                        tried(
                            ConfinementStep::Namespaces,
                            libc::SYS_setns,
                            [namespaces[index] as usize, 0, 0, 0, 0],
                        )?;
                    }
                    index += 1;
                }
                directory(orders)?;
            }
            None => tried(ConfinementStep::Directory, libc::SYS_fchdir, [cwd as usize, 0, 0, 0, 0])?,
        }
        let no_new_privileges = [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0];
        tried(ConfinementStep::Privileges, libc::SYS_prctl, no_new_privileges)?;
        let (header, sets) = (orders.header.as_ptr() as usize, orders.capabilities.as_ptr() as usize);
        tried(ConfinementStep::Privileges, libc::SYS_capset, [header, sets, 0, 0, 0])?;
        let mut layer = 0;
        while layer < orders.rulesets.len() {
            let rules = orders.rulesets[layer] as usize;
            tried(ConfinementStep::Landlock, libc::SYS_landlock_restrict_self, [rules, 0, 0, 0, 0])?;
            layer += 1;
        }
        if orders.filter.len > 0 {
            let filter = core::ptr::from_ref(&orders.filter) as usize;
            tried(ConfinementStep::Filter, libc::SYS_seccomp, [SET_FILTER, 0, filter, 0, 0])?;
        }
    }
    Ok(())
}

/// Enters the directory by its name, inside: a descriptor from outside would bring the outer mounts along.
///
/// # Safety
/// As for [`enter`].
unsafe fn directory(orders: &ChildConfinement) -> Result<(), (ConfinementStep, isize)> {
    let mut found = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the path is kept by the orders; the kernel fills the whole structure if it succeeds.
    unsafe {
        let path = orders.directory.as_ptr() as usize;
        tried(ConfinementStep::Directory, libc::SYS_chdir, [path, 0, 0, 0, 0])?;
        let here = c".".as_ptr() as usize;
        let fd = libc::AT_FDCWD as usize;
        tried(
            ConfinementStep::Directory,
            libc::SYS_newfstatat,
            [fd, here, found.as_mut_ptr() as usize, 0, 0],
        )?;
        let found = found.assume_init_ref();
        if (found.st_dev, found.st_ino) != orders.is_directory {
            return Err((ConfinementStep::Directory, libc::ESTALE as isize));
        }
    }
    Ok(())
}

/// One call; what it was part of if it fails.
///
/// # Safety
/// As for the call itself.
#[inline(always)]
unsafe fn tried(
    step: ConfinementStep,
    number: i64,
    arguments: [usize; 5],
) -> Result<(), (ConfinementStep, isize)> {
    // SAFETY: the caller vouches for it.
    match unsafe { call(number as usize, arguments) } {
        error if error < 0 => Err((step, -error)),
        _ => Ok(()),
    }
}
