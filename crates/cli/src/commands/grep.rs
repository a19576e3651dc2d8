//! `rex grep`: searches file contents.

use client::v1::{FsGrep, FsGrepResult};
use serde_json::json;

use crate::app::App;
use crate::args::GrepArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::relative_path::RelativePaths;

/// Prints the matches; status 1 if there are none.
pub(super) async fn run(target: Option<&str>, json: bool, args: GrepArgs) -> Result<CommandStatus, Failure> {
    let (app, path) = App::for_path(target, json, args.path.as_deref().unwrap_or_default())?;
    let session = app.session().await?;
    let path = (!path.is_empty()).then_some(path);
    let found = session.files().grep(params(args, path)).await?;
    session.close().await.ok();
    match json {
        true => {
            for matched in &found.matches {
                output::json_line(matched)?;
            }
            output::json_line(&json!({ "matches": found.matches.len(), "truncated": found.truncated }))?;
        }
        false => show(&found, &RelativePaths::new(&app, &session))?,
    }
    Ok(match found.matches.is_empty() {
        true => CommandStatus::UNSUCCESSFUL,
        false => CommandStatus::OK,
    })
}

fn params(args: GrepArgs, path: Option<String>) -> FsGrep {
    let case = match (args.ignore_case, args.case_sensitive) {
        (true, _) => "insensitive",
        (false, true) => "sensitive",
        (false, false) => "smart",
    };
    let context = (args.context > 0).then_some(i64::from(args.context));
    FsGrep {
        pattern: args.pattern,
        path,
        literal: args.literal,
        case: Some(case.to_owned()),
        include: args.include,
        exclude: args.exclude,
        before: context,
        after: context,
        hidden: args.hidden,
        no_ignore: args.no_ignore,
        max_matches: args.max_matches.map(i64::from),
        ..FsGrep::default()
    }
}

fn show(found: &FsGrepResult, paths: &RelativePaths) -> Result<(), Failure> {
    let mut text = String::new();
    let has_context = found.matches.iter().any(|one| !one.before.is_empty() || !one.after.is_empty());
    for (index, one) in found.matches.iter().enumerate() {
        if has_context && index > 0 {
            text.push_str("--\n");
        }
        let path = paths.show(&one.path);
        let first = one.line.saturating_sub(one.before.len() as u64);
        for (line, before) in (first..).zip(&one.before) {
            text.push_str(&format!("{path}-{line}-{}\n", output::name(before)));
        }
        text.push_str(&format!("{path}:{}:{}\n", one.line, output::name(&one.text)));
        for (line, after) in (one.line + 1..).zip(&one.after) {
            text.push_str(&format!("{path}-{line}-{}\n", output::name(after)));
        }
    }
    // Each part is escaped already.
    output::write_out(text.as_bytes())?;
    if found.truncated {
        output::note("the list is truncated: use a narrower pattern, or raise the limit with -m");
    }
    Ok(())
}
