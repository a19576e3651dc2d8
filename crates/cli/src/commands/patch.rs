//! `rex patch`: apply a patch from stdin, whole or not at all.

use std::io::Read as _;

use client::v1::FsPatchResult;

use crate::app::App;
use crate::args::Patch;
use crate::failure::{Failure, Status};
use crate::output;

/// Applies it and names the files.
pub(super) async fn run(app: &App, ask: Patch) -> Result<Status, Failure> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    let session = app.session().await?;
    let cwd = ask.cwd.as_deref().map(|cwd| app.path(cwd)).or_else(|| app.choice.cwd.clone());
    let patched = session.files().patch(&text, cwd.as_deref()).await.map_err(not_patched)?;
    session.close().await.ok();
    match app.json {
        true => output::json_line(&patched)?,
        false => show(&patched)?,
    }
    Ok(Status::OK)
}

fn show(patched: &FsPatchResult) -> Result<(), Failure> {
    for (sign, paths) in [('A', &patched.added), ('M', &patched.updated), ('D', &patched.deleted)] {
        for path in paths {
            output::line(format_args!("{sign} {path}"))?;
        }
    }
    for moved in &patched.moved {
        output::line(format_args!("R {} -> {}", moved.from, moved.to))?;
    }
    Ok(())
}

fn not_patched(error: client::Error) -> Failure {
    let failure = Failure::from(error);
    match failure.hint.is_none() {
        true => failure.hint("a patch is written between `*** Begin Patch` and `*** End Patch`, see rex patch -h; for a diff of git: git diff | rex exec -- git apply"),
        false => failure,
    }
}
