//! `rex write`: writes stdin to a file.

use client::v1::{FsWrite, FsWriteResult};
use client::{Files, Session, stdio};
use tokio::io::AsyncReadExt as _;

use crate::app::App;
use crate::args::WriteArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// The maximum size of one request, and so of an atomic write.
const CHUNK: usize = 16 * 1024 * 1024;

/// Writes stdin to the file.
pub(super) async fn run(target: Option<&str>, json: bool, args: WriteArgs) -> Result<CommandStatus, Failure> {
    let (app, path) = App::for_path(target, json, &args.path)?;
    let session = app.session().await?;
    let written = write(&session, &path, mode(&args)).await?;
    session.close().await.ok();
    if json {
        output::json_line(&written)?;
    }
    Ok(CommandStatus::OK)
}

fn mode(args: &WriteArgs) -> &'static str {
    match (args.append, args.create) {
        (true, _) => "append",
        (false, true) => "create",
        (false, false) => "replace",
    }
}

/// Writes the first chunk in the given mode and appends the rest. Nothing is written before the first chunk is complete,
/// so that a file of at most one chunk is written atomically.
async fn write(session: &Session, path: &str, mode: &str) -> Result<FsWriteResult, Failure> {
    let mut stdin = stdio::input(rustix::stdio::stdin())?;
    let (first, mut is_last) = read_chunk(&mut stdin).await?;
    let mut written = put(session, path, &first, mode).await?;
    while !is_last {
        let (next, ends) = read_chunk(&mut stdin).await?;
        is_last = ends;
        if !next.is_empty() {
            let more = put(session, path, &next, "append").await?;
            written.bytes_written += more.bytes_written;
            written.mtime = more.mtime;
        }
    }
    Ok(written)
}

async fn read_chunk(stdin: &mut stdio::Input) -> Result<(Vec<u8>, bool), Failure> {
    let mut bytes = Vec::new();
    let mut limited = stdin.take(CHUNK as u64);
    limited.read_to_end(&mut bytes).await?;
    let is_last = bytes.len() < CHUNK;
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
