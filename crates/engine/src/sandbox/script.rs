//! A list of system calls that a short-lived child runs in new namespaces.
//!
//! The child shares memory and descriptors with the daemon, which waits for it: descriptors that it opens inside the
//! namespaces belong to the daemon afterwards and keep the namespaces alive. The child must not allocate memory, so it runs
//! a flat list and reports the index of the call that failed.
#![expect(unsafe_code, reason = "a child that shares memory with its parent may only make system calls")]

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::process::sys::{CloneArgs, call, clone3};

/// Stack of the child.
const STACK_BYTES: usize = 32 * 1024;
/// libc defines its constants as 32 bits, which do not hold this flag.
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;

const OPEN_TREE_CLONE: usize = 1;
const MOVE_FROM_EMPTY: usize = 0x4;
const MOVE_TO_EMPTY: usize = 0x40;
const FS_SET_STRING: usize = 1;
const FS_CREATE: usize = 6;
const CLOSE_ON_EXEC: usize = libc::O_CLOEXEC as usize;
const RECURSIVE: usize = 0x8000;
const EMPTY_PATH: usize = libc::AT_EMPTY_PATH as usize;
const DIRECTORY_MODE: usize = 0o755;
const HERE: usize = libc::AT_FDCWD as usize;

/// Attributes of a mount.
pub(super) const READ_ONLY: u64 = 0x1;
pub(super) const NO_DEVICES: u64 = 0x4;
pub(super) const NO_PROGRAMS: u64 = 0x8;

/// Index of a descriptor that the script opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DescriptorSlot(usize);

#[derive(Debug, Clone, Copy)]
enum Argument {
    Value(usize),
    Slot(usize),
}

#[derive(Debug)]
struct Call {
    number: usize,
    arguments: [Argument; 5],
    then: Then,
}

/// Use of the result of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    /// Stored in this slot as a descriptor.
    Opened(usize),
    /// The descriptor of this slot was closed.
    Closed(usize),
}

/// Calls in order, and the memory that their arguments point to.
#[derive(Debug, Default)]
pub(super) struct SyscallScript {
    calls: Vec<Call>,
    descriptions: Vec<String>,
    slots: usize,
    texts: Vec<CString>,
    words: Vec<Box<[u64]>>,
}

/// The call of a script that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub(super) struct SetupError {
    what: String,
    source: io::Error,
}

impl SetupError {
    /// An expected descriptor is missing.
    pub(super) fn missing(what: &str) -> SetupError {
        SetupError { what: format!("find {what}"), source: io::ErrorKind::NotFound.into() }
    }
}

impl SyscallScript {
    /// Opens a path; fails if it contains a symbolic link.
    pub(super) fn open(&mut self, path: &Path) -> DescriptorSlot {
        let flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
        let how = self.words([flags, 0, libc::RESOLVE_NO_SYMLINKS]);
        let at = self.path(path);
        let arguments = [HERE.into(), at, how, Argument::Value(24), Argument::Value(0)];
        self.open_with(libc::SYS_openat2, arguments, format!("open {}", path.display()))
    }

    /// Opens a file by path.
    pub(super) fn open_file(&mut self, path: &str, flags: i32) -> DescriptorSlot {
        let at = self.path(Path::new(path));
        let flags = Argument::Value((flags | libc::O_CLOEXEC) as usize);
        let arguments = [HERE.into(), at, flags, Argument::Value(0), Argument::Value(0)];
        self.open_with(libc::SYS_openat, arguments, format!("open {path}"))
    }

    /// Enters an existing namespace.
    pub(super) fn enter(&mut self, namespace: i32) {
        let arguments = [(namespace as usize).into(), 0.into(), 0.into(), 0.into(), 0.into()];
        self.step(libc::SYS_setns, arguments, "enter a namespace".to_owned());
    }

    /// Writes `text` to a file below an open directory in one call.
    pub(super) fn write(&mut self, directory: i32, path: &str, text: &str) {
        let at = self.path(Path::new(path));
        let flags = Argument::Value((libc::O_WRONLY | libc::O_CLOEXEC) as usize);
        let arguments = [(directory as usize).into(), at, flags, Argument::Value(0), Argument::Value(0)];
        let file = self.open_with(libc::SYS_openat, arguments, format!("open {path}"));
        let length = Argument::Value(text.len());
        let text = self.path(Path::new(text));
        self.step(libc::SYS_write, [file.into(), text, length, 0.into(), 0.into()], format!("write {path}"));
        self.step(
            libc::SYS_close,
            [file.into(), 0.into(), 0.into(), 0.into(), 0.into()],
            format!("close {path}"),
        );
        if let Some(call) = self.calls.last_mut() {
            call.then = Then::Closed(file.0);
        }
    }

