//! `rex glob`: finds files by pattern.

use client::v1::FsGlob;

use crate::app::App;
use crate::args::GlobArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::relative_path::RelativePaths;

/// Prints the paths, one per line; status 1 if there are none.
pub(super) async fn run(target: Option<&str>, json: bool, args: GlobArgs) -> Result<CommandStatus, Failure> {
    let (app, path) = App::for_path(target, json, args.path.as_deref().unwrap_or_default())?;
    let session = app.session().await?;
    let cwd = (!path.is_empty()).then_some(path);
    let params = FsGlob { pattern: args.pattern, cwd, ..FsGlob::default() };
    let found = session.files().glob(params).await?;
    session.close().await.ok();
    let paths = RelativePaths::new(&app, &session);
    match json {
        true => output::json_line(&found)?,
        false => {
            let text: String = found.matches.iter().map(|path| format!("{}\n", paths.show(path))).collect();
            // Each path is escaped already.
            output::write_out(text.as_bytes())?;
        }
    }
    if found.truncated && !json {
        output::note("the list is truncated: use a narrower pattern");
    }
    Ok(match found.matches.is_empty() {
        true => CommandStatus::UNSUCCESSFUL,
        false => CommandStatus::OK,
    })
}
