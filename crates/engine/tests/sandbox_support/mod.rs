//! A directory with a workspace, files outside it and processes to attack; and the attacks.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use engine::process::ProcessSpec;
use engine::sandbox::{Confinement, Profile, ProtectedPaths};

use crate::support;

/// What nobody inside may read.
pub const SECRET: &str = "the-secret-of-the-state-directory";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Must {
    Fail,
    Work,
    /// Works under a profile that can write, and must fail under one that cannot.
    WorkWhereItMayWrite,
}

/// A script that ends with 0 exactly if it could do what its name says.
pub struct Case {
    pub name: &'static str,
    pub must: Must,
    pub script: &'static str,
    /// Whether it would hurt the machine or the test if nothing held it.
    pub harms: bool,
}

/// Directories, sockets and a process of the test, outside of any confinement.
pub struct Place {
    directory: tempfile::TempDir,
    victim: Child,
    tcp: TcpListener,
    udp: UdpSocket,
    _abstract: UnixListener,
    _path: UnixListener,
    _datagrams: UnixDatagram,
    before: String,
}

impl Place {
    pub fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["work/.git/hooks", "work/src", "temp", "outside/directory", "state", "home"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        fs::write(at("outside/file"), "as it was").unwrap();
        fs::write(at("outside/program"), "#!/bin/sh\n").unwrap();
        fs::write(at("work/.git/hooks/pre-commit"), "#!/bin/sh\n").unwrap();
        fs::write(at("work/inside"), "inside").unwrap();
        fs::write(at("state/token"), SECRET).unwrap();
        fs::write(at("token"), SECRET).unwrap();
        fs::write(at("work/config.toml"), "as it was").unwrap();
        symlink(at("outside/file"), at("work/link")).unwrap();
        symlink(at("outside"), at("work/directory-link")).unwrap();
        let victim = Command::new("sleep")
            .arg("1000")
            .env("VICTIM", SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let address =
            SocketAddr::from_abstract_name(directory.path().as_os_str().as_encoded_bytes()).unwrap();
        let mut place = Place {
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            _path: UnixListener::bind(at("outside/socket")).unwrap(),
            _datagrams: UnixDatagram::bind(at("outside/datagrams")).unwrap(),
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            directory,
            victim,
            before: String::new(),
        };
        place.before = place.outside();
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn tcp_port(&self) -> u16 {
        self.tcp.local_addr().unwrap().port()
    }

    pub fn own(&self) -> ProtectedPaths {
        ProtectedPaths {
            protect: vec![self.path("work/config.toml")],
            hide: vec![self.path("state"), self.path("token")],
            expose: Vec::new(),
        }
    }

    pub fn profile(&self, name: &str) -> Profile {
        match name {
            "read-only" => Profile::read_only(&self.own()),
            _ => Profile::workspace_write(&[self.path("work")], Some(&self.path("temp")), &self.own()),
        }
    }

    /// A shell in the workspace, which finds the names of everything in its environment.
    pub fn spec(&self, script: &str, profile: &str) -> ProcessSpec {
        let mut spec = support::shell(script);
        spec.cwd = support::directory(&self.path("work"));
        let text = |path: PathBuf| path.into_os_string();
        let port = |port: u16| port.to_string().into();
        let cargo = std::env::var_os("CARGO_HOME").unwrap_or_else(|| {
            Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cargo").into()
        });
        spec.env.retain(|(name, _)| name != "HOME" && name != "CARGO_TARGET_DIR");
        spec.env.extend(
            [
                ("OUT", text(self.path("outside"))),
                ("STATE", text(self.path("state"))),
                ("TOKEN", text(self.path("token"))),
                ("TMPDIR", text(self.path("temp"))),
                ("HOME", text(self.path("home"))),
                ("CARGO_HOME", cargo),
                ("VICTIM_PID", self.victim.id().to_string().into()),
                ("DAEMON_PID", std::process::id().to_string().into()),
                ("TCP", port(self.tcp_port())),
                ("UDP", port(self.udp.local_addr().unwrap().port())),
                ("ABSTRACT", text(self.directory.path().to_owned())),
            ]
            .map(|(name, value)| (name.into(), value)),
        );
        spec.confinement = Some(Arc::new(Confinement::new([Arc::new(self.profile(profile))])));
        spec
    }

    /// Everything outside is as it was, and the victim lives.
    pub fn assert_untouched(&self) {
        assert_eq!(self.before, self.outside());
        assert!(support::is_alive(self.victim.id() as i32));
        assert_eq!(fs::read_to_string(self.path("work/config.toml")).unwrap(), "as it was");
        assert!(self.path("work/.git/hooks/pre-commit").exists());
        let mut hooks = fs::read_dir(self.path("work/.git/hooks")).unwrap();
        assert!(hooks.next().is_some() && hooks.next().is_none());
    }

    fn outside(&self) -> String {
        let mut lines = Vec::new();
        for entry in fs::read_dir(self.path("outside")).unwrap() {
            let entry = entry.unwrap();
            let found = entry.metadata().unwrap();
            let mut text = String::new();
            if found.is_file() {
                fs::File::open(entry.path()).unwrap().read_to_string(&mut text).unwrap();
            }
            let (mode, changed, owner) = (found.permissions().mode(), found.ctime_nsec(), found.uid());
            lines.push(format!("{:?} {mode:o} {changed} {owner} {text}", entry.file_name()));
        }
        lines.sort();
        lines.join("\n")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = self.victim.kill();
        let _reaped = self.victim.wait();
    }
}

const fn fails(name: &'static str, script: &'static str) -> Case {
    Case { name, must: Must::Fail, script, harms: false }
}

const fn harms(name: &'static str, script: &'static str) -> Case {
    Case { name, must: Must::Fail, script, harms: true }
}

const fn works(name: &'static str, script: &'static str) -> Case {
    Case { name, must: Must::Work, script, harms: false }
}

const fn writes(name: &'static str, script: &'static str) -> Case {
    Case { name, must: Must::WorkWhereItMayWrite, script, harms: false }
}

/// What must fail everywhere.
pub const ESCAPES: &[Case] = &[
    fails("write outside", "echo x >> $OUT/file"),
    fails("make a file outside", "echo x > $OUT/new"),
    fails("write to /tmp", "echo x > /tmp/sandbox-test-$$ && rm /tmp/sandbox-test-$$"),
    fails("write through a link", "echo x >> link"),
    fails("write through a linked directory", "echo x > directory-link/new"),
    fails("make a link and write through it", "ln -sf $OUT/file $TMPDIR/l && echo x >> $TMPDIR/l"),
    fails("hard link from outside", "ln $OUT/file hard-$$ || ln $OUT/file $TMPDIR/hard"),
    fails("write through /proc/self/fd", "exec 7< $OUT/file && echo x >> /proc/self/fd/7"),
    fails("write through /proc/self/root", "echo x >> /proc/self/root$OUT/file"),
    fails("write through /proc of the daemon", "echo x >> /proc/$DAEMON_PID/root$OUT/file"),
    fails("the working directory of the daemon", "ls /proc/$DAEMON_PID/cwd/"),
    fails("write by a child of a child", "sh -c 'sh -c \"(echo x >> $OUT/file)\"'"),
    fails("rename over", "cp inside $TMPDIR/i; mv -f $TMPDIR/i $OUT/file || mv -f inside $OUT/file"),
    fails("rename away", "mv $OUT/file $TMPDIR/ || mv $OUT/file ./"),
    fails("truncate", "/usr/bin/python3 -c 'import os; os.truncate(os.environ[\"OUT\"]+\"/file\", 0)'"),
    fails("open and truncate", ": > $OUT/file"),
    fails("make a directory", "mkdir $OUT/new"),
    fails("remove a directory", "rmdir $OUT/directory"),
    fails("unlink", "rm -f $OUT/file"),
    fails("make a symbolic link", "ln -s x $OUT/new"),
    fails("make a FIFO", "mkfifo $OUT/new"),
    fails("chmod", "chmod 777 $OUT/file"),
    fails("chown", "chown $(id -u):$(id -g) $OUT/file"),
    fails("set times", "touch -d 2001-01-01 $OUT/file"),
    fails(
        "set an attribute",
        "/usr/bin/python3 -c 'import os; os.setxattr(os.environ[\"OUT\"]+\"/file\", \"user.x\", b\"x\")'",
    ),
    fails("write a hook", "echo x > .git/hooks/pre-commit"),
    fails("make a hook", "echo x > .git/hooks/post-commit"),
    fails("remove the hooks", "rm -rf .git/hooks"),
    fails("move the hooks away", "mv .git/hooks .git/other"),
    fails("move the repository away", "mv .git other"),
    fails("write the config", "echo x >> config.toml"),
    fails("replace the config", "echo x > c && mv -f c config.toml || { rm -f c; false; }"),
    fails("chmod a hook", "chmod 777 .git/hooks/pre-commit"),
    fails("read what is hidden", "cat $STATE/token"),
    fails("read a hidden file", "cat $TOKEN"),
    fails("read what is hidden by another way", "cat /proc/self/root$STATE/token || cat ../state/token"),
    fails("rename what is hidden", "mv $TOKEN $TMPDIR/t && cat $TMPDIR/t"),
    fails(
        "read a disk",
        "dd if=$(ls /dev/vda /dev/sda /dev/nvme0n1 2> /dev/null | head -1) of=/dev/null bs=4096 count=1",
    ),
    fails("read a device of the system", "dd if=/dev/kmsg of=/dev/null bs=4096 count=1 iflag=nonblock"),
    fails("make a device", "mknod $TMPDIR/disk b 254 0"),
    fails("ptrace a process outside", PTRACE),
    harms("mount", "mount -t tmpfs none $TMPDIR"),
    harms("bind mount", "mount --bind / $TMPDIR"),
    harms("unmount", "umount .git/hooks || umount $STATE || umount /dev/shm"),
    harms("remount", "mount -o remount,rw /"),
    fails("a user namespace", "unshare -U true"),
    fails("a user namespace and mounts", "unshare -Urm true"),
    fails("a mount namespace", "unshare -m true"),
    fails("a namespace by clone3", CLONE3),
    fails("enter another namespace", "nsenter -t $DAEMON_PID -m true || nsenter -t 1 -m true"),
    harms(
        "load a module",
        "/usr/bin/python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(313,0,b\"\",0)!=0 and ctypes.get_errno()==0)'",
    ),
    fails("chroot", "chroot / true"),
    fails(
        "bpf",
        "/usr/bin/python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(321,0,ctypes.create_string_buffer(b\"\\1\\0\\0\\0\\4\\0\\0\\0\\4\\0\\0\\0\\1\",128),128)<0)'",
    ),
    fails(
        "io_uring",
        "/usr/bin/python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(425,1,ctypes.create_string_buffer(120))<0)'",
    ),
    fails(
        "perf",
        "/usr/bin/python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).syscall(298,ctypes.create_string_buffer(b\"\\1\\0\\0\\0\\200\",128),0,-1,-1,0)<0)'",
    ),
    fails("kill a process outside", "kill -9 $VICTIM_PID"),
    harms("kill everybody", "kill -TERM $VICTIM_PID $DAEMON_PID"),
    fails(
        "TCP out",
        "/usr/bin/python3 -c 'import os,socket; socket.create_connection((\"127.0.0.1\",int(os.environ[\"TCP\"])),3)'",
    ),
    fails(
        "UDP out",
        "/usr/bin/python3 -c 'import os,socket; socket.socket(2,2).sendto(b\"x\",(\"127.0.0.1\",int(os.environ[\"UDP\"])))'",
    ),
    fails(
        "TCP listen",
        "/usr/bin/python3 -c 'import socket; s=socket.socket(); s.bind((\"127.0.0.1\",0)); s.listen()'",
    ),
    fails("raw socket", "/usr/bin/python3 -c 'import socket; socket.socket(17,3)'"),
    fails(
        "abstract unix socket",
        "/usr/bin/python3 -c 'import os,socket; socket.socket(1).connect(\"\\0\"+os.environ[\"ABSTRACT\"])'",
    ),
    fails(
        "unix socket with a path",
        "/usr/bin/python3 -c 'import os,socket; socket.socket(1).connect(os.environ[\"OUT\"]+\"/socket\")'",
    ),
    fails(
        "a turned pair of datagram sockets",
        "/usr/bin/python3 -c 'import os,socket; a,b=socket.socketpair(1,2); a.connect(os.environ[\"OUT\"]+\"/datagrams\")'",
    ),
    fails("environment of the daemon", "cat /proc/$DAEMON_PID/environ > /dev/null"),
    fails("environment of a process outside", "cat /proc/$VICTIM_PID/environ"),
    fails(
        "memory of the daemon",
        "/usr/bin/python3 -c 'import os; open(\"/proc/%s/mem\" % os.environ[\"DAEMON_PID\"], \"rb\")'",
    ),
    fails("memory maps of the daemon", "cat /proc/$DAEMON_PID/maps > /dev/null"),
    fails("files of the daemon", "readlink /proc/$DAEMON_PID/fd/1"),
    harms(
        "kernel settings",
        "echo 1 > /proc/sys/kernel/randomize_va_space || echo 0 > /proc/self/oom_score_adj",
    ),
    harms("cgroups", "mkdir /sys/fs/cgroup/sandbox-test || mkdir /sys/fs/cgroup/unified/sandbox-test"),
    harms(
        "name the machine",
        "test $(id -u) = 0 && /usr/bin/python3 -c 'import ctypes,sys; sys.exit(ctypes.CDLL(None).sethostname(b\"x\",1)!=0)'",
    ),
];

const PTRACE: &str = "/usr/bin/python3 -c 'import ctypes,os,sys; \
                      sys.exit(ctypes.CDLL(None).ptrace(16,int(os.environ[\"VICTIM_PID\"]),0,0)!=0)'";
const CLONE3: &str = "/usr/bin/python3 -c 'import ctypes,sys; a=(ctypes.c_uint64*11)(0x10000000,0,0,0,17); \
                      r=ctypes.CDLL(None).syscall(435,a,88); sys.exit(r<0)'";

/// What must still be possible.
pub const WORKS: &[Case] = &[
    writes("write inside", "echo x > new && rm new"),
    writes("rename, link, chmod, times inside", RENAMES),
    writes("write to the private temporary directory", "f=$(mktemp) && echo x > $f && rm $f"),
    works("read everything else", "cat $OUT/file /etc/passwd > /dev/null && ls / /dev /usr > /dev/null"),
    works("devices", "head -c 10 /dev/urandom > /dev/null && head -c 1 /dev/zero | wc -c > /dev/null"),
    works("shared memory", "echo x > /dev/shm/x && cat /dev/shm/x && rm /dev/shm/x"),
    works("pipes and sub-shells", "test $( (echo a; echo b) | sort -r | head -1) = b"),
    works(
        "job control",
        "bash -mc 'sleep 100 & kill -STOP %1 && kill -CONT %1 && kill %1; wait %1; test $? = 143'",
    ),
    works(
        "threads",
        "/usr/bin/python3 -c 'import threading; t=threading.Thread(target=print); t.start(); t.join()'",
    ),
    works(
        "a socket pair",
        "/usr/bin/python3 -c 'import socket; a,b=socket.socketpair(); a.send(b\"x\"); b.recv(1)'",
    ),
    works("python", "/usr/bin/python3 -c 'import subprocess; subprocess.run([\"true\"], check=True)'"),
    works("node", "node -e 'require(\"child_process\").execSync(\"true\")'"),
    works(
        "a terminal of its own",
        "/usr/bin/python3 -c 'import pty,sys; sys.exit(pty.spawn([\"true\"]))' < /dev/null",
    ),
    writes("git", GIT),
    writes("node tests", NODE),
    writes("cargo build and test", CARGO),
];

const RENAMES: &str = "echo x > a && mv a b && ln b c && chmod 600 c && touch -d 2001-01-01 c && mkdir d && mv c d/ && \
                       ln -s b s && rm -rf b d s";
const GIT: &str = "rm -rf repo && mkdir repo && cd repo && git init -q && echo x > f && git add f && \
                   git -c user.name=x -c user.email=x@y commit -qm x && git log --oneline | grep x && cd .. && rm -rf repo";
const NODE: &str = "mkdir -p n && cd n && echo 'require(\"node:test\")(\"x\", () => {})' > x.test.js && node --test && \
                    cd .. && rm -rf n";
const CARGO: &str = "command -v cargo > /dev/null || { echo no cargo for this user; mkdir c && rmdir c; exit; }; \
    rm -rf c && mkdir -p c/src && cd c && printf '[package]\\nname=\"c\"\\nversion=\"0.1.0\"\\nedition=\"2021\"\\n' > Cargo.toml && \
    printf '#[test]\\nfn t() { assert_eq!(std::fs::read(\"Cargo.toml\").is_ok(), true) }\\n' > src/lib.rs && \
    RUSTUP_HOME=${RUSTUP_HOME:-$CARGO_HOME/../.rustup} cargo test --offline -q && cd .. && rm -rf c";
