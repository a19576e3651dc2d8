//! The kept-alive connection: opened with the first request, and again when the daemon has closed it in between.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use link::task::OwnedTask;
use tokio::net::TcpStream;
use wire::stringd::v0_1::USER_HEADER;

use super::StringdError;

/// A whole answer. Its body is what arrived, also if the connection ended within it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: String,
}

/// A connection to one address.
#[derive(Debug)]
pub(super) struct Connection {
    address: SocketAddr,
    open: Option<OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    sender: SendRequest<Full<Bytes>>,
    _task: OwnedTask<hyper::Result<()>>,
}

impl Connection {
    pub(super) fn new(address: SocketAddr) -> Connection {
        Connection { address, open: None }
    }

    /// Sends one request, once.
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        user: Option<&str>,
        body: String,
    ) -> Result<Answer, StringdError> {
        let broken = |error: hyper::Error| StringdError::Broken(error.to_string());
        let invalid = |what: &str| StringdError::Refused { status: 0, reason: format!("invalid {what}") };
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| invalid("path"))?;
        let headers = request.headers_mut();
        let host = HeaderValue::from_str(&self.address.to_string()).map_err(|_| invalid("address"))?;
        headers.insert(header::HOST, host);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(user) = user {
            headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
            headers.insert(USER_HEADER, HeaderValue::from_str(user).map_err(|_| invalid("user"))?);
        }
        let mut open = self.open().await?;
        let response = open.sender.send_request(request).await.map_err(broken)?;
        let (status, mut body) = (response.status(), response.into_body());
        let mut bytes = Vec::new();
        let is_complete = loop {
            match body.frame().await {
                Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                Some(Err(_cut)) => break false,
                None => break true,
            }
        };
        if is_complete {
            self.open = Some(open);
        }
        Ok(Answer { status, body: String::from_utf8_lossy(&bytes).into_owned() })
    }

    /// The open connection if it can be used, or a new one.
    async fn open(&mut self) -> Result<OpenConnection, StringdError> {
        if let Some(mut open) = self.open.take()
            && open.sender.ready().await.is_ok()
        {
            return Ok(open);
        }
        let address = self.address;
        let unreachable = |reason: String| StringdError::Unreachable { address, reason };
        let stream = TcpStream::connect(address).await.map_err(|error| unreachable(error.to_string()))?;
        // Small requests must not wait for an acknowledgement.
        stream.set_nodelay(true).map_err(|error| unreachable(error.to_string()))?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = handshake.map_err(|error| unreachable(error.to_string()))?;
        Ok(OpenConnection { sender, _task: OwnedTask::spawn(connection) })
    }
}
