//! The code of a child between clone and exec.
//!
//! The child shares the memory of the parent, which continues to run. This code therefore does not allocate, lock, panic
//! or use thread-local storage: it makes system calls on memory that the parent prepared and does not access until exec.
#![expect(unsafe_code, reason = "code between clone and exec works on raw descriptors and pointers")]

use core::ffi::c_char;
use std::os::fd::RawFd;

use super::limits::{MAX_JOINED_GROUPS, Rlimit};
use super::sys::call;
use crate::sandbox;

/// The instructions for the child. The pointers are valid until exec, because the parent keeps the memory.
#[derive(Debug)]
pub(super) struct ChildInstructions {
    /// Paths to try, in order; null-terminated list.
    pub(super) candidates: *const *const c_char,
    /// The arguments; null-terminated list.
    pub(super) argv: *const *const c_char,
    /// For a script without an interpreter line: `/bin/sh`, an unused element for the path of the script, then the
    /// arguments from the second on.
    pub(super) script_argv: *mut *const c_char,
    /// The environment; null-terminated list.
    pub(super) envp: *const *const c_char,
    /// Standard input, output and error.
    pub(super) stdio: [RawFd; 3],
    /// Descriptors that the program inherits beside them, under the same numbers; -1 for none.
    pub(super) inherited: [RawFd; 2],
    /// The working directory.
    pub(super) cwd: RawFd,
    /// How it is separated from the daemon's session.
    pub(super) session_mode: SessionMode,
    /// Signals whose disposition is reset to the default; bit 0 is signal 1.
    pub(super) reset: u64,
    /// Whether the kernel kills the child when the thread that created it ends.
    pub(super) dies_with_parent: bool,
    /// `RLIMIT_NOFILE`, soft and hard; null keeps the parent's limits.
    pub(super) open_files: *const u64,
    /// Open `tasks` files of cgroups to join; -1 for none.
    pub(super) joins: [RawFd; MAX_JOINED_GROUPS],
    /// Resource limits to set.
    pub(super) rlimits: *const Rlimit,
    /// The number of `rlimits`.
    pub(super) rlimit_count: usize,
    /// The sandbox; null for an unconfined child.
    pub(super) confined: *const sandbox::ChildConfinement,
    /// A close-on-exec pipe for the error number and the failed step.
    pub(super) status: RawFd,
}

/// How a child is separated from the daemon's session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionMode {
    /// In its own process group. A new session would take a twentieth of the time of a short command, because the kernel
    /// creates a scheduling group for it, and is necessary only to leave a terminal.
    Group,
    /// In its own session.
    Session,
    /// In its own session, whose controlling terminal is standard input.
    Terminal,
}

const SIGNALS: usize = 64;
const SIGSET_BYTES: usize = 8;
const EXIT_NOT_STARTED: usize = 127;

/// The entry point of the child. `instructions` is a pointer to [`ChildInstructions`].
pub(super) extern "C" fn main(instructions: usize) -> ! {
    // SAFETY: the parent passes a pointer that stays valid until this child has executed or ended.
    let instructions = unsafe { &*(instructions as *const ChildInstructions) };
    let (step, error) = run(instructions);
    let report = [error as i32, step];
    // SAFETY: writes eight bytes of this stack to a descriptor of this child, then ends.
    unsafe {
        call(
            libc::SYS_write as usize,
            [instructions.status as usize, report.as_ptr() as usize, size_of_val(&report), 0, 0],
        );
        loop {
            call(libc::SYS_exit_group as usize, [EXIT_NOT_STARTED, 0, 0, 0, 0]);
        }
    }
}

