//! System calls of a child between clone and exec, without libc; and signals by number.
//!
//! The child shares the memory of the running parent, including thread-local storage. Access to `errno`, a lock or the
//! allocator would be a race, so these are bare instructions.
#![expect(unsafe_code, reason = "a child between clone and exec may use nothing but bare system calls")]

use core::arch::asm;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::signal::Signal;

/// Sends a signal through a pidfd; returns whether the process received it. (The typed interface of rustix has no
/// real-time signals.)
pub(super) fn send(handle: BorrowedFd<'_>, signal: Signal) -> bool {
    // SAFETY: passes two numbers and a null pointer, which the kernel accepts.
    unsafe {
        call(
            libc::SYS_pidfd_send_signal as usize,
            [handle.as_raw_fd() as usize, signal.number() as usize, 0, 0, 0],
        ) == 0
    }
}

/// Whether a process has ended, be it reaped or not.
pub(super) fn has_ended(handle: BorrowedFd<'_>) -> bool {
    let mut polled = [rustix::event::PollFd::from_borrowed_fd(handle, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut polled, Some(&rustix::event::Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Sends a signal to a process group; returns whether a process received it.
pub(super) fn send_to_group(leader: i32, signal: Signal) -> bool {
    // SAFETY: passes two numbers.
    unsafe { call(libc::SYS_kill as usize, [-leader as usize, signal.number() as usize, 0, 0, 0]) == 0 }
}

/// Ignores a signal from now on.
pub(super) fn ignore(signal: Signal) {
    // SAFETY: no handler is installed.
    unsafe {
        libc::signal(signal.number(), libc::SIG_IGN);
    }
}

/// Returns freed memory to the system. Otherwise the allocator keeps it for later use.
pub(crate) async fn release_memory() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: the call has no requirements; it takes the locks of the allocator.
        let trim = || unsafe { libc::malloc_trim(0) };
        // Fails only while the runtime shuts down.
        let _trimmed: Result<i32, _> = tokio::task::spawn_blocking(trim).await;
    }
}

/// Registers a descriptor with the runtime.
pub(crate) fn watch<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: the registered values own their descriptors and keep them open and unchanged until they are dropped.
    unsafe { AsyncFd::register_with_interest(owner, interest) }.map_err(|error| error.into_parts().1)
}

/// One system call; a negative result is an error number.
///
/// # Safety
/// As for the call itself: pointers must be valid for the kernel's accesses.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn call(number: usize, args: [usize; 5]) -> isize {
    let result: isize;
    // SAFETY: the caller guarantees the arguments; the clobbers are those of the `syscall` instruction.
    unsafe {
        asm!("syscall",
            inlateout("rax") number => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("r10") args[3], in("r8") args[4],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// One system call; a negative result is an error number.
///
/// # Safety
/// As for the call itself: pointers must be valid for the kernel's accesses.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(crate) unsafe fn call(number: usize, args: [usize; 5]) -> isize {
    let result: isize;
    // SAFETY: the caller guarantees the arguments.
    unsafe {
        asm!("svc #0", in("x8") number,
            inlateout("x0") args[0] => result,
            in("x1") args[1], in("x2") args[2], in("x3") args[3], in("x4") args[4], options(nostack));
    }
    result
}

/// Arguments of `clone3`, in the kernel's layout (version 2, with cgroups).
#[repr(C, align(8))]
#[derive(Debug, Default)]
pub(crate) struct CloneArgs {
    pub(crate) flags: u64,
    pub(crate) pidfd: u64,
    pub(crate) child_tid: u64,
    pub(crate) parent_tid: u64,
    pub(crate) exit_signal: u64,
    pub(crate) stack: u64,
    pub(crate) stack_size: u64,
    pub(crate) tls: u64,
    pub(crate) set_tid: u64,
    pub(crate) set_tid_size: u64,
    pub(crate) cgroup: u64,
}

/// `clone3`; the child starts in `entry` on the stack in `args` and must not return from it.
///
/// # Safety
/// The stack and everything that `argument` refers to must stay valid until the child has executed or ended.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
pub(crate) unsafe fn clone3(args: &CloneArgs, entry: extern "C" fn(usize) -> !, argument: usize) -> isize {
    let result: isize;
    // SAFETY: for the parent this is a system call. The child has the same registers and a new, aligned stack.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r12", "call r13", "ud2", "2:",
            inlateout("rax") libc::SYS_clone3 as usize => result,
            in("rdi") core::ptr::from_ref(args), in("rsi") size_of::<CloneArgs>(),
            in("r12") argument, in("r13") entry as usize,
            lateout("rcx") _, lateout("r11") _);
    }
    result
}

/// `clone3`; the child starts in `entry` on the stack in `args` and must not return from it.
///
/// # Safety
/// The stack and everything that `argument` refers to must stay valid until the child has executed or ended.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
pub(crate) unsafe fn clone3(args: &CloneArgs, entry: extern "C" fn(usize) -> !, argument: usize) -> isize {
    let result: isize;
    // SAFETY: for the parent this is a system call. The child has the same registers and a new, aligned stack.
    unsafe {
        asm!("svc #0", "cbnz x0, 2f", "mov x29, xzr", "mov x0, x20", "blr x21", "brk #1", "2:",
            in("x8") libc::SYS_clone3 as usize,
            inlateout("x0") core::ptr::from_ref(args) => result,
            in("x1") size_of::<CloneArgs>(),
            in("x20") argument, in("x21") entry as usize);
    }
    result
}
