//! WebSocket: a carrier of messages, one per frame.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

pub use tungstenite::Message;
use tungstenite::client::IntoClientRequest as _;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Error, WebSocket};

use crate::carrier::{Carrier, LineSplitter, Received, readable};
use crate::daemon::PATIENCE;
use crate::uninterrupted::Uninterrupted;

/// A WebSocket client.
#[derive(Debug)]
pub struct Socket {
    socket: WebSocket<Uninterrupted>,
    pieces: LineSplitter,
}

impl Socket {
    /// Connects to `/ws` at this address, with an optional token. A refusal is an error with its status.
    pub fn connect(address: SocketAddr, token: Option<&str>) -> io::Result<Socket> {
        Socket::connect_to(address, "/ws", token)
    }

    /// Connects to another path.
    pub fn connect_to(address: SocketAddr, path: &str, token: Option<&str>) -> io::Result<Socket> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut request = format!("ws://{address}{path}").into_client_request().map_err(broken)?;
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().expect("a token of plain letters");
            request.headers_mut().insert("authorization", value);
        }
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let (socket, _answer) =
            tungstenite::client::client_with_config(request, Uninterrupted(stream), Some(config)).map_err(
                |error| match error {
                    tungstenite::HandshakeError::Failure(error) => broken(error),
                    tungstenite::HandshakeError::Interrupted(_) => io::ErrorKind::TimedOut.into(),
                },
            )?;
        Ok(Socket { socket, pieces: LineSplitter::default() })
    }

    /// The underlying stream, for tests that write raw frames.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.socket.get_mut().0
    }

    /// Sends one frame with any payload.
    pub fn frame(&mut self, message: Message) -> io::Result<()> {
        self.socket.send(message).map_err(broken)
    }

    fn write(&mut self, message: Vec<u8>) -> io::Result<()> {
        let message = match String::from_utf8(message) {
            Ok(text) => Message::text(text),
            // A text frame must be UTF-8.
            Err(error) => Message::binary(error.into_bytes()),
        };
        self.socket.send(message).map_err(broken)
    }
}

impl Carrier for Socket {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if wire::binary::is_binary(bytes) {
            return self.frame(Message::binary(bytes.to_vec()));
        }
        self.pieces.add(bytes).into_iter().try_for_each(|message| self.write(message))
    }

    fn receive(&mut self, deadline: Instant) -> io::Result<Received> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            self.socket.get_mut().0.set_read_timeout(Some(left))?;
            match self.socket.read() {
                Ok(Message::Text(text)) => return Ok(Received::Message(text.to_string())),
                Ok(Message::Binary(bytes)) => return Ok(Received::Message(readable(bytes.to_vec())?)),
                Ok(_control) => {}
                Err(Error::ConnectionClosed) => return Ok(Received::End),
                Err(Error::Io(error)) if is_late(&error) => return Ok(Received::Late),
                Err(error) => return Err(broken(error)),
            }
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        if let Some(message) = self.pieces.last() {
            self.write(message)?;
        }
        match self.socket.close(None).and_then(|()| self.socket.flush()) {
            Ok(()) | Err(Error::ConnectionClosed) => Ok(()),
            Err(error) => Err(broken(error)),
        }
    }

    fn answers_after_the_end(&self) -> bool {
        false
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn broken(error: Error) -> io::Error {
    match error {
        Error::Io(error) => error,
        Error::Http(response) => io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{}: {}",
                response.status(),
                String::from_utf8_lossy(response.body().as_deref().unwrap_or_default())
            ),
        ),
        other => io::Error::new(io::ErrorKind::ConnectionAborted, other.to_string()),
    }
}
