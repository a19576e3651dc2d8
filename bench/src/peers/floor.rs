//! The floor: the same work inside this program, with `posix_spawn`, pipes and file calls.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};

use super::{Commands, Files, Sink, Terminals};
use crate::watchdog::Server;

/// Commands, files and terminals without any server. `std::process` uses `posix_spawn` for these commands.
#[derive(Debug, Default)]
pub(crate) struct Floor {
    durable: bool,
    terminal: Option<(File, Server)>,
    buffer: Vec<u8>,
}

/// Larger than any pipe.
const READ_BYTES: usize = 1 << 20;

impl Floor {
    /// A floor that syncs what it writes.
    pub(crate) fn durable() -> Self {
        Self { durable: true, ..Self::default() }
    }

    /// Starts a command with pipes for stdout and stderr.
    pub(crate) fn spawn(argv: &[&str]) -> Result<Child> {
        let (program, rest) = argv.split_first().context("no program")?;
        let child = Command::new(program)
            .args(rest)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(child)
    }

    fn buffer(&mut self) -> &mut [u8] {
        self.buffer.resize(READ_BYTES, 0);
        &mut self.buffer
    }
}

/// Reads a stream to its end.
pub(crate) fn drain(reader: &mut impl Read, buffer: &mut [u8], out: Sink<'_>) -> Result<()> {
    loop {
        let read = reader.read(buffer)?;
        if read == 0 {
            return Ok(());
        }
        out(&buffer[..read])?;
    }
}

/// Drains and reaps a child; returns its exit code.
fn finish(mut child: Child, buffer: &mut [u8], out: Sink<'_>) -> Result<i64> {
    drain(child.stdout.as_mut().context("no stdout")?, buffer, out)?;
    drain(child.stderr.as_mut().context("no stderr")?, buffer, &mut super::ignore)?;
    Ok(child.wait()?.code().map_or(-1, i64::from))
}

impl Commands for Floor {
    fn name(&self) -> String {
        "floor".to_owned()
    }

    fn run(&mut self, argv: &[&str], out: Sink<'_>) -> Result<i64> {
        finish(Self::spawn(argv)?, self.buffer(), out)
    }

    fn burst(&mut self, argv: &[&str], total: usize, flight: usize) -> Result<usize> {
        let (mut begun, mut wrong) = (0, 0);
        let mut running: Vec<Child> = Vec::with_capacity(flight);
        while begun < total || !running.is_empty() {
            while begun < total && running.len() < flight {
                running.push(Self::spawn(argv)?);
                begun += 1;
            }
            for index in ready(&running)?.into_iter().rev() {
                let code = finish(running.swap_remove(index), self.buffer(), &mut super::ignore)?;
                wrong += usize::from(code != 0);
            }
        }
        Ok(wrong)
    }
}

/// Waits until children have output, and returns them.
fn ready(running: &[Child]) -> Result<Vec<usize>> {
    let pipes = running.iter().filter_map(|child| child.stdout.as_ref());
    let mut watched: Vec<PollFd<'_>> = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
    poll(&mut watched, None)?;
    let spoke = |(index, fd): (usize, &PollFd<'_>)| (!fd.revents().is_empty()).then_some(index);
    Ok(watched.iter().enumerate().filter_map(spoke).collect())
}

impl Files for Floor {
    fn name(&self) -> String {
        "floor".to_owned()
    }

    fn read(&mut self, path: &Path, out: Sink<'_>) -> Result<()> {
        drain(&mut File::open(path)?, self.buffer(), out)
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        let temporary = path.with_extension("floor-tmp");
        let mut file = File::create(&temporary)?;
        file.write_all(content)?;
        if self.durable {
            file.sync_all()?;
        }
        fs::rename(&temporary, path)?;
        if self.durable {
            File::open(path.parent().context("no parent")?)?.sync_all()?;
        }
        Ok(())
    }
}

impl Terminals for Floor {
    fn name(&self) -> String {
        "floor".to_owned()
    }

    fn open(&mut self) -> Result<()> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let near = openpt(flags)?;
        grantpt(&near)?;
        unlockpt(&near)?;
        let far = ioctl_tiocgptpeer(&near, flags)?;
        let end = |far: &OwnedFd| far.try_clone().map(Stdio::from);
        let cat =
            Server::start(Command::new("/bin/cat").stdin(end(&far)?).stdout(end(&far)?).stderr(end(&far)?))?;
        self.terminal = Some((File::from(near), cat));
        Ok(())
    }

    fn key(&mut self, byte: u8) -> Result<Duration> {
        let (near, _) = self.terminal.as_mut().context("no terminal is open")?;
        let mut buffer = [0; 256];
        let start = Instant::now();
        near.write_all(&[byte])?;
        let read = near.read(&mut buffer)?;
        if !buffer[..read].contains(&byte) {
            bail!("the terminal did not echo");
        }
        Ok(start.elapsed())
    }
}
