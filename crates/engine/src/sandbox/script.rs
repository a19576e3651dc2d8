//! A script of system calls that a short-lived child runs in new namespaces.
//!
//! The child shares memory and descriptors with the daemon, which waits for it: what it opens inside the namespaces is
//! ours afterwards, and keeps them alive. Since it may neither allocate nor fail in its own words, it follows a flat
//! list and tells which call failed.
#![expect(unsafe_code, reason = "a child that shares our memory may use nothing but bare system calls")]

use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::process::sys::{CloneArgs, call, clone3};

/// Room for the child's few frames.
const STACK_BYTES: usize = 32 * 1024;
/// Truncated to nothing in libc, whose constants are of 32 bits.
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;

const OPEN_TREE_CLONE: usize = 1;
const MOVE_FROM_EMPTY: usize = 0x4;
const MOVE_TO_EMPTY: usize = 0x40;
const FS_SET_STRING: usize = 1;
const FS_CREATE: usize = 6;
const CLOSE_ON_EXEC: usize = libc::O_CLOEXEC as usize;
const RECURSIVE: usize = 0x8000;
const EMPTY_PATH: usize = libc::AT_EMPTY_PATH as usize;
const HERE: usize = libc::AT_FDCWD as usize;

/// What a mount forbids.
pub(super) const READ_ONLY: u64 = 0x1;
pub(super) const NO_DEVICES: u64 = 0x4;
pub(super) const NO_PROGRAMS: u64 = 0x8;

/// A descriptor that the script opens.
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

/// What becomes of a call's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    /// It is a descriptor for this slot.
    Opened(usize),
    /// The slot has none any more.
    Closed(usize),
}

/// Calls in their order, and the memory they point to.
#[derive(Debug, Default)]
pub(super) struct SyscallScript {
    calls: Vec<Call>,
    said: Vec<String>,
    slots: usize,
    texts: Vec<CString>,
    words: Vec<Box<[u64]>>,
}

/// Which call of a script failed.
#[derive(Debug, thiserror::Error)]
#[error("could not {what}: {source}")]
pub(super) struct SetupError {
    what: String,
    source: io::Error,
}

impl SetupError {
    /// Something that ought to be there is not.
    pub(super) fn missing(what: &str) -> SetupError {
        SetupError { what: format!("find {what}"), source: io::ErrorKind::NotFound.into() }
    }
}

impl SyscallScript {
    /// Opens a path that has no link in it.
    pub(super) fn open(&mut self, path: &Path) -> DescriptorSlot {
        let flags = (libc::O_PATH | libc::O_CLOEXEC) as u64;
        let how = self.words([flags, 0, libc::RESOLVE_NO_SYMLINKS]);
        let at = self.path(path);
        let arguments = [HERE.into(), at, how, Argument::Value(24), Argument::Value(0)];
        self.make(libc::SYS_openat2, arguments, format!("open {}", path.display()))
    }

    /// Opens a file as it stands.
    pub(super) fn open_file(&mut self, path: &str, flags: i32) -> DescriptorSlot {
        let at = self.path(Path::new(path));
        let flags = Argument::Value((flags | libc::O_CLOEXEC) as usize);
        let arguments = [HERE.into(), at, flags, Argument::Value(0), Argument::Value(0)];
        self.make(libc::SYS_openat, arguments, format!("open {path}"))
    }

    /// Enters a namespace that was made before.
    pub(super) fn enter(&mut self, namespace: i32) {
        let arguments = [(namespace as usize).into(), 0.into(), 0.into(), 0.into(), 0.into()];
        self.step(libc::SYS_setns, arguments, "enter a namespace".to_owned());
    }

    /// Writes `text` to a file in one call.
    pub(super) fn write(&mut self, path: &str, text: &str) {
        let file = self.open_file(path, libc::O_WRONLY);
        let length = Argument::Value(text.len());
        let text = self.path(Path::new(text));
        self.step(libc::SYS_write, [file.into(), text, length, 0.into(), 0.into()], format!("write {path}"));
        // A file that is open for writing keeps its file system from turning read-only.
        self.step(
            libc::SYS_close,
            [file.into(), 0.into(), 0.into(), 0.into(), 0.into()],
            format!("close {path}"),
        );
        if let Some(call) = self.calls.last_mut() {
            call.then = Then::Closed(file.0);
        }
    }

    /// Mounts and unmounts outside come in, none go out.
    pub(super) fn follow_outside(&mut self) {
        let root = self.path(Path::new("/"));
        let flags = (libc::MS_REC | libc::MS_SLAVE) as usize;
        self.step(
            libc::SYS_mount,
            [0.into(), root, 0.into(), flags.into(), 0.into()],
            "set mounts apart".to_owned(),
        );
    }

    /// A copy of the tree of mounts at `at`, not mounted anywhere yet.
    pub(super) fn copy(&mut self, at: DescriptorSlot) -> DescriptorSlot {
        let empty = self.path(Path::new(""));
        let flags = OPEN_TREE_CLONE | CLOSE_ON_EXEC | RECURSIVE | EMPTY_PATH;
        self.make(
            libc::SYS_open_tree,
            [at.into(), empty, flags.into(), 0.into(), 0.into()],
            self.saying("copy the mount of", at),
        )
    }

