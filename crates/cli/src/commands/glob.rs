//! `rex glob`: paths by pattern.

use client::v1::FsGlob;

use crate::app::App;
use crate::args::Glob;
use crate::failure::{Failure, Status};
use crate::output;

/// Prints the paths, one per line; status 1 if there are none.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Glob) -> Result<Status, Failure> {
    let (app, path) = App::for_path(target, json, ask.path.as_deref().unwrap_or_default())?;
    let session = app.session().await?;
    let cwd = (!path.is_empty()).then_some(path);
    let params = FsGlob { pattern: ask.pattern, cwd, ..FsGlob::default() };
    let found = session.files().glob(params).await?;
    session.close().await.ok();
    let text: String = found.matches.iter().map(|path| format!("{}\n", output::name(path))).collect();
    match json {
        true => output::json_line(&found)?,
        false => output::write_out(text.as_bytes())?,
    }
    if found.truncated && !json {
        output::remark("there are more: make the pattern narrower");
    }
    Ok(match found.matches.is_empty() {
        true => Status::NOTHING,
        false => Status::OK,
    })
}
