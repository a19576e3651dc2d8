//! `rex stat`: what a path is.

use client::v1::FsStatResult;

use crate::app::App;
use crate::args::Stat;
use crate::failure::{Failure, Status};
use crate::output;
use crate::table::plain;

/// Tells; status 1 if nothing is there.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Stat) -> Result<Status, Failure> {
    let (app, path) = App::for_path(target, json, &ask.path)?;
    let session = app.session().await?;
    let stat = session.files().stat(&path).await?;
    session.close().await.ok();
    match json {
        true => output::json_line(&stat)?,
        false => show(&stat)?,
    }
    Ok(match stat.exists {
        true => Status::OK,
        false => Status::NOTHING,
    })
}

fn show(stat: &FsStatResult) -> Result<(), Failure> {
    if !stat.exists {
        output::remark(format_args!("{}: nothing is there", plain(&stat.path)));
        return Ok(());
    }
    output::line(output::name(&stat.path))?;
    let member = |name: &str, value: Option<String>| match value {
        Some(value) => output::line(format_args!("  {name:6} {value}")),
        None => Ok(()),
    };
    member("type", stat.kind.clone())?;
    member("size", stat.size.map(|size| size.to_string()))?;
    member("mode", stat.mode.clone())?;
    member("owner", stat.uid.zip(stat.gid).map(|(uid, gid)| format!("{uid}:{gid}")))?;
    member("mtime", stat.mtime.map(super::ls::time))?;
    member("link", stat.symlink_target.as_deref().map(output::name))
}
