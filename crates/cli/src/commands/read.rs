//! `rex read`: prints a file.

use client::v1::FsRead;

use crate::app::App;
use crate::args::ReadArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// The maximum length of one request with `--json`.
const MAX_JSON_READ: u64 = 32 * 1024 * 1024;

/// Prints a file, in as many requests as needed; with `--json`, prints the result of one request.
pub(super) async fn run(target: Option<&str>, json: bool, args: ReadArgs) -> Result<CommandStatus, Failure> {
    let (app, path) = App::for_path(target, json, &args.path)?;
    let session = app.session().await?;
    if json {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let wanted = args.length.unwrap_or(client::files::READ_CHUNK_BYTES).min(MAX_JSON_READ);
        let (offset, length) = (Some(number(args.offset)), Some(number(wanted)));
        let params = FsRead { session_id: session.id(), path, offset, length, encoding: None, hash: None };
        output::json_line(&session.call(&params).await?)?;
    } else {
        let mut offset = args.offset;
        let end = args.length.map_or(u64::MAX, |length| offset.saturating_add(length));
        while offset < end {
            let wanted = args.length.map(|_| end - offset);
            let (bytes, about) = session.files().read(&path, offset, wanted).await?;
            output::write_out(&bytes)?;
            offset += bytes.len() as u64;
            if bytes.is_empty() || !about.truncated {
                break;
            }
        }
    }
    session.close().await.ok();
    Ok(CommandStatus::OK)
}
