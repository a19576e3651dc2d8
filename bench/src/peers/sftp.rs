//! Files over SFTP version 3, through the same multiplexed ssh connection; requests are sent ahead of their answers.

use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::ssh::{Purpose, Session};
use super::wire::MessageReader;
use super::{Files, Sink};

const INIT: u8 = 1;
const VERSION: u8 = 2;
const OPEN: u8 = 3;
const CLOSE: u8 = 4;
const READ: u8 = 5;
const WRITE: u8 = 6;
const STATUS: u8 = 101;
const HANDLE: u8 = 102;
const DATA: u8 = 103;
const EXTENDED: u8 = 200;

const STATUS_OK: u32 = 0;
const STATUS_EOF: u32 = 1;
const OPEN_READ: u32 = 1;
const OPEN_REPLACE: u32 = 2 | 8 | 16;

/// The largest block that OpenSSH's server takes.
const BLOCK: usize = 255 << 10;
/// Reads that are under way at once.
const AHEAD: u64 = 16;

/// A client of this peer.
#[derive(Debug)]
pub(crate) struct Sftp {
    /// Whether writes are synced.
    pub(crate) durable: bool,
    stdin: std::io::PipeWriter,
    output: MessageReader<std::io::PipeReader>,
    // The control socket must stay open while the session lives.
    _session: std::os::unix::net::UnixStream,
    last_id: u32,
}

/// A response: its kind, and the bytes after the request's id.
struct Answer<'a> {
    kind: u8,
    body: &'a [u8],
}

impl Sftp {
    /// Opens the subsystem on the master behind the control socket.
    pub(crate) fn start(control: &Path) -> Result<Self> {
        let (session, stdin, stdout) = Session::open(control, Purpose::Subsystem, "sftp")?.into_parts();
        let output = MessageReader::new(stdout);
        let mut sftp = Self { durable: false, stdin, output, _session: session, last_id: 0 };
        sftp.stdin.write_all(&[0, 0, 0, 5, INIT, 0, 0, 0, 3])?;
        let size = sftp.size()?;
        let answer = sftp.output.exactly(size)?;
        ensure!(answer.first() == Some(&VERSION), "no SFTP server");
        Ok(sftp)
    }

    fn size(&mut self) -> Result<usize> {
        Ok(usize::try_from(u32::from_be_bytes(self.output.exactly(4)?.try_into()?))?)
    }

    /// Appends a request to the bytes that go out.
    fn push(&mut self, bytes: &mut Vec<u8>, kind: u8, fields: &[Field<'_>]) -> Result<()> {
        self.last_id += 1;
        let begin = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        bytes.push(kind);
        bytes.extend_from_slice(&self.last_id.to_be_bytes());
        for field in fields {
            match field {
                Field::Short(number) => bytes.extend_from_slice(&number.to_be_bytes()),
                Field::Long(number) => bytes.extend_from_slice(&number.to_be_bytes()),
                Field::Text(text) => {
                    bytes.extend_from_slice(&u32::try_from(text.len())?.to_be_bytes());
                    bytes.extend_from_slice(text);
                }
            }
        }
        let size = u32::try_from(bytes.len() - begin - 4)?;
        bytes[begin..begin + 4].copy_from_slice(&size.to_be_bytes());
        Ok(())
    }

    /// The next response; responses to one file's requests are in order.
    fn answer(&mut self) -> Result<Answer<'_>> {
        let size = self.size()?;
        let packet = self.output.exactly(size)?;
        let (head, body) = packet.split_at_checked(5).context("a short SFTP packet")?;
        Ok(Answer { kind: head.first().copied().unwrap_or_default(), body })
    }

    fn expect_ok(&mut self) -> Result<()> {
        let answer = self.answer()?;
        ensure!(answer.kind == STATUS && answer.code()? == STATUS_OK, "SFTP refused: {:?}", answer.code());
        Ok(())
    }

    fn open(&mut self, path: &Path, mode: u32) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let fields = [Field::Text(path.as_os_str().as_bytes()), Field::Short(mode), Field::Short(0)];
        self.push(&mut bytes, OPEN, &fields)?;
        self.stdin.write_all(&bytes)?;
        let answer = self.answer()?;
        ensure!(answer.kind == HANDLE, "SFTP did not open {}", path.display());
        Ok(answer.text()?.to_vec())
    }

    fn close(&mut self, handle: &[u8]) -> Result<()> {
        let mut bytes = Vec::new();
        self.push(&mut bytes, CLOSE, &[Field::Text(handle)])?;
        self.stdin.write_all(&bytes)?;
        self.expect_ok()
    }

    fn ask(&mut self, handle: &[u8], offset: u64) -> Result<()> {
        let mut bytes = Vec::new();
        let fields = [Field::Text(handle), Field::Long(offset), Field::Short(u32::try_from(BLOCK)?)];
        self.push(&mut bytes, READ, &fields)?;
        Ok(self.stdin.write_all(&bytes)?)
    }
}

enum Field<'a> {
    Short(u32),
    Long(u64),
    Text(&'a [u8]),
}

impl<'a> Answer<'a> {
    fn code(&self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.body.get(..4).context("a short status")?.try_into()?))
    }

    fn text(&self) -> Result<&'a [u8]> {
        let size = usize::try_from(self.code()?)?;
        self.body.get(4..4 + size).context("a short text")
    }
}

impl Files for Sftp {
    fn name(&self) -> String {
        if self.durable { "sftp fsync".to_owned() } else { "sftp".to_owned() }
    }

    fn read(&mut self, path: &Path, out: Sink<'_>) -> Result<()> {
        let handle = self.open(path, OPEN_READ)?;
        let block = BLOCK as u64;
        let mut asked = 0;
        let mut waiting = 0;
        let mut short = false;
        loop {
            // One request first: a small file needs no more.
            while !short && waiting < AHEAD && (waiting == 0 || asked > block) {
                self.ask(&handle, asked)?;
                asked += block;
                waiting += 1;
                if asked == block {
                    break;
                }
            }
            if waiting == 0 {
                break;
            }
            waiting -= 1;
            let answer = self.answer()?;
            match answer.kind {
                DATA => {
                    let data = answer.text()?;
                    short |= data.len() < BLOCK;
                    out(data)?;
                }
                STATUS if answer.code()? == STATUS_EOF => short = true,
                other => bail!("SFTP answered a read with {other}"),
            }
        }
        self.close(&handle)
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> Result<()> {
        let temporary = path.with_extension("sftp-tmp");
        let handle = self.open(&temporary, OPEN_REPLACE)?;
        let mut bytes = Vec::with_capacity(content.len() + 4096);
        let mut expected = 2;
        for (index, block) in content.chunks(BLOCK).enumerate() {
            let offset = Field::Long((index * BLOCK) as u64);
            self.push(&mut bytes, WRITE, &[Field::Text(&handle), offset, Field::Text(block)])?;
            expected += 1;
        }
        if self.durable {
            self.push(&mut bytes, EXTENDED, &[Field::Text(b"fsync@openssh.com"), Field::Text(&handle)])?;
            expected += 1;
        }
        self.push(&mut bytes, CLOSE, &[Field::Text(&handle)])?;
        let (from, to) = (temporary.as_os_str().as_bytes(), path.as_os_str().as_bytes());
        let rename = [Field::Text(b"posix-rename@openssh.com"), Field::Text(from), Field::Text(to)];
        self.push(&mut bytes, EXTENDED, &rename)?;
        self.stdin.write_all(&bytes)?;
        for _ in 0..expected {
            self.expect_ok()?;
        }
        Ok(())
    }
}
