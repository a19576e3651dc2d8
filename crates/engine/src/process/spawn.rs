//! Starts a child with `clone3`: without copying the address space, directly in its cgroup, without waiting for its exec.
//!
//! `posix_spawn` blocks the calling thread until the child has executed. Here the parent continues at once and reads the
//! outcome from a pipe that closes on exec, so that one thread starts many commands concurrently and a slow file system
//! delays only the command that uses it. In return, the stack and the instructions of the child must stay valid until its
//! exec; [`PendingExec`] owns them.
#![expect(unsafe_code, reason = "clone3 and the memory it shares with the child have no safe interface")]

use std::ffi::{CString, OsStr, OsString, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::pipe::PipeFlags;
use rustix::process::Pid;

use super::child::{self, ChildInstructions, SessionMode};
use super::limits::{MAX_JOINED_GROUPS, Rlimit};
use super::open_files;
use super::sys::{self, CloneArgs};
use crate::sandbox;

/// Size of the child's stack. Pages that it does not use are never allocated.
const STACK_BYTES: usize = 64 * 1024;
/// Maximal number of stacks kept for later starts.
const MAX_FREE_STACKS: usize = 64;
/// The constant of the same name in libc is truncated to 32 bits, to 0.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
/// Resets signal handlers in the child, but not ignored signals. Truncated in libc as well.
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

static FREE_STACKS: Mutex<Vec<Stack>> = Mutex::new(Vec::new());

/// The program to execute, its streams and its restrictions.
#[derive(Debug)]
pub(super) struct SpawnRequest<'a> {
    pub(super) argv: &'a [String],
    /// Replaces the first of these as `argv[0]`.
    pub(super) arg0: Option<&'a str>,
    pub(super) env: &'a [(OsString, OsString)],
    /// One more variable, which replaces any other with its name.
    pub(super) mark: Option<(&'a str, &'a str)>,
    pub(super) cwd: BorrowedFd<'a>,
    pub(super) stdio: [BorrowedFd<'a>; 3],
    /// Descriptors that the program inherits beside the standard streams.
    pub(super) inherited: [Option<BorrowedFd<'a>>; 2],
    pub(super) session_mode: SessionMode,
    pub(super) cgroup: Option<BorrowedFd<'a>>,
    /// `tasks` files of cgroups for the child to join.
    pub(super) joins: [Option<BorrowedFd<'a>>; MAX_JOINED_GROUPS],
    /// Resource limits for the child to set.
    pub(super) rlimits: &'a [Rlimit],
    /// Whether the kernel kills the child when the thread that creates it ends.
    pub(super) dies_with_parent: bool,
    /// The sandbox.
    pub(super) confined: Option<&'a Arc<sandbox::PreparedSandbox>>,
}

/// Why a child could not be started.
#[derive(Debug)]
pub(super) enum SpawnError {
    /// The kernel refused to create it or to execute its program.
    Refused(io::Error),
    /// It could not enter its sandbox.
    Unconfined(sandbox::ConfinementStep, io::Error),
}

/// A child that exists and may not have executed yet.
#[derive(Debug)]
pub(super) struct SpawnedChild {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    pub(super) pending: PendingExec,
}

/// Clones the child. Returns as soon as it exists; [`PendingExec`] reports whether it could execute its program.
pub(super) fn start(start: &SpawnRequest<'_>) -> io::Result<SpawnedChild> {
    let strings = Strings::new(start)?;
    let (status_read, status_write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let mut memory = Box::new(Memory {
        instructions: strings.instructions(start, status_write.as_raw_fd()),
        confined: start
            .confined
            .map(|prepared| sandbox::ChildConfinement::new(prepared.clone(), start.cwd))
            .transpose()?,
        strings,
        rlimits: start.rlimits.to_vec(),
        stack: Stack::new(),
    });
    memory.instructions.candidates = memory.strings.candidates.as_ptr();
    memory.instructions.argv = memory.strings.argv.as_ptr();
    memory.instructions.script_argv = memory.strings.script_argv.as_mut_ptr();
    memory.instructions.envp = memory.strings.envp.as_ptr();
    memory.instructions.rlimits = memory.rlimits.as_ptr();
    memory.instructions.confined = memory.confined.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let (pid, pidfd) = clone(&mut memory, start.cgroup)?;
    Ok(SpawnedChild { pid, pidfd, pending: PendingExec { status: status_read, memory: Some(memory) } })
}

/// The memory that a child uses until exec, and the pipe that reports the exec.
///
/// Dropping it before the exec leaks the memory on purpose: the child may still use it.
#[derive(Debug)]
pub(super) struct PendingExec {
    status: OwnedFd,
    memory: Option<Box<Memory>>,
}

impl PendingExec {
    /// Reads the outcome of the exec; `WouldBlock` as long as there is none.
    pub(super) fn outcome(&mut self) -> io::Result<Result<(), SpawnError>> {
        let mut report = [0; 8];
        let count = rustix::io::read(&self.status, &mut report)?;
        // The child has executed or ended: it does not use the memory any more.
        drop(self.memory.take());
        let [a, b, c, d, step @ ..] = report;
        if count < report.len() {
            return Ok(Ok(()));
        }
        let error = io::Error::from_raw_os_error(i32::from_ne_bytes([a, b, c, d]));
        Ok(Err(match sandbox::ConfinementStep::from_number(i32::from_ne_bytes(step)) {
            Some(step) => SpawnError::Unconfined(step, error),
            None => SpawnError::Refused(error),
        }))
    }
}

impl AsRawFd for PendingExec {
    fn as_raw_fd(&self) -> RawFd {
        self.status.as_raw_fd()
    }
}

impl Drop for PendingExec {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            Box::leak(memory);
        }
    }
}

#[derive(Debug)]
struct Memory {
    instructions: ChildInstructions,
    confined: Option<sandbox::ChildConfinement>,
    strings: Strings,
    rlimits: Vec<Rlimit>,
    stack: Stack,
}

// SAFETY: the pointers refer to this box or to heap memory that it owns; only the child has copies of them.
unsafe impl Send for Memory {}

/// The strings for the kernel and the null-terminated lists that point into them.
#[derive(Debug)]
struct Strings {
    candidates: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    script_argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    _owned: Vec<CString>,
}

impl Strings {
    fn new(start: &SpawnRequest<'_>) -> io::Result<Strings> {
        let mut owned = Vec::with_capacity(start.argv.len() + start.env.len() + 12);
        let mut keep = |bytes: Vec<u8>| -> io::Result<*const c_char> {
            let string = CString::new(bytes).map_err(|_nul| io::Error::from(io::ErrorKind::InvalidInput))?;
            let pointer = string.as_ptr();
            owned.push(string);
            Ok(pointer)
        };
        let mut argv = Vec::with_capacity(start.argv.len() + 1);
        for (index, argument) in start.argv.iter().enumerate() {
            let argument = start.arg0.filter(|_| index == 0).unwrap_or(argument);
            argv.push(keep(argument.as_bytes().to_vec())?);
        }
        let mut envp = Vec::with_capacity(start.env.len() + 2);
        // A client may have copied the mark of another command.
        let is_mark = |name: &OsString| start.mark.is_some_and(|(mark, _)| name == mark);
        let others = start.env.iter().filter(|(name, _)| !is_mark(name));
        let others = others.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let mark = start.mark.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        for (name, value) in others.chain(mark) {
            // With the equals sign and the terminating NUL.
            let mut pair = Vec::with_capacity(name.len() + value.len() + 2);
            pair.extend_from_slice(name);
            pair.push(b'=');
            pair.extend_from_slice(value);
            envp.push(keep(pair)?);
        }
        let mut candidates = Vec::new();
        for path in search(start.argv, start.env) {
            candidates.push(keep(path.into_vec())?);
        }
        let mut script_argv = vec![keep(b"/bin/sh".to_vec())?, std::ptr::null()];
        script_argv.extend(argv.iter().skip(1));
        for list in [&mut candidates, &mut argv, &mut script_argv, &mut envp] {
            list.push(std::ptr::null());
        }
        Ok(Strings { candidates, argv, script_argv, envp, _owned: owned })
    }

    fn instructions(&self, start: &SpawnRequest<'_>, status: RawFd) -> ChildInstructions {
        ChildInstructions {
            candidates: self.candidates.as_ptr(),
            argv: self.argv.as_ptr(),
            script_argv: std::ptr::null_mut(),
            envp: self.envp.as_ptr(),
            stdio: start.stdio.map(|fd| fd.as_raw_fd()),
            inherited: start.inherited.map(|fd| fd.map_or(-1, |fd| fd.as_raw_fd())),
            cwd: start.cwd.as_raw_fd(),
            session_mode: start.session_mode,
            reset: ignored_signals(),
            dies_with_parent: start.dies_with_parent,
            open_files: open_files::of_children().map_or(std::ptr::null(), |limit| limit.as_ptr()),
            joins: start.joins.map(|fd| fd.map_or(-1, |fd| fd.as_raw_fd())),
            rlimits: std::ptr::null(),
            rlimit_count: start.rlimits.len(),
            confined: std::ptr::null(),
            status,
        }
    }
}

impl From<io::Error> for SpawnError {
    fn from(error: io::Error) -> SpawnError {
        SpawnError::Refused(error)
    }
}

impl From<SpawnError> for io::Error {
    fn from(reason: SpawnError) -> io::Error {
        let (SpawnError::Refused(error) | SpawnError::Unconfined(_, error)) = reason;
        error
    }
}

/// The signals that this process ignores, which a child would inherit. They do not change after the daemon has started.
fn ignored_signals() -> u64 {
    static IGNORED: OnceLock<u64> = OnceLock::new();
    *IGNORED.get_or_init(|| {
        (1..=64).filter(|signal| is_ignored(*signal)).fold(0, |all, one| all | 1 << (one - 1))
    })
}

/// Whether this process ignores a signal. One call per signal is faster than reading `/proc`.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: a zeroed `sigaction` is valid, and the call only reads the current one.
    unsafe {
        let mut found: libc::sigaction = std::mem::zeroed();
        // If the call fails, assume that it is ignored: the child then resets it, which is always correct.
        libc::sigaction(signal, std::ptr::null(), &mut found) != 0 || found.sa_sigaction == libc::SIG_IGN
    }
}

/// The paths at which the program may be, in the order of the child's `PATH`.
pub(super) fn search(argv: &[String], env: &[(OsString, OsString)]) -> Vec<OsString> {
    let Some(program) = argv.first() else { return Vec::new() };
    if program.contains('/') {
        return vec![program.into()];
    }
    if program.is_empty() {
        return Vec::new();
    }
    let path = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let path = path.unwrap_or(OsStr::new(DEFAULT_PATH));
    path.as_bytes()
        .split(|byte| *byte == b':')
        .map(|dir| {
            let dir = if dir.is_empty() { b"." } else { dir };
            OsString::from_vec([dir, b"/", program.as_bytes()].concat())
        })
        .collect()
}

fn clone(memory: &mut Memory, cgroup: Option<BorrowedFd<'_>>) -> io::Result<(Pid, OwnedFd)> {
    let blocked = BlockedSignals::all();
    let instructions = std::ptr::from_mut(&mut memory.instructions) as usize;
    let mut pidfd: RawFd = -1;
    let mut flags = libc::CLONE_VM as u64 | libc::CLONE_PIDFD as u64 | CLONE_CLEAR_SIGHAND;
    if cgroup.is_some() {
        flags |= CLONE_INTO_CGROUP;
    }
    let args = CloneArgs {
        flags,
        pidfd: std::ptr::from_mut(&mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        stack: memory.stack.base() as u64,
        stack_size: STACK_BYTES as u64,
        cgroup: cgroup.map_or(0, |fd| fd.as_raw_fd() as u64),
        ..CloneArgs::default()
    };
    // SAFETY: stack and instructions live in `memory`, which the caller keeps until the child has executed or ended.
    let result = unsafe { sys::clone3(&args, child::main, instructions) };
    let result = if result == -(libc::ENOSYS as isize) && cgroup.is_none() {
        memory.instructions.reset = u64::MAX;
        // SAFETY: as above.
        unsafe { clone_without_clone3(memory, instructions, &mut pidfd) }
    } else {
        result
    };
    drop(blocked);
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-(result as i32)));
    }
    let pid = i32::try_from(result).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    // SAFETY: the kernel has created this descriptor, and nothing else uses it.
    Ok((pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
}

/// `clone`, for containers whose seccomp filter returns ENOSYS for `clone3`. It does the same, except for cgroups.
///
/// # Safety
/// As for `sys::clone3`.
unsafe fn clone_without_clone3(memory: &Memory, instructions: usize, pidfd: &mut RawFd) -> isize {
    extern "C" fn entry(instructions: *mut libc::c_void) -> libc::c_int {
        child::main(instructions as usize)
    }
    let flags = libc::CLONE_VM | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: the stack top is inside the allocation; the caller guarantees the rest.
    let pid = unsafe {
        let top = memory.stack.base().add(STACK_BYTES);
        libc::clone(entry, top.cast(), flags, instructions as *mut libc::c_void, std::ptr::from_mut(pidfd))
    };
    if pid < 0 {
        -(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN) as isize)
    } else {
        pid as isize
    }
}

/// Blocks all signals of this thread until it is dropped: a handler must not run in the child, on shared memory.
struct BlockedSignals(libc::sigset_t);

impl BlockedSignals {
    fn all() -> BlockedSignals {
        // SAFETY: plain old data, filled by the calls before it is read.
        unsafe {
            let mut every: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut every);
            libc::pthread_sigmask(libc::SIG_SETMASK, &every, &mut before);
            BlockedSignals(before)
        }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: restores the mask this thread had.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut());
        }
    }
}

/// The stack of a child, taken from a pool and returned to it. It is not zeroed: a child uses few of its pages, and writing
/// to all of them takes a tenth of the time of a start.
#[derive(Debug)]
struct Stack(Box<[MaybeUninit<u128>]>);

impl Stack {
    fn new() -> Stack {
        let kept = FREE_STACKS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| Stack(Box::new_uninit_slice(STACK_BYTES / size_of::<u128>())))
    }

    fn base(&self) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast()
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let mut free = FREE_STACKS.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < MAX_FREE_STACKS && !self.0.is_empty() {
            free.push(Stack(std::mem::take(&mut self.0)));
        }
    }
}
