//! `rex edit`: replace text in a file.

use client::v1::FsEdit;

use crate::app::App;
use crate::args::Edit;
use crate::failure::{Failure, Status};
use crate::output;

/// Replaces the one place, or with `--all` every place.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Edit) -> Result<Status, Failure> {
    let (app, path) = App::for_path(target, json, &ask.path)?;
    let session = app.session().await?;
    let params =
        FsEdit { path, old_string: ask.old, new_string: ask.new, replace_all: ask.all, ..FsEdit::default() };
    let edited = session.files().edit(params).await?;
    session.close().await.ok();
    match json {
        true => output::json_line(&edited)?,
        false => output::remark(format_args!("{} changed in {} place(s)", edited.path, edited.replacements)),
    }
    Ok(Status::OK)
}
