//! `rex write`: a file from stdin.

use client::v1::{FsWrite, FsWriteResult};
use client::{Files, Session, stdio};
use tokio::io::AsyncReadExt as _;

use crate::app::App;
use crate::args::Write;
use crate::failure::{Failure, Status};
use crate::output;

/// What goes in one request, and is written in one step.
const PIECE: usize = 16 * 1024 * 1024;

/// Writes what comes on stdin.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Write) -> Result<Status, Failure> {
    let (app, path) = App::for_path(target, json, &ask.path)?;
    let session = app.session().await?;
    let written = write(&session, &path, mode(&ask)).await?;
    session.close().await.ok();
    if json {
        output::json_line(&written)?;
    }
    Ok(Status::OK)
}

fn mode(ask: &Write) -> &'static str {
    match (ask.append, ask.create) {
        (true, _) => "append",
        (false, true) => "create",
        (false, false) => "replace",
    }
}

/// The first piece as asked, the rest behind it. Nothing is written before stdin has given the first piece, and what
/// fits into one piece is written in one step.
async fn write(session: &Session, path: &str, mode: &str) -> Result<FsWriteResult, Failure> {
    let mut stdin = stdio::input(rustix::stdio::stdin())?;
    let (first, mut is_last) = piece(&mut stdin).await?;
    let mut written = put(session, path, &first, mode).await?;
    while !is_last {
        let (next, ends) = piece(&mut stdin).await?;
        is_last = ends;
        if !next.is_empty() {
            let more = put(session, path, &next, "append").await?;
            written.bytes_written += more.bytes_written;
            written.mtime = more.mtime;
        }
    }
    Ok(written)
}

async fn piece(stdin: &mut stdio::Input) -> Result<(Vec<u8>, bool), Failure> {
    let mut bytes = Vec::new();
    let mut limited = stdin.take(PIECE as u64);
    limited.read_to_end(&mut bytes).await?;
    let is_last = bytes.len() < PIECE;
    Ok((bytes, is_last))
}

async fn put(session: &Session, path: &str, bytes: &[u8], mode: &str) -> Result<FsWriteResult, Failure> {
    let (content, encoding) = Files::encode_content(bytes);
    let params = FsWrite {
        path: path.to_owned(),
        content,
        encoding: Some(encoding.to_owned()),
        mode: Some(mode.to_owned()),
        mkdir_parents: true,
        ..FsWrite::default()
    };
    Ok(session.files().write_with(params).await?)
}
