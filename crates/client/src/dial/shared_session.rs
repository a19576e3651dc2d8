//! A session on a shared ssh connection, requested from the ssh that holds it: no other ssh is started for it.
//!
//! The messages are those of OpenSSH's `PROTOCOL.mux`: a length, a type, then numbers and strings. Standard streams are
//! passed as descriptors.

use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use link::Link;
use link::child::Errors;
use link::task::OwnedTask;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

const HELLO: u32 = 0x0000_0001;
const PROTOCOL_VERSION: u32 = 4;
const NEW_SESSION: u32 = 0x1000_0002;
const PERMISSION_DENIED: u32 = 0x8000_0002;
const FAILURE: u32 = 0x8000_0003;
const EXIT_MESSAGE: u32 = 0x8000_0004;
const NO_ESCAPE_CHARACTER: u32 = 0xffff_ffff;
/// The longest message that is read; the status of a command has 12 bytes.
const MAX_MESSAGE: usize = 64 * 1024;
/// The size of the pipe that the daemon's output fills.
const OUTPUT_PIPE: usize = 1024 * 1024;
/// The time for the status and the rest of stderr after the link has ended.
const GRACE: Duration = Duration::from_secs(5);

/// A session that the holder of the connection serves. The session ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SharedSession {
    control: UnixStream,
    /// A second handle of the output. If it were closed before the end of the session, ssh would close the
    /// daemon's output, possibly before the daemon received the last requests.
    output: pipe::Receiver,
    errors: Errors,
    reading: Option<OwnedTask<()>>,
}

/// How a session ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SessionEnd {
    /// With the exit status of the remote command.
    Exited(i32),
    /// It was not opened, for this reason.
    Refused(String),
    /// The connection ended.
    Lost,
}

/// Requests a session that runs `command`, with variables as `NAME=VALUE`. Does not wait for the remote machine. Must be
/// called within a tokio runtime.
pub(super) fn open(
    socket: &Path,
    variables: &[String],
    command: &str,
    limits: &link::Limits,
) -> io::Result<(Link, SharedSession)> {
    let mut control = std::os::unix::net::UnixStream::connect(socket)?;
    let (far_input, input) = io::pipe()?;
    let (output, far_output) = io::pipe()?;
    let (stderr, far_stderr) = io::pipe()?;
    // A smaller pipe works too.
    rustix::pipe::fcntl_setpipe_size(&output, OUTPUT_PIPE).ok();
    let request = [hello()?, new_session(variables, command)?].concat();
    control.write_all(&request)?;
    for descriptor in [far_input.as_fd(), far_output.as_fd(), far_stderr.as_fd()] {
        pass(&control, descriptor)?;
    }
    let link = link::stdio::over(output.as_fd(), input.as_fd(), limits)?;
    let errors = Errors::default();
    let reading = Some(errors.collect(stderr.into())?);
    control.set_nonblocking(true)?;
    let control = UnixStream::from_std(control)?;
    Ok((
        link,
        SharedSession { control, output: pipe::Receiver::from_owned_fd(output.into())?, errors, reading },
    ))
}

impl SharedSession {
    /// The stderr of the remote command so far.
    pub(super) fn errors(&self) -> Errors {
        self.errors.clone()
    }

    /// Waits up to 5 seconds for the end of the session. The link must have been dropped.
    pub(super) async fn ended(&mut self) -> SessionEnd {
        let SharedSession { control, output, .. } = self;
        // A daemon that cannot write its last output would not end.
        let discard = async {
            tokio::io::copy(output, &mut tokio::io::sink()).await.ok();
            std::future::pending().await
        };
        let end = async {
            tokio::select! {
                end = read_end(control) => end,
                end = discard => end,
            }
        };
        let end = tokio::time::timeout(GRACE, end).await;
        if let Some(reading) = self.reading.take() {
            // Dropping the join on a timeout ends the reader.
            tokio::time::timeout(GRACE, reading.join()).await.ok();
        }
        end.unwrap_or(SessionEnd::Lost)
    }
}

/// Reads messages until one reports the end of the session.
async fn read_end(control: &mut UnixStream) -> SessionEnd {
    while let Ok(length) = control.read_u32().await {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > MAX_MESSAGE {
            break;
        }
        let mut message = vec![0; length];
        if control.read_exact(&mut message).await.is_err() {
            break;
        }
        // Two numbers precede the status or the length of the reason: the type, and the session or the request.
        let number = |at: usize| {
            let bytes = message.get(at * 4..at * 4 + 4)?;
            Some(u32::from_be_bytes(bytes.try_into().ok()?))
        };
        match number(0) {
            Some(EXIT_MESSAGE) => {
                return number(2).map_or(SessionEnd::Lost, |status| SessionEnd::Exited(status.cast_signed()));
            }
            Some(PERMISSION_DENIED | FAILURE) => {
                let reason = message.get(12..).unwrap_or_default();
                return SessionEnd::Refused(String::from_utf8_lossy(reason).into_owned());
            }
            _ => {}
        }
    }
    SessionEnd::Lost
}

