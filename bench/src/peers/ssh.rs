//! Commands and terminals over a multiplexed OpenSSH connection. This client uses the mux protocol on the control socket
//! directly, with descriptors passed along, so no `ssh` process is started per command.

use std::io::{IoSlice, PipeReader, PipeWriter, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::floor::drain;
use super::{Commands, Sink, Terminals};

const HELLO: u32 = 0x0000_0001;
const PROTOCOL_VERSION: u32 = 4;
const NEW_SESSION: u32 = 0x1000_0002;
const PERMISSION_DENIED: u32 = 0x8000_0002;
const FAILURE: u32 = 0x8000_0003;
const EXIT_MESSAGE: u32 = 0x8000_0004;
const NO_ESCAPE_CHARACTER: u32 = 0xffff_ffff;

/// The kind of a mux session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A command with pipes.
    Command,
    /// A command on a terminal.
    Terminal,
    /// A subsystem such as sftp.
    Subsystem,
}

/// One session on the master connection.
#[derive(Debug)]
pub(crate) struct Session {
    control: UnixStream,
    /// Standard input of the remote command.
    pub(crate) stdin: PipeWriter,
    /// Standard output of the remote command.
    pub(crate) stdout: PipeReader,
    stderr: PipeReader,
}

impl Session {
    /// Requests a session from the master without waiting for the response.
    pub(crate) fn open(control: &Path, purpose: Purpose, command: &str) -> Result<Self> {
        let mut socket = UnixStream::connect(control).context("the ssh master is gone")?;
        let (far_stdin, stdin) = std::io::pipe()?;
        let (stdout, far_stdout) = std::io::pipe()?;
        let (stderr, far_stderr) = std::io::pipe()?;
        let mut hello = Packet::new(HELLO);
        hello.number(PROTOCOL_VERSION);
        let mut request = Packet::new(NEW_SESSION);
        request.number(0).text("");
        for wanted in [purpose == Purpose::Terminal, false, false, purpose == Purpose::Subsystem] {
            request.number(u32::from(wanted));
        }
        request.number(NO_ESCAPE_CHARACTER).text("xterm").text(command);
        socket.write_all(&[hello.finish()?, request.finish()?].concat())?;
        for descriptor in [far_stdin.as_fd(), far_stdout.as_fd(), far_stderr.as_fd()] {
            pass(&socket, descriptor)?;
        }
        Ok(Self { control: socket, stdin, stdout, stderr })
    }

    /// The control socket, stdin and stdout; later errors are discarded.
    pub(crate) fn into_parts(self) -> (UnixStream, PipeWriter, PipeReader) {
        (self.control, self.stdin, self.stdout)
    }

    /// Reads packets until the exit status comes.
    fn exit_code(&mut self) -> Result<i64> {
        loop {
            let packet = self.packet()?;
            let number = |at: usize| -> Result<u32> {
                let bytes = packet.get(at * 4..at * 4 + 4).context("a short mux packet")?;
                Ok(u32::from_be_bytes(bytes.try_into()?))
            };
            match number(0)? {
                EXIT_MESSAGE => return Ok(i64::from(number(2)?)),
                PERMISSION_DENIED | FAILURE => {
                    bail!("the ssh master refused a session: {}", String::from_utf8_lossy(&packet))
                }
                _ => {}
            }
        }
    }

    fn packet(&mut self) -> Result<Vec<u8>> {
        let mut size = [0; 4];
        self.control.read_exact(&mut size).context("the ssh master hung up")?;
        let mut packet = vec![0; usize::try_from(u32::from_be_bytes(size))?];
        self.control.read_exact(&mut packet)?;
        Ok(packet)
    }

    /// Drains the session to its end and returns the exit code.
    fn finish(mut self, buffer: &mut [u8], out: Sink<'_>) -> Result<i64> {
        drain(&mut self.stdout, buffer, out)?;
        drain(&mut self.stderr, buffer, &mut super::ignore)?;
        self.exit_code()
    }
}

/// A packet builder: a length, then numbers and strings.
struct Packet(Vec<u8>);