    /// An empty file system in memory, not mounted anywhere yet.
    pub(super) fn memory(&mut self, options: &[(&str, &str)], forbidden: u64) -> DescriptorSlot {
        let kind = self.path(Path::new("tmpfs"));
        let what = || "make a file system in memory".to_owned();
        let fs = self.make(libc::SYS_fsopen, [kind, 1.into(), 0.into(), 0.into(), 0.into()], what());
        for (name, value) in options {
            let (name, value) = (self.path(Path::new(name)), self.path(Path::new(value)));
            self.step(libc::SYS_fsconfig, [fs.into(), FS_SET_STRING.into(), name, value, 0.into()], what());
        }
        self.step(libc::SYS_fsconfig, [fs.into(), FS_CREATE.into(), 0.into(), 0.into(), 0.into()], what());
        let forbidden = Argument::Value(forbidden as usize);
        self.make(libc::SYS_fsmount, [fs.into(), 1.into(), forbidden, 0.into(), 0.into()], what())
    }

    /// Forbids something for a mount and all below it.
    pub(super) fn forbid(&mut self, mount: DescriptorSlot, what: u64) {
        let empty = self.path(Path::new(""));
        let attributes = self.words([what, 0, 0, 0]);
        let flags = RECURSIVE | EMPTY_PATH;
        self.step(
            libc::SYS_mount_setattr,
            [mount.into(), empty, flags.into(), attributes, 32.into()],
            self.saying("restrict the mount of", mount),
        );
    }

    /// Mounts what is not mounted yet.
    pub(super) fn mount(&mut self, mount: DescriptorSlot, onto: DescriptorSlot) {
        let empty = self.path(Path::new(""));
        let flags = MOVE_FROM_EMPTY | MOVE_TO_EMPTY;
        self.step(
            libc::SYS_move_mount,
            [mount.into(), empty, onto.into(), empty, flags.into()],
            self.saying("mount over what came of", onto),
        );
    }

    /// Switches on the loopback device of a new network.
    pub(super) fn loopback(&mut self) {
        let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as usize;
        let what = || "switch on the loopback device".to_owned();
        let socket = self.make(
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

    /// Runs the script in new namespaces of these kinds, if any; every descriptor it opened.
    pub(super) fn run(self, namespaces: i32) -> Result<Vec<Option<OwnedFd>>, SetupError> {
        let mut slots = vec![-1i32; self.slots];
        let mut job = Job {
            calls: self.calls.as_ptr(),
            count: self.calls.len(),
            slots: slots.as_mut_ptr(),
            done: 0,
            errno: 0,
        };
        let born = run_child(&mut job, namespaces as u64);
        let (done, errno) = (job.done, job.errno);
        // SAFETY: each was opened by the child in the table of descriptors it shared with us, for nobody else.
        let own = |fd: i32| (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) });
        let opened: Vec<Option<OwnedFd>> = slots.into_iter().map(own).collect();
        born.map_err(|source| SetupError { what: "make namespaces".to_owned(), source })?;
        if done == self.calls.len() {
            return Ok(opened);
        }
        let what = self.said.get(done).cloned().unwrap_or_default();
        Err(SetupError { what, source: io::Error::from_raw_os_error(errno) })
    }

    fn make(&mut self, number: i64, arguments: [Argument; 5], what: String) -> DescriptorSlot {
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
        self.said.push(what);
    }

    /// Words about a slot: those of the call that opened it.
    fn saying(&self, what: &str, slot: DescriptorSlot) -> String {
        let opened = self.calls.iter().position(|call| call.then == Then::Opened(slot.0));
        let opened = opened.and_then(|index| self.said.get(index)).map_or("", String::as_str);
        format!("{what} {}", opened.trim_start_matches("open "))
    }

    /// A string without NUL, which no path has that was opened before.
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
    /// Takes its descriptor out of what a run opened.
    pub(super) fn take(self, opened: &mut [Option<OwnedFd>]) -> io::Result<OwnedFd> {
        opened.get_mut(self.0).and_then(Option::take).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// How often a call is tried that finds something busy.
const MOST_TRIES: usize = 10_000;

/// What the child works on.
struct Job {
    calls: *const Call,
    count: usize,
    slots: *mut i32,
    /// Calls that succeeded.
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
    // SAFETY: this thread waits until the child has ended, so stack and job outlive it.
    let result = unsafe { clone3(&args, follow, job) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-(result as i32)));
    }
    // SAFETY: the kernel just made it, and nobody else knows it.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let handle = rustix::process::WaitId::PidFd(std::os::fd::AsFd::as_fd(&pidfd));
    // Somebody who reaps orphans may have been quicker.
    let _reaped = rustix::process::waitid(handle, rustix::process::WaitIdOptions::EXITED);
    drop(stack);
    Ok(())
}

extern "C" fn follow(job: usize) -> ! {
    // SAFETY: the parent waits, and keeps job, calls and slots; every pointer among the arguments leads into memory of
    // the script. Slots are named only by calls that come after the one that fills them.
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
            let mut result = call(next.number, arguments);
            let mut tries = 0;
            // A mount that somebody writes to in this very moment cannot be made read-only; soon it can.
            while result as i32 == -libc::EBUSY && tries < MOST_TRIES {
                call(libc::SYS_sched_yield as usize, [0; 5]);
                result = call(next.number, arguments);
                tries += 1;
            }
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
