//! `rex read`: a file's bytes.

use client::v1::FsRead;

use crate::app::App;
use crate::args::Read;
use crate::failure::{Failure, Status};
use crate::output;

/// The most that one answer is asked to hold.
const MOST_AT_ONCE: u64 = 32 * 1024 * 1024;

/// Prints a file, in as many requests as it takes; with `--json` the answer to one.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Read) -> Result<Status, Failure> {
    let (app, path) = App::for_path(target, json, &ask.path)?;
    let session = app.session().await?;
    if json {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let wanted = ask.length.unwrap_or(client::files::READ_CHUNK_BYTES).min(MOST_AT_ONCE);
        let (offset, length) = (Some(number(ask.offset)), Some(number(wanted)));
        let params = FsRead { session_id: session.id(), path, offset, length, encoding: None, hash: None };
        output::json_line(&session.call(&params).await?)?;
    } else {
        let mut place = ask.offset;
        let end = ask.length.map_or(u64::MAX, |length| place.saturating_add(length));
        while place < end {
            let wanted = ask.length.map(|_| end - place);
            let (bytes, about) = session.files().read(&path, place, wanted).await?;
            output::write_out(&bytes)?;
            place += bytes.len() as u64;
            if bytes.is_empty() || !about.truncated {
                break;
            }
        }
    }
    session.close().await.ok();
    Ok(Status::OK)
}