/// Carries out the instructions. Returns only on failure: the step of the sandbox, or 0 for any other, and the error
/// number.
fn run(instructions: &ChildInstructions) -> (i32, isize) {
    // SAFETY: all calls affect this child only; the parent keeps the pointers valid.
    unsafe {
        if instructions.dies_with_parent {
            call(
                libc::SYS_prctl as usize,
                [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0, 0],
            );
        }
        // First, so that everything after it counts towards the limits of these cgroups.
        let mut result = join(instructions);
        if result < 0 {
            return (0, -result);
        }
        let number = match instructions.session_mode {
            SessionMode::Group => libc::SYS_setpgid,
            SessionMode::Session | SessionMode::Terminal => libc::SYS_setsid,
        };
        result = call(number as usize, [0; 5]);
        if result < 0 {
            return (0, -result);
        }
        if instructions.session_mode == SessionMode::Terminal {
            let terminal = instructions.stdio[0] as usize;
            result = call(libc::SYS_ioctl as usize, [terminal, libc::TIOCSCTTY as usize, 0, 0, 0]);
            if result < 0 {
                return (0, -result);
            }
        }
        result = set_descriptors(instructions);
        if result < 0 {
            return (0, -result);
        }
        if instructions.confined.is_null() {
            result = call(libc::SYS_fchdir as usize, [instructions.cwd as usize, 0, 0, 0, 0]);
            if result < 0 {
                return (0, -result);
            }
        }
        if !instructions.open_files.is_null() {
            let limit = instructions.open_files as usize;
            // Always permitted: these are the former limits of the parent.
            call(libc::SYS_prlimit64 as usize, [0, libc::RLIMIT_NOFILE as usize, limit, 0, 0]);
        }
        result = set_limits(instructions);
        if result < 0 {
            return (0, -result);
        }
        reset_signals(instructions.reset);
        // Last, because the calls above need rights that the sandbox takes away.
        if let Some(confined) = instructions.confined.as_ref()
            && let Err((step, error)) = sandbox::enter(confined, instructions.cwd)
        {
            return (step as i32, error);
        }
        (0, execute(instructions))
    }
}

/// Gives the command its three standard streams and the inherited descriptors, and no other; a negative result is an error
/// number.
///
/// # Safety
/// Only for a child between clone and exec.
unsafe fn set_descriptors(instructions: &ChildInstructions) -> isize {
    // SAFETY: the calls affect the descriptors of this child only.
    unsafe {
        let mut target = 0;
        while target < 3 {
            let from = instructions.stdio[target] as usize;
            let result = call(libc::SYS_dup3 as usize, [from, target, 0, 0, 0]);
            if result < 0 {
                return result;
            }
            target += 1;
        }
        // Descriptors that the daemon inherited must not reach the command. Before Linux 5.9 this fails, and those
        // without close-on-exec do.
        call(
            libc::SYS_close_range as usize,
            [3, u32::MAX as usize, libc::CLOSE_RANGE_CLOEXEC as usize, 0, 0],
        );
        let mut index = 0;
        while index < 2 {
            if instructions.inherited[index] >= 0 {
                let fd = instructions.inherited[index] as usize;
                let result = call(libc::SYS_fcntl as usize, [fd, libc::F_SETFD as usize, 0, 0, 0]);
                if result < 0 {
                    return result;
                }
            }
            index += 1;
        }
        0
    }
}

/// Joins the cgroups of its limits; a negative result is an error number.
///
/// # Safety
/// Only for a child between clone and exec.
unsafe fn join(instructions: &ChildInstructions) -> isize {
    let myself = b'0';
    let mut index = 0;
    while index < MAX_JOINED_GROUPS {
        let tasks_file = instructions.joins[index];
        if tasks_file >= 0 {
            let text = core::ptr::from_ref(&myself) as usize;
            // SAFETY: writes one byte of this stack to a descriptor of this child.
            let result = unsafe { call(libc::SYS_write as usize, [tasks_file as usize, text, 1, 0, 0]) };
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
/// Only for a child between clone and exec, whose instructions are all valid.
unsafe fn set_limits(instructions: &ChildInstructions) -> isize {
    let mut index = 0;
    while index < instructions.rlimit_count {
        // SAFETY: the parent provides `rlimit_count` limits.
        let result = unsafe {
            let limit = &*instructions.rlimits.add(index);
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

/// Sets default dispositions and an empty signal mask, as a login shell provides them.
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

/// Tries each candidate like `execvp`: skips missing ones, and reports a forbidden one if no other can be executed.
///
/// # Safety
/// Only for a child between clone and exec, whose instructions are all valid: their pointers are dereferenced.
unsafe fn execute(instructions: &ChildInstructions) -> isize {
    let mut result = libc::ENOENT as isize;
    let mut candidate = instructions.candidates;
    // SAFETY: the lists are null-terminated and valid; the second element of `script_argv` is reserved for the child.
    unsafe {
        while !(*candidate).is_null() {
            let path = *candidate as usize;
            let error = -call(
                libc::SYS_execve as usize,
                [path, instructions.argv as usize, instructions.envp as usize, 0, 0],
            );
            match error as i32 {
                libc::ENOEXEC => {
                    *instructions.script_argv.add(1) = *candidate;
                    let shell = *instructions.script_argv as usize;
                    let argv = instructions.script_argv as usize;
                    return -call(libc::SYS_execve as usize, [shell, argv, instructions.envp as usize, 0, 0]);
                }
                libc::ENOENT | libc::ENOTDIR => {}
                libc::EACCES => result = error,
                _ => return error,
            }
            candidate = candidate.add(1);
        }
    }
    result
}