impl Packet {
    fn new(kind: u32) -> Self {
        let mut packet = Self(vec![0; 4]);
        packet.number(kind);
        packet
    }

    fn number(&mut self, number: u32) -> &mut Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.number(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn finish(mut self) -> Result<Vec<u8>> {
        let size = u32::try_from(self.0.len() - 4)?.to_be_bytes();
        self.0[..4].copy_from_slice(&size);
        Ok(self.0)
    }
}

/// Passes one descriptor with the single byte that the master expects.
fn pass(socket: &UnixStream, descriptor: BorrowedFd<'_>) -> Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        bail!("no room for a descriptor");
    }
    sendmsg(socket, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

/// The peer: sessions on one master.
#[derive(Debug)]
pub(crate) struct Ssh {
    control: PathBuf,
    buffer: Vec<u8>,
    terminal: Option<Session>,
}

impl Ssh {
    /// A client of the master at this control socket.
    pub(crate) fn new(control: PathBuf) -> Self {
        Self { control, buffer: vec![0; 1 << 20], terminal: None }
    }

    /// Starts a command without waiting for anything.
    pub(crate) fn start(&self, command: &str) -> Result<Session> {
        Session::open(&self.control, Purpose::Command, command)
    }
}

/// Joins arguments for the remote shell; the benchmark's arguments need no quoting.
fn command_line(argv: &[&str]) -> String {
    argv.join(" ")
}

impl Commands for Ssh {
    fn name(&self) -> String {
        "ssh mux".to_owned()
    }

    fn run(&mut self, argv: &[&str], out: Sink<'_>) -> Result<i64> {
        self.start(&command_line(argv))?.finish(&mut self.buffer, out)
    }

    fn burst(&mut self, argv: &[&str], total: usize, flight: usize) -> Result<usize> {
        let command = command_line(argv);
        let (mut begun, mut wrong) = (0, 0);
        let mut running: Vec<Session> = Vec::with_capacity(flight);
        while begun < total || !running.is_empty() {
            while begun < total && running.len() < flight {
                running.push(self.start(&command)?);
                begun += 1;
            }
            for index in ready(&running)?.into_iter().rev() {
                let code = running.swap_remove(index).finish(&mut self.buffer, &mut super::ignore)?;
                wrong += usize::from(code != 0);
            }
        }
        Ok(wrong)
    }
}

/// Waits until sessions reach the end of their output, and returns them.
fn ready(running: &[Session]) -> Result<Vec<usize>> {
    let mut watched: Vec<PollFd<'_>> =
        running.iter().map(|session| PollFd::new(&session.stdout, PollFlags::IN)).collect();
    poll(&mut watched, None)?;
    let spoke = |(index, fd): (usize, &PollFd<'_>)| (!fd.revents().is_empty()).then_some(index);
    Ok(watched.iter().enumerate().filter_map(spoke).collect())
}

impl Terminals for Ssh {
    fn name(&self) -> String {
        "ssh mux".to_owned()
    }

    fn open(&mut self) -> Result<()> {
        // The master copies the terminal modes of stdin, which is a pipe here: set them on the remote side.
        let mut session = Session::open(&self.control, Purpose::Terminal, "stty sane; echo ready; exec cat")?;
        let mut seen = Vec::new();
        while !seen.ends_with(b"ready\r\n") && !seen.ends_with(b"ready\n") {
            let mut byte = [0];
            if session.stdout.read(&mut byte)? == 0 {
                bail!("the terminal ended");
            }
            seen.extend_from_slice(&byte);
        }
        self.terminal = Some(session);
        Ok(())
    }

    fn key(&mut self, byte: u8) -> Result<Duration> {
        let session = self.terminal.as_mut().context("no terminal is open")?;
        let mut buffer = [0; 256];
        let start = Instant::now();
        session.stdin.write_all(&[byte])?;
        let read = session.stdout.read(&mut buffer)?;
        if !buffer[..read].contains(&byte) {
            bail!("the terminal did not echo");
        }
        Ok(start.elapsed())
    }
}