    /// Ends the propagation of mounts in both directions: a later mount from outside would be writable and cover what is
    /// hidden or read-only.
    pub(super) fn keep_mounts(&mut self) {
        let root = self.path(Path::new("/"));
        let flags = (libc::MS_REC | libc::MS_PRIVATE) as usize;
        self.step(
            libc::SYS_mount,
            [0.into(), root, 0.into(), flags.into(), 0.into()],
            "change the propagation of mounts".to_owned(),
        );
    }

    /// A detached copy of the mount tree at `at`.
    pub(super) fn copy(&mut self, at: DescriptorSlot) -> DescriptorSlot {
        let empty = self.path(Path::new(""));
        let flags = OPEN_TREE_CLONE | CLOSE_ON_EXEC | RECURSIVE | EMPTY_PATH;
        self.open_with(
            libc::SYS_open_tree,
            [at.into(), empty, flags.into(), 0.into(), 0.into()],
            self.describe("copy the mount of", at),
        )
    }

    /// A detached, empty tmpfs.
    pub(super) fn memory(&mut self, options: &[(&str, &str)], forbidden: u64) -> DescriptorSlot {
        let kind = self.path(Path::new("tmpfs"));
        let what = || "create a tmpfs".to_owned();
        let fs = self.open_with(libc::SYS_fsopen, [kind, 1.into(), 0.into(), 0.into(), 0.into()], what());
        for (name, value) in options {
            let (name, value) = (self.path(Path::new(name)), self.path(Path::new(value)));
            self.step(libc::SYS_fsconfig, [fs.into(), FS_SET_STRING.into(), name, value, 0.into()], what());
        }
        self.step(libc::SYS_fsconfig, [fs.into(), FS_CREATE.into(), 0.into(), 0.into(), 0.into()], what());
        let forbidden = Argument::Value(forbidden as usize);
        self.open_with(libc::SYS_fsmount, [fs.into(), 1.into(), forbidden, 0.into(), 0.into()], what())
    }

    /// Creates a directory in a mount.
    pub(super) fn directory(&mut self, mount: DescriptorSlot, path: &Path) {
        let at = self.path(path);
        let arguments = [mount.into(), at, DIRECTORY_MODE.into(), 0.into(), 0.into()];
        self.step(libc::SYS_mkdirat, arguments, format!("create {}", path.display()));
    }

    /// Sets attributes of a mount and of all mounts below it.
    pub(super) fn forbid(&mut self, mount: DescriptorSlot, what: u64) {
        let empty = self.path(Path::new(""));
        let attributes = self.words([what, 0, 0, 0]);
        let flags = RECURSIVE | EMPTY_PATH;
        self.step(
            libc::SYS_mount_setattr,
            [mount.into(), empty, flags.into(), attributes, 32.into()],
            self.describe("restrict the mount of", mount),
        );
    }

    /// Attaches a detached mount.
    pub(super) fn mount(&mut self, mount: DescriptorSlot, onto: DescriptorSlot) {
        let empty = self.path(Path::new(""));
        let flags = MOVE_FROM_EMPTY | MOVE_TO_EMPTY;
        self.step(
            libc::SYS_move_mount,
            [mount.into(), empty, onto.into(), empty, flags.into()],
            self.describe("mount over", onto),
        );
    }

    /// Enables the loopback device of a new network namespace.
    pub(super) fn loopback(&mut self) {
        let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as usize;
        let what = || "enable the loopback device".to_owned();
        let socket = self.open_with(
            libc::SYS_socket,
            [(libc::AF_INET as usize).into(), kind.into(), 0.into(), 0.into(), 0.into()],
            what(),
        );
        let name = u64::from_ne_bytes(*b"lo\0\0\0\0\0\0");
        let flags = (libc::IFF_UP | libc::IFF_RUNNING) as u16;
        let [low, high] = flags.to_ne_bytes();
        // The kernel's `struct ifreq`: sixteen bytes of name, then the flags.
        let request = self.words([name, 0, u64::from_ne_bytes([low, high, 0, 0, 0, 0, 0, 0]), 0, 0]);
        let set = Argument::Value(libc::SIOCSIFFLAGS as usize);
        self.step(libc::SYS_ioctl, [socket.into(), set, request, 0.into(), 0.into()], what());
    }

