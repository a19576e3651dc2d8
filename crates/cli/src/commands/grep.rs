//! `rex grep`: lines by pattern.

use client::v1::{FsGrep, FsGrepResult};
use serde_json::json;

use crate::app::App;
use crate::args::Grep;
use crate::failure::{Failure, Status};
use crate::output;

/// Prints the matches; status 1 if there are none.
pub(super) async fn run(target: Option<&str>, json: bool, ask: Grep) -> Result<Status, Failure> {
    let (app, path) = App::for_path(target, json, ask.path.as_deref().unwrap_or_default())?;
    let session = app.session().await?;
    let path = (!path.is_empty()).then_some(path);
    let found = session.files().grep(params(ask, path)).await?;
    session.close().await.ok();
    match json {
        true => {
            for matched in &found.matches {
                output::json_line(matched)?;
            }
            output::json_line(&json!({ "matches": found.matches.len(), "truncated": found.truncated }))?;
        }
        false => show(&found)?,
    }
    Ok(match found.matches.is_empty() {
        true => Status::NOTHING,
        false => Status::OK,
    })
}

fn params(ask: Grep, path: Option<String>) -> FsGrep {
    let case = match (ask.ignore_case, ask.case_sensitive) {
        (true, _) => "insensitive",
        (false, true) => "sensitive",
        (false, false) => "smart",
    };
    let context = (ask.context > 0).then_some(i64::from(ask.context));
    FsGrep {
        pattern: ask.pattern,
        path,
        literal: ask.literal,
        case: Some(case.to_owned()),
        include: ask.include,
        exclude: ask.exclude,
        before: context,
        after: context,
        hidden: ask.hidden,
        no_ignore: ask.no_ignore,
        max_matches: ask.max_matches.map(i64::from),
        ..FsGrep::default()
    }
}

fn show(found: &FsGrepResult) -> Result<(), Failure> {
    let mut text = String::new();
    let has_context = found.matches.iter().any(|one| !one.before.is_empty() || !one.after.is_empty());
    for (place, one) in found.matches.iter().enumerate() {
        if has_context && place > 0 {
            text.push_str("--\n");
        }
        let first = one.line.saturating_sub(one.before.len() as u64);
        for (line, before) in (first..).zip(&one.before) {
            text.push_str(&format!("{}-{line}-{before}\n", one.path));
        }
        text.push_str(&format!("{}:{}:{}\n", one.path, one.line, one.text));
        for (line, after) in (one.line + 1..).zip(&one.after) {
            text.push_str(&format!("{}-{line}-{after}\n", one.path));
        }
    }
    output::write_out(text.as_bytes())?;
    if found.truncated {
        output::remark("there are more: narrow it, or raise it with -m");
    }
    Ok(())
}
