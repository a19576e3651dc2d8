//! `rex patch`: applies a patch from stdin, completely or not at all.

use std::io::Read as _;

use client::v1::FsPatchResult;

use crate::app::App;
use crate::args::PatchArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;

/// Applies the patch and lists the changed files.
pub(super) async fn run(app: &App, args: PatchArgs) -> Result<CommandStatus, Failure> {
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    let session = app.session().await?;
    let cwd = args.cwd.as_deref().map(|cwd| app.path(cwd)).or_else(|| app.choice.cwd.clone());
    let patched = session.files().patch(&text, cwd.as_deref()).await.map_err(patch_failure)?;
    session.close().await.ok();
    match app.json {
        true => output::json_line(&patched)?,
        false => show(&patched)?,
    }
    Ok(CommandStatus::OK)
}

fn show(patched: &FsPatchResult) -> Result<(), Failure> {
    for (sign, paths) in [('A', &patched.added), ('M', &patched.updated), ('D', &patched.deleted)] {
        for path in paths {
            output::line(format_args!("{sign} {}", output::name(path)))?;
        }
    }
    for moved in &patched.moved {
        output::line(format_args!("R {} -> {}", output::name(&moved.from), output::name(&moved.to)))?;
    }
    Ok(())
}

fn patch_failure(error: client::Error) -> Failure {
    let failure = Failure::from(error);
    match failure.hint.is_none() {
        true => failure.hint("a patch starts with `*** Begin Patch` and ends with `*** End Patch`, see `rex patch -h`; for a git diff: git diff | rex exec -- git apply"),
        false => failure,
    }
}
