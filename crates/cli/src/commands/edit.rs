//! `rex edit`: replaces text in a file.

use client::v1::FsEdit;

use crate::app::App;
use crate::args::EditArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// Replaces the one occurrence, or all with `--all`.
pub(super) async fn run(target: Option<&str>, json: bool, args: EditArgs) -> Result<CommandStatus, Failure> {
    if args.old.is_empty() {
        return Err(Failure::new("cannot edit: OLD is empty")
            .hint("check for an unset variable; `rex write` replaces a whole file"));
    }
    let (app, path) = App::for_path(target, json, &args.path)?;
    let session = app.session().await?;
    let params = FsEdit {
        path,
        old_string: args.old,
        new_string: args.new,
        replace_all: args.all,
        ..FsEdit::default()
    };
    let edited = session.files().edit(params).await.map_err(edit_failure)?;
    session.close().await.ok();
    match json {
        true => output::json_line(&edited)?,
        false => output::note(format_args!("{}: {} replaced", edited.path, edited.replacements)),
    }
    Ok(CommandStatus::OK)
}

/// Adds a hint for text that does not occur exactly once.
fn edit_failure(error: client::Error) -> Failure {
    let failure = Failure::from(error);
    match failure.hint.is_none() {
        true => failure.hint("OLD must occur exactly once: include more lines around it, or pass --all"),
        false => failure,
    }
}
