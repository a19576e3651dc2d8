//! Requests to the local API of the host, each on a connection of its own.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// Bytes of one input.
pub(super) const MAX_INPUT: usize = 4 * 1024;
/// The length of a response.
const MAX_RESPONSE: u64 = 1024 * 1024;

/// A client of the local API.
pub(super) struct LocalClient {
    socket: PathBuf,
}

impl LocalClient {
    pub(super) fn new(socket: PathBuf) -> LocalClient {
        LocalClient { socket }
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.request("GET", path, "").await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.request("POST", path, &body.to_string()).await
    }

    async fn request(&self, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
        let absent = || format!("no host at {}; start one with `rexd host --hub URL`", self.socket.display());
        let mut stream = UnixStream::connect(&self.socket).await.with_context(absent)?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: host\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        stream.take(MAX_RESPONSE).read_to_string(&mut response).await?;
        let (head, body) = response.split_once("\r\n\r\n").context("the host sent no response")?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        match status {
            "204" => Ok(Value::Null),
            "200" => Ok(serde_json::from_str(body)?),
            _ => bail!("the host refused: {body}"),
        }
    }
}