fn hello() -> io::Result<Vec<u8>> {
    let mut message = Message::new(HELLO);
    message.number(PROTOCOL_VERSION);
    message.finish()
}

fn new_session(variables: &[String], command: &str) -> io::Result<Vec<u8>> {
    let mut message = Message::new(NEW_SESSION);
    // The number of the request, and a string that is reserved.
    message.number(0).text("")?;
    // No terminal, no X11, no agent, no subsystem.
    for wanted in [0, 0, 0, 0] {
        message.number(wanted);
    }
    message.number(NO_ESCAPE_CHARACTER).text("")?.text(command)?;
    for variable in variables {
        message.text(variable)?;
    }
    message.finish()
}

/// A message in the making.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u32) -> Message {
        // The length is written at the end.
        let mut message = Message(vec![0; 4]);
        message.number(kind);
        message
    }

    fn number(&mut self, number: u32) -> &mut Message {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn text(&mut self, text: &str) -> io::Result<&mut Message> {
        self.number(length(text.len())?);
        self.0.extend_from_slice(text.as_bytes());
        Ok(self)
    }

    fn finish(mut self) -> io::Result<Vec<u8>> {
        let length = length(self.0.len() - 4)?;
        self.0[..4].copy_from_slice(&length.to_be_bytes());
        Ok(self.0)
    }
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// Passes one descriptor, with the single byte that the holder expects.
fn pass(control: &std::os::unix::net::UnixStream, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(control, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{IoSliceMut, Read as _};

    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    async fn end_of(messages: &[&[u32]], text: &str) -> SessionEnd {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        for numbers in messages {
            far.write_u32(u32::try_from(numbers.len() * 4 + text.len()).unwrap()).await.unwrap();
            for number in *numbers {
                far.write_u32(*number).await.unwrap();
            }
            far.write_all(text.as_bytes()).await.unwrap();
        }
        drop(far);
        read_end(&mut near).await
    }

    #[tokio::test]
    async fn the_end_of_a_session_is_read_behind_other_messages() {
        assert_eq!(end_of(&[&[HELLO, 4], &[EXIT_MESSAGE, 1, 127]], "").await, SessionEnd::Exited(127));
        assert_eq!(end_of(&[&[HELLO, 4]], "").await, SessionEnd::Lost);
        assert_eq!(end_of(&[&[EXIT_MESSAGE]], "").await, SessionEnd::Lost);
        assert_eq!(end_of(&[&[FAILURE, 0, 4]], "full").await, SessionEnd::Refused("full".to_owned()));
        let (mut near, mut far) = UnixStream::pair().unwrap();
        far.write_u32(u32::MAX).await.unwrap();
        assert_eq!(read_end(&mut near).await, SessionEnd::Lost, "a length from elsewhere takes no memory");
    }

    /// The ssh that holds the connection: reads a request with its three descriptors.
    fn accept(
        listener: &std::os::unix::net::UnixListener,
    ) -> (std::os::unix::net::UnixStream, Vec<std::fs::File>) {
        let (mut control, _) = listener.accept().unwrap();
        let mut files = Vec::new();
        for _ in 0..2 {
            let mut length = [0; 4];
            control.read_exact(&mut length).unwrap();
            control.read_exact(&mut vec![0; u32::from_be_bytes(length).try_into().unwrap()]).unwrap();
        }
        while files.len() < 3 {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let mut byte = [0];
            recvmsg(&control, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::empty()).unwrap();
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    files.extend(descriptors.map(std::fs::File::from));
                }
            }
        }
        (control, files)
    }

    #[tokio::test]
    async fn the_output_is_read_until_the_session_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("holder");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let holder = std::thread::spawn(move || {
            let (mut control, mut files) = accept(&listener);
            let mut requests = Vec::new();
            files[0].read_to_end(&mut requests).unwrap();
            // More than the pipe holds. A closed pipe would be reported to the daemon.
            let written = files[1].write_all(&vec![b'x'; 2 * OUTPUT_PIPE]);
            drop(files);
            let end = [12, EXIT_MESSAGE, 1, 0].map(u32::to_be_bytes).concat();
            control.write_all(&end).unwrap();
            (requests, written)
        });
        let (link, mut session) = open(&socket, &[], "true", &link::Limits::default()).unwrap();
        drop(link);
        assert_eq!(session.ended().await, SessionEnd::Exited(0));
        let (requests, written) = holder.join().unwrap();
        assert_eq!((requests.len(), written.map_err(|error| error.kind())), (0, Ok(())));
    }

    #[test]
    fn messages_have_the_form_of_the_protocol() {
        assert_eq!(hello().unwrap(), [0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 4]);
        let request = new_session(&["A=b".to_owned()], "true").unwrap();
        assert_eq!(&request[..8], [0, 0, 0, 51, 0x10, 0, 0, 2]);
        assert!(request.ends_with(b"\0\0\0\x04true\0\0\0\x03A=b"));
    }
}
