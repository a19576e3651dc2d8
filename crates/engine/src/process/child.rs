//! What a child does between clone and exec.
//!
//! It shares the parent's memory and runs beside it, so nothing here allocates, locks, panics or touches thread-local
//! storage: bare system calls on memory that the parent prepared and will not touch until the child is through.
#![expect(unsafe_code, reason = "code between clone and exec works on raw descriptors and pointers")]

use core::ffi::c_char;
use std::os::fd::RawFd;

use super::limits::{MAX_JOINED_GROUPS, Rlimit};
use super::sys::call;
use crate::sandbox;

/// Everything the child needs, laid out by the parent. Pointers lead into memory that the parent keeps for it.
#[derive(Debug)]
pub(super) struct ChildInstructions {
    /// Paths to try, in order; null-terminated list.
    pub(super) candidates: *const *const c_char,
    /// The arguments; null-terminated list.
    pub(super) argv: *const *const c_char,
    /// `/bin/sh`, a free place, then the arguments from the second on: for a script without an interpreter line.
    pub(super) script_argv: *mut *const c_char,
    /// The environment; null-terminated list.
    pub(super) envp: *const *const c_char,
    /// Standard input, output and error.
    pub(super) stdio: [RawFd; 3],
    /// The working directory.
    pub(super) cwd: RawFd,
    /// How it is set apart from the daemon.
    pub(super) session_mode: SessionMode,
    /// Signals whose disposition has to be put back to the default; bit 0 is signal 1.
    pub(super) reset: u64,
    /// Whether the child dies with the thread that made it.
    pub(super) dies_with_parent: bool,
    /// How many files it may open, as the kernel wants it told; null leaves it as it is.
    pub(super) open_files: *const u64,
    /// Files of groups to join; -1 for none.
    pub(super) joins: [RawFd; MAX_JOINED_GROUPS],
    /// Limits to set.
    pub(super) rlimits: *const Rlimit,
    /// How many there are.
    pub(super) rlimit_count: usize,
    /// What it may touch; null leaves it unconfined.
    pub(super) confined: *const sandbox::ChildConfinement,
    /// Where an error number and a step are written; closes by itself on exec.
    pub(super) status: RawFd,
}

/// How a child is set apart from the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionMode {
    /// In a process group of its own. A new session would cost a twentieth of a short command, because the kernel
    /// makes a scheduling group for each, and adds nothing where there is no terminal to get away from.
    Group,
    /// In a session of its own.
    Session,
    /// In a session of its own, whose terminal is standard input.
    Terminal,
}

const SIGNALS: usize = 64;
const SIGSET_BYTES: usize = 8;
const EXIT_NOT_STARTED: usize = 127;

/// The child's whole life until exec. `orders` is an `ChildInstructions`.
pub(super) extern "C" fn main(orders: usize) -> ! {
    // SAFETY: the parent passes a pointer to orders that it keeps alive until this child has executed or ended.
    let orders = unsafe { &*(orders as *const ChildInstructions) };
    let (step, error) = follow(orders);
    let told = [error as i32, step];
    // SAFETY: writes eight bytes of this stack to a descriptor of this child, then ends.
    unsafe {
        call(
            libc::SYS_write as usize,
            [orders.status as usize, told.as_ptr() as usize, size_of_val(&told), 0, 0],
        );
        loop {
            call(libc::SYS_exit_group as usize, [EXIT_NOT_STARTED, 0, 0, 0, 0]);
        }
    }
}

