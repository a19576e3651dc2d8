//! What is done for each thing that can be asked, one file each.

mod approvals;
mod attach;
mod call;
mod completions;
mod cp;
mod edit;
mod exec;
mod glob;
mod grep;
mod kill;
mod logs;
mod ls;
mod man;
mod mcp;
mod patch;
mod processes;
mod ps;
mod read;
mod shell;
mod stat;
mod target;
mod tools;
mod up;
mod wait;
mod watch;
mod write;

use std::pin::Pin;

use crate::app::{App, leave_all};
use crate::args::{Args, Ask};
use crate::failure::{Failure, Status};

/// Does what is asked, and leaves nothing open behind it.
pub async fn run(args: Args) -> Result<Status, Failure> {
    let done = dispatch(args).await;
    if done.is_err() {
        leave_all().await;
    }
    done
}

/// A command that is being done.
type Doing<'a> = Pin<Box<dyn Future<Output = Result<Status, Failure>> + 'a>>;

async fn dispatch(args: Args) -> Result<Status, Failure> {
    let (target, json) = (args.everywhere.target.as_deref(), args.everywhere.json);
    match args.command {
        Ask::Approvals(ask) => apart(async move || approvals::run(&App::new(target, json)?, ask).await).await,
        Ask::Attach(ask) => apart(async move || attach::run(&App::new(target, json)?, ask).await).await,
        Ask::Call(ask) => apart(async move || call::run(target, json, ask).await).await,
        Ask::Completions(ask) => completions::run(&ask),
        Ask::Cp(ask) => apart(async move || cp::run(target, json, ask).await).await,
        Ask::Edit(ask) => apart(async move || edit::run(target, json, ask).await).await,
        Ask::Exec(ask) => apart(async move || exec::run(&App::new(target, json)?, ask).await).await,
        Ask::Glob(ask) => apart(async move || glob::run(target, json, ask).await).await,
        Ask::Grep(ask) => apart(async move || grep::run(target, json, ask).await).await,
        Ask::Kill(ask) => apart(async move || kill::run(&App::new(target, json)?, ask).await).await,
        Ask::Logs(ask) => apart(async move || logs::run(&App::new(target, json)?, ask).await).await,
        Ask::Ls(ask) => apart(async move || ls::run(target, json, ask).await).await,
        Ask::Man(ask) => man::run(&ask),
        Ask::Mcp(ask) => apart(async move || mcp::run(target, json, ask).await).await,
        Ask::Patch(ask) => apart(async move || patch::run(&App::new(target, json)?, ask).await).await,
        Ask::Ps(ask) => apart(async move || ps::run(&App::new(target, json)?, ask).await).await,
        Ask::Read(ask) => apart(async move || read::run(target, json, ask).await).await,
        Ask::Shell(ask) => apart(async move || shell::run(&App::new(target, json)?, ask).await).await,
        Ask::Stat(ask) => apart(async move || stat::run(target, json, ask).await).await,
        Ask::Target(ask) => apart(async move || target::run(target, json, ask).await).await,
        Ask::Tools(ask) => apart(async move || tools::run(target, json, ask).await).await,
        Ask::Up(ask) => apart(async move || up::run(ask).await).await,
        Ask::Wait(ask) => apart(async move || wait::run(&App::new(target, json)?, ask).await).await,
        Ask::Watch(ask) => apart(async move || watch::run(target, json, ask).await).await,
        Ask::Write(ask) => apart(async move || write::run(target, json, ask).await).await,
    }
}

/// A command on the heap. All of them side by side on the stack would have every start touch as many pages as the largest
/// needs; for the same reason this is no part of whoever calls it.
#[inline(never)]
fn apart<'a, F: Future<Output = Result<Status, Failure>> + 'a>(command: impl FnOnce() -> F) -> Doing<'a> {
    Box::pin(command())
}
