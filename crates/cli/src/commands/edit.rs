//! `rex edit`: replace text in a file.

use client::v1::FsEdit;

use crate::app::App;
use crate::args::Edit;
use crate::failure::{Failure, Status};
use crate::output;

/// Replaces the one place, or with `--all` every place.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Edit) -> Result<Status, Failure> {
    if ask.old.is_empty() {
        return Err(Failure::new("the text to replace is empty")
            .hint("an empty variable? `rex write` replaces a whole file"));
    }
    let (app, path) = App::for_path(target, json, &ask.path)?;
    let session = app.session().await?;
    let params =
        FsEdit { path, old_string: ask.old, new_string: ask.new, replace_all: ask.all, ..FsEdit::default() };
    let edited = session.files().edit(params).await.map_err(not_edited)?;
    session.close().await.ok();
    match json {
        true => output::json_line(&edited)?,
        false => output::remark(format_args!("{} changed in {} place(s)", edited.path, edited.replacements)),
    }
    Ok(Status::OK)
}

/// What to do when the text is not there, or more than once.
fn not_edited(error: client::Error) -> Failure {
    let failure = Failure::from(error);
    match failure.hint.is_none() {
        true => failure
            .hint("OLD must occur exactly once: give more of the lines around it, or --all for every place"),
        false => failure,
    }
}
