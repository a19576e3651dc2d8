//! Screen: a program in a real terminal, with its screen contents and typed input.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::proc::{wait_readable, watch};

/// The deadline for expected screen contents.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program in a terminal.
#[derive(Debug)]
pub struct Screen {
    child: Child,
    terminal: File,
    parser: Parser,
    raw: Vec<u8>,
}

/// The contents of the terminal. Its own `Debug` would print every cell.
struct Parser(vt100::Parser);

impl std::fmt::Debug for Parser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.screen().contents())
    }
}

impl Screen {
    /// Starts a command in a new controlling terminal.
    pub fn start(command: &Command, cols: u16, rows: u16) -> Screen {
        let terminal =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&terminal).expect("a terminal of our own");
        unlockpt(&terminal).expect("a terminal that can be opened");
        tcsetwinsize(&terminal, size(cols, rows)).expect("a size");
        let name = ptsname(&terminal, Vec::new()).expect("its name");
        let inside =
            open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("its inside");
        let copy = |inside: &OwnedFd| inside.try_clone().expect("its inside once more");
        // `setsid` starts a session with this terminal as the controlling one.
        let mut through = Command::new("setsid");
        through.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        through.env_clear();
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                through.env(name, value);
            }
        }
        if let Some(directory) = command.get_current_dir() {
            through.current_dir(directory);
        }
        through.env("TERM", "xterm-256color").stdin(copy(&inside)).stdout(copy(&inside)).stderr(inside);
        let child = through.spawn().unwrap_or_else(|error| panic!("{through:?}: {error}"));
        Screen {
            child,
            terminal: File::from(terminal),
            parser: Parser(vt100::Parser::new(side(rows), side(cols), 0)),
            raw: Vec::new(),
        }
    }

    /// Sends typed text.
    pub fn type_in(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).expect("typing");
    }

    /// Changes the size of the window.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        tcsetwinsize(&self.terminal, size(cols, rows)).expect("another size");
        self.parser.0.screen_mut().set_size(side(rows), side(cols));
    }

    /// The current screen contents.
    pub fn text(&self) -> String {
        self.parser.0.screen().contents()
    }

    /// Everything that the program has written to the terminal, with its control sequences.
    pub fn raw(&self) -> String {
        String::from_utf8_lossy(&self.raw).into_owned()
    }

    /// Waits until the screen contains this text.
    pub fn shows(&mut self, text: &str) {
        self.until(&format!("show {text:?}"), |seen| seen.contains(text));
    }

    /// Waits until the screen contents match.
    pub fn until(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(&self.text()) {
            assert!(
                wait_readable(&self.terminal, deadline),
                "it does not {what}; it shows:\n{}",
                self.text()
            );
            assert!(self.read(), "it ended and does not {what}; it shows:\n{}", self.text());
        }
    }

    /// Reads available output; false when the terminal is closed.
    fn read(&mut self) -> bool {
        let mut buffer = [0; 65_536];
        let read = match self.terminal.read(&mut buffer) {
            // Also when the last process wrote and closed the terminal during the read.
            Err(_closed) => self.terminal.read(&mut buffer),
            read => read,
        };
        match read {
            Ok(read @ 1..) => {
                self.parser.0.process(&buffer[..read]);
                self.raw.extend_from_slice(&buffer[..read]);
                true
            }
            // The last process in the terminal has closed it.
            Ok(_) | Err(_) => false,
        }
    }

    /// Waits for the program and returns its status.
    pub fn end(&mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        while wait_readable(&self.terminal, deadline) && self.read() {}
        let pid = i32::try_from(self.child.id()).expect("a process id");
        assert!(watch(pid).ends_before(deadline), "it does not end; it shows:\n{}", self.text());
        (self.child.wait().expect("its status"), self.text())
    }

    /// The process id of the program in the terminal.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

fn side(cells: u16) -> NonZero<u16> {
    NonZero::new(cells).expect("a side that is not empty")
}

fn size(cols: u16, rows: u16) -> Winsize {
    Winsize { ws_col: cols, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 }
}
