//! Copies from standard input to a file on a target, and from such a file to standard output.

use bytes::Bytes;
use client::Session;
use client::stdio;
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

use super::endpoint::{FileAttributes, FileKind};
use super::error::CopyError;
use super::large::PIECE;
use super::names;
use super::remote_end::RemoteEnd;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// The mode of a file that replaces another, until it is complete.
const PRIVATE_MODE: u32 = 0o600;

/// Writes standard input to a file, which appears when it is complete. It gets the mode of the file that it replaces; a
/// link stays, and the file it names is replaced. After `cancelled`, nothing is left behind.
pub async fn copy_from_stdin(
    session: &Session,
    path: &str,
    cancelled: &CancellationToken,
) -> Result<CommandStatus, Failure> {
    let remote = RemoteEnd::new(session, false);
    let (path, mode) = destination(&remote, path).await?;
    let part = names::part(&format!("{path}.{}", random_suffix()?));
    let sent = tokio::select! {
        biased;
        () = cancelled.cancelled() => Err(Failure::new("copy interrupted")),
        sent = send(&remote, &part, mode) => sent,
    };
    if sent.is_err() {
        // The first error is the one to report; a part of a stream cannot be resumed.
        remote.remove(&part).await.ok();
    }
    sent?;
    remote.commit(&part, &path).await.map_err(|error| error.failure)?;
    Ok(CommandStatus::OK)
}

/// The path to write, with a final symbolic link resolved, and the mode of the file there.
async fn destination(remote: &RemoteEnd, path: &str) -> Result<(String, Option<u32>), Failure> {
    let is_directory = || {
        Failure::new(format!("cannot write standard input to {path}: it is a directory"))
            .hint("name the file, as in `rex cp - :file`")
    };
    if path.ends_with('/') {
        return Err(is_directory());
    }
    match remote.follow(path).await.map_err(|error| error.failure)? {
        Some((_, found)) if found.kind == FileKind::Dir => Err(is_directory()),
        Some((path, found)) => Ok((path, found.attributes.mode)),
        None if remote.stat(path).await.map_err(|error| error.failure)?.is_some() => {
            Err(Failure::new(format!("cannot write {path}: it is a dangling symbolic link"))
                .hint("remove the link, or copy to another path"))
        }
        None => Ok((path.to_owned(), None)),
    }
}

/// Makes the partial file of each copy a different one: two streams cannot share it.
fn random_suffix() -> Result<String, Failure> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Failure::new(format!("cannot get random bytes: {error}")))?;
    Ok(hex::encode(bytes))
}

/// Sends standard input to a partial file, which gets its mode when it is complete. Without one, the umask decides.
async fn send(remote: &RemoteEnd, part: &str, mode: Option<u32>) -> Result<(), Failure> {
    let unreadable = |error: std::io::Error| Failure::new(format!("cannot read stdin: {error}"));
    let mut stdin = stdio::input(rustix::stdio::stdin()).map_err(unreadable)?;
    let mut how = "replace";
    let while_writing = FileAttributes { mode: mode.map(|_| PRIVATE_MODE), mtime: None };
    loop {
        let mut piece = Vec::new();
        let read = (&mut stdin).take(PIECE).read_to_end(&mut piece).await.map_err(unreadable)?;
        let is_end = read == 0 && how == "append";
        let attributes = if is_end { FileAttributes { mode, mtime: None } } else { while_writing };
        if is_end && mode.is_none() {
            return Ok(());
        }
        let bytes = Bytes::from(piece);
        let written = remote.write(part, &bytes, how, attributes).await;
        written.map_err(|error: CopyError| error.failure)?;
        if is_end {
            return Ok(());
        }
        how = "append";
    }
}

/// Writes a file of the target to standard output.
pub async fn copy_to_stdout(session: &Session, path: &str) -> Result<CommandStatus, Failure> {
    let mut at = 0;
    loop {
        let (bytes, about) = session.files().read(path, at, None).await?;
        output::write_out(&bytes)?;
        at += bytes.len() as u64;
        if bytes.is_empty() || !about.truncated {
            return Ok(CommandStatus::OK);
        }
    }
}