/// Returns only when something failed: the step of confining, or 0 for any other, and the error number.
fn follow(orders: &ChildInstructions) -> (i32, isize) {
    // SAFETY: all calls act on this child alone; pointers come from the orders, which the parent keeps valid.
    unsafe {
        if orders.dies_with_parent {
            call(
                libc::SYS_prctl as usize,
                [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0, 0],
            );
        }
        // First, so that all it does from here on counts as its own.
        let mut result = join(orders);
        if result < 0 {
            return (0, -result);
        }
        let number = match orders.session_mode {
            SessionMode::Group => libc::SYS_setpgid,
            SessionMode::Session | SessionMode::Terminal => libc::SYS_setsid,
        };
        result = call(number as usize, [0; 5]);
        if result < 0 {
            return (0, -result);
        }
        if orders.session_mode == SessionMode::Terminal {
            let terminal = orders.stdio[0] as usize;
            result = call(libc::SYS_ioctl as usize, [terminal, libc::TIOCSCTTY as usize, 0, 0, 0]);
            if result < 0 {
                return (0, -result);
            }
        }
        let mut target = 0;
        while target < 3 {
            result = call(libc::SYS_dup3 as usize, [orders.stdio[target] as usize, target, 0, 0, 0]);
            if result < 0 {
                return (0, -result);
            }
            target += 1;
        }
        if orders.confined.is_null() {
            result = call(libc::SYS_fchdir as usize, [orders.cwd as usize, 0, 0, 0, 0]);
            if result < 0 {
                return (0, -result);
            }
        }
        // Whatever the daemon inherited itself must not reach the command; an old kernel leaves only what was
        // opened without close-on-exec by whoever started the daemon.
        call(
            libc::SYS_close_range as usize,
            [3, u32::MAX as usize, libc::CLOSE_RANGE_CLOEXEC as usize, 0, 0],
        );
        if !orders.open_files.is_null() {
            let limit = orders.open_files as usize;
            // Never refused: it is what the parent had.
            call(libc::SYS_prlimit64 as usize, [0, libc::RLIMIT_NOFILE as usize, limit, 0, 0]);
        }
        result = set_limits(orders);
        if result < 0 {
            return (0, -result);
        }
        reset_signals(orders.reset);
        // Last of all: what was done before needs rights that are gone then.
        if let Some(confined) = orders.confined.as_ref()
            && let Err((step, error)) = sandbox::enter(confined, orders.cwd)
        {
            return (step as i32, error);
        }
        (0, execute(orders))
    }
}

/// Moves into the groups that hold its limits; a negative result is an error number.
///
/// # Safety
/// Only for a child between clone and exec.
unsafe fn join(orders: &ChildInstructions) -> isize {
    let myself = b'0';
    let mut index = 0;
    while index < MAX_JOINED_GROUPS {
        let entrance = orders.joins[index];
        if entrance >= 0 {
            let text = core::ptr::from_ref(&myself) as usize;
            // SAFETY: writes one byte of this stack to a descriptor of this child.
            let result = unsafe { call(libc::SYS_write as usize, [entrance as usize, text, 1, 0, 0]) };
            if result < 0 {
                return result;
            }
        }
        index += 1;
    }
    0
}

/// Sets the limits of the process; a negative result is an error number.
///
/// # Safety
/// Only for a child between clone and exec, whose orders are all valid.
unsafe fn set_limits(orders: &ChildInstructions) -> isize {
    let mut index = 0;
    while index < orders.rlimit_count {
        // SAFETY: the parent keeps as many limits as it said.
        let result = unsafe {
            let limit = &*orders.rlimits.add(index);
            let values = limit.values.as_ptr() as usize;
            call(libc::SYS_prlimit64 as usize, [0, limit.resource, values, 0, 0])
        };
        if result < 0 {
            return result;
        }
        index += 1;
    }
    0
}

/// Default dispositions, nothing blocked: what a program started from a login shell would find.
///
/// # Safety
/// Only for a child between clone and exec: it changes the dispositions of the whole process.
unsafe fn reset_signals(which: u64) {
    // The kernel's `struct sigaction`, all zero: default disposition.
    let default = [0usize; 4];
    let none = 0u64;
    let mut signal = 1;
    // SAFETY: both structures live on this stack for the length of the calls.
    unsafe {
        while signal <= SIGNALS {
            if which >> (signal - 1) & 1 == 0 {
                signal += 1;
                continue;
            }
            call(libc::SYS_rt_sigaction as usize, [signal, default.as_ptr() as usize, 0, SIGSET_BYTES, 0]);
            signal += 1;
        }
        let mask = core::ptr::from_ref(&none) as usize;
        call(libc::SYS_rt_sigprocmask as usize, [libc::SIG_SETMASK as usize, mask, 0, SIGSET_BYTES, 0]);
    }
}

/// Tries each candidate as `execvp` would: a missing one is passed over, a forbidden one remembered.
///
/// # Safety
/// Only for a child between clone and exec, whose orders are all valid: their pointers are followed.
unsafe fn execute(orders: &ChildInstructions) -> isize {
    let mut remembered = libc::ENOENT as isize;
    let mut candidate = orders.candidates;
    // SAFETY: the lists are null-terminated and stay valid; the second place of `script_argv` is the child's to fill.
    unsafe {
        while !(*candidate).is_null() {
            let path = *candidate as usize;
            let error =
                -call(libc::SYS_execve as usize, [path, orders.argv as usize, orders.envp as usize, 0, 0]);
            match error as i32 {
                libc::ENOEXEC => {
                    *orders.script_argv.add(1) = *candidate;
                    let shell = *orders.script_argv as usize;
                    let argv = orders.script_argv as usize;
                    return -call(libc::SYS_execve as usize, [shell, argv, orders.envp as usize, 0, 0]);
                }
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => remembered = error,
                _ => return error,
            }
            candidate = candidate.add(1);
        }
    }
    remembered
}
