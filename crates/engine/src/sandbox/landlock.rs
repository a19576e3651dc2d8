//! Landlock rulesets: allowed access to files below directories and to TCP ports.
#![expect(unsafe_code, reason = "Landlock's calls have no safe interface")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Access rights to files as bits of the kernel ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileRights(u64);

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
/// Rights of ABI version 1.
const FIRST: u64 = (1 << 13) - 1;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEVICE: u64 = 1 << 15;
/// Rights that apply to files other than directories.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE;

const BIND: u64 = 1;
const CONNECT: u64 = 1 << 1;
const SCOPE_ABSTRACT: u64 = 1;
const SCOPE_SIGNAL: u64 = 1 << 1;
const ASK_VERSION: u32 = 1;
const RULE_BENEATH: u32 = 1;
const RULE_PORT: u32 = 2;

impl FileRights {
    /// Lists directories.
    pub(super) const LIST: FileRights = FileRights(READ_DIR);
    /// Reads and executes.
    pub(super) const READ: FileRights = FileRights(EXECUTE | READ_FILE | READ_DIR);
    /// Uses a device.
    pub(super) const DEVICE: FileRights =
        FileRights(READ_FILE | WRITE_FILE | READ_DIR | TRUNCATE | IOCTL_DEVICE);
    /// All rights except creating devices.
    pub(super) const WRITE: FileRights =
        FileRights((FIRST | REFER | TRUNCATE | IOCTL_DEVICE) & !MAKE_CHAR & !MAKE_BLOCK);
}

/// Accesses that a ruleset handles; those that no rule allows are refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandledAccess {
    /// ABI version; newer rights are not used.
    pub(super) version: u32,
    pub(super) ports: bool,
    pub(super) abstract_sockets: bool,
}

impl HandledAccess {
    fn files(self) -> u64 {
        let since = |version, right| if self.version >= version { right } else { 0 };
        FIRST | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEVICE)
    }

    fn net(self) -> u64 {
        if self.ports && self.version >= 4 { BIND | CONNECT } else { 0 }
    }

    fn scopes(self) -> u64 {
        let sockets = if self.abstract_sockets { SCOPE_ABSTRACT } else { 0 };
        if self.version >= 6 { SCOPE_SIGNAL | sockets } else { 0 }
    }
}

/// A ruleset that a process can apply to itself.
#[derive(Debug)]
pub(super) struct Ruleset {
    fd: OwnedFd,
    handled: HandledAccess,
}

#[repr(C)]
struct RulesetAttributes {
    files: u64,
    net: u64,
    scopes: u64,
}

#[repr(C, packed)]
struct Beneath {
    rights: u64,
    parent: i32,
}

#[repr(C)]
struct Port {
    rights: u64,
    port: u64,
}

/// ABI version of this kernel, if Landlock is enabled.
pub(super) fn version() -> Option<u32> {
    let none = std::ptr::null::<u8>();
    // SAFETY: with this flag the kernel reads no memory.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0usize, ASK_VERSION) };
    u32::try_from(version).ok().filter(|version| *version > 0)
}

impl Ruleset {
    pub(super) fn new(handled: HandledAccess) -> io::Result<Ruleset> {
        let attributes =
            RulesetAttributes { files: handled.files(), net: handled.net(), scopes: handled.scopes() };
        // Older kernels have a shorter structure.
        let size = match handled.version {
            0..4 => 8usize,
            4..6 => 16,
            _ => 24,
        };
        let pointer = std::ptr::from_ref(&attributes);
        // SAFETY: reads `size` bytes of the structure, which is at least as long.
        let fd = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, pointer, size, 0u32) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the kernel just created this descriptor, and nothing else owns it.
        Ok(Ruleset { fd: unsafe { OwnedFd::from_raw_fd(fd) }, handled })
    }

    /// Allows `rights` on a file, or on a directory and everything below it.
    pub(super) fn allow(&self, beneath: BorrowedFd<'_>, rights: FileRights) -> io::Result<()> {
        let stat = rustix::fs::fstat(beneath)?;
        let is_directory = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_dir();
        let possible = if is_directory { u64::MAX } else { OF_FILES };
        let rights = rights.0 & self.handled.files() & possible;
        let rule = Beneath { rights, parent: beneath.as_raw_fd() };
        self.add(RULE_BENEATH, std::ptr::from_ref(&rule).cast())
    }

    /// Allows TCP connections to a port, or listening on it.
    pub(super) fn allow_port(&self, port: u16, connect: bool) -> io::Result<()> {
        let rights = if connect { CONNECT } else { BIND } & self.handled.net();
        if rights == 0 {
            return Ok(());
        }
        let rule = Port { rights, port: port.into() };
        self.add(RULE_PORT, std::ptr::from_ref(&rule).cast())
    }

    pub(super) fn raw(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    fn add(&self, kind: u32, rule: *const u8) -> io::Result<()> {
        // SAFETY: both callers pass the structure of this kind, which outlives the call.
        let result =
            unsafe { libc::syscall(libc::SYS_landlock_add_rule, self.fd.as_raw_fd(), kind, rule, 0u32) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }
}