    /// Runs the script in new namespaces of these kinds, if any, and returns the descriptors that it opened.
    pub(super) fn run(self, namespaces: i32) -> Result<Vec<Option<OwnedFd>>, SetupError> {
        let mut slots = vec![-1i32; self.slots];
        let mut job = Job {
            calls: self.calls.as_ptr(),
            count: self.calls.len(),
            slots: slots.as_mut_ptr(),
            done: 0,
            errno: 0,
        };
        let started = run_child(&mut job, namespaces as u64);
        let (done, errno) = (job.done, job.errno);
        // SAFETY: the child opened each in the shared descriptor table, and nothing else owns it.
        let own = |fd: i32| (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) });
        let opened: Vec<Option<OwnedFd>> = slots.into_iter().map(own).collect();
        started.map_err(|source| SetupError { what: "create namespaces".to_owned(), source })?;
        if done == self.calls.len() {
            return Ok(opened);
        }
        let what = self.descriptions.get(done).cloned().unwrap_or_default();
        Err(SetupError { what, source: io::Error::from_raw_os_error(errno) })
    }

    fn open_with(&mut self, number: i64, arguments: [Argument; 5], what: String) -> DescriptorSlot {
        let slot = self.slots;
        self.slots += 1;
        self.step(number, arguments, what);
        if let Some(call) = self.calls.last_mut() {
            call.then = Then::Opened(slot);
        }
        DescriptorSlot(slot)
    }

    fn step(&mut self, number: i64, arguments: [Argument; 5], what: String) {
        self.calls.push(Call { number: number as usize, arguments, then: Then::Nothing });
        self.descriptions.push(what);
    }

    /// A description of a call on a slot, with the path that the slot was opened from.
    fn describe(&self, what: &str, slot: DescriptorSlot) -> String {
        let opened = self.calls.iter().position(|call| call.then == Then::Opened(slot.0));
        let opened = opened.and_then(|index| self.descriptions.get(index)).map_or("", String::as_str);
        format!("{what} {}", opened.trim_start_matches("open "))
    }

    /// A pointer to a C string that the script owns. Paths contain no NUL.
    fn path(&mut self, path: &Path) -> Argument {
        let text = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        let pointer = text.as_ptr() as usize;
        self.texts.push(text);
        Argument::Value(pointer)
    }

    fn words<const N: usize>(&mut self, words: [u64; N]) -> Argument {
        let words: Box<[u64]> = Box::new(words);
        let pointer = words.as_ptr() as usize;
        self.words.push(words);
        Argument::Value(pointer)
    }
}

impl From<usize> for Argument {
    fn from(value: usize) -> Argument {
        Argument::Value(value)
    }
}

impl From<DescriptorSlot> for Argument {
    fn from(slot: DescriptorSlot) -> Argument {
        Argument::Slot(slot.0)
    }
}

impl DescriptorSlot {
    /// Takes its descriptor from the result of a run.
    pub(super) fn take(self, opened: &mut [Option<OwnedFd>]) -> io::Result<OwnedFd> {
        opened.get_mut(self.0).and_then(Option::take).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Shared state of parent and child.
struct Job {
    calls: *const Call,
    count: usize,
    slots: *mut i32,
    /// Number of calls that succeeded.
    done: usize,
    errno: i32,
}

fn run_child(job: &mut Job, namespaces: u64) -> io::Result<()> {
    let stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
    let mut pidfd: i32 = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::CLONE_PIDFD;
    let args = CloneArgs {
        flags: flags as u64 | CLONE_CLEAR_SIGHAND | namespaces,
        pidfd: std::ptr::from_mut(&mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.as_ptr() as u64,
        stack_size: STACK_BYTES as u64,
        ..CloneArgs::default()
    };
    let job = std::ptr::from_mut(job) as usize;
    // SAFETY: this thread waits until the child has ended, so `stack` and `job` outlive it.
    let result = unsafe { clone3(&args, run_calls, job) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-(result as i32)));
    }
    // SAFETY: the kernel just created it, and nothing else owns it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let handle = rustix::process::WaitId::PidFd(std::os::fd::AsFd::as_fd(&pidfd));
    // A task that reaps orphans may have reaped it already.
    let _reaped = rustix::process::waitid(handle, rustix::process::WaitIdOptions::EXITED);
    drop(stack);
    Ok(())
}

extern "C" fn run_calls(job: usize) -> ! {
    // SAFETY: the parent waits and keeps job, calls and slots alive; every pointer among the arguments refers to memory of
    // the script. A slot is only used by calls after the one that fills it.
    unsafe {
        let job = &mut *(job as *mut Job);
        while job.done < job.count {
            let next = &*job.calls.add(job.done);
            let mut arguments = [0; 5];
            let mut index = 0;
            while index < 5 {
                arguments[index] = match next.arguments[index] {
                    Argument::Value(value) => value,
                    Argument::Slot(slot) => *job.slots.add(slot) as usize,
                };
                index += 1;
            }
            let result = call(next.number, arguments);
            if result < 0 {
                job.errno = -(result as i32);
                break;
            }
            match next.then {
                Then::Nothing => {}
                Then::Opened(slot) => *job.slots.add(slot) = result as i32,
                Then::Closed(slot) => *job.slots.add(slot) = -1,
            }
            job.done += 1;
        }
        loop {
            call(libc::SYS_exit_group as usize, [0; 5]);
        }
    }
}
