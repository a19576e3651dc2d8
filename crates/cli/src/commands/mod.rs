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

async fn dispatch(args: Args) -> Result<Status, Failure> {
    let (target, json) = (args.target.as_deref(), args.json);
    match args.command {
        Ask::Approvals(ask) => approvals::run(&App::new(target, json)?, ask).await,
        Ask::Attach(ask) => attach::run(&App::new(target, json)?, ask).await,
        Ask::Call(ask) => call::run(target, json, ask).await,
        Ask::Completions(ask) => completions::run(&ask),
        Ask::Cp(ask) => cp::run(target, json, ask).await,
        Ask::Edit(ask) => edit::run(target, json, ask).await,
        Ask::Exec(ask) => exec::run(&App::new(target, json)?, ask).await,
        Ask::Glob(ask) => glob::run(target, json, ask).await,
        Ask::Grep(ask) => grep::run(target, json, ask).await,
        Ask::Kill(ask) => kill::run(&App::new(target, json)?, ask).await,
        Ask::Logs(ask) => logs::run(&App::new(target, json)?, ask).await,
        Ask::Ls(ask) => ls::run(target, json, ask).await,
        Ask::Man(ask) => man::run(&ask),
        Ask::Mcp(ask) => mcp::run(target, json, ask).await,
        Ask::Patch(ask) => patch::run(&App::new(target, json)?, ask).await,
        Ask::Ps(ask) => ps::run(&App::new(target, json)?, ask).await,
        Ask::Read(ask) => read::run(target, json, ask).await,
        Ask::Shell(ask) => shell::run(&App::new(target, json)?, ask).await,
        Ask::Stat(ask) => stat::run(target, json, ask).await,
        Ask::Target(ask) => target::run(target, json, ask).await,
        Ask::Tools(ask) => tools::run(target, json, ask).await,
        Ask::Up(ask) => up::run(ask).await,
        Ask::Wait(ask) => wait::run(&App::new(target, json)?, ask).await,
        Ask::Watch(ask) => watch::run(target, json, ask).await,
        Ask::Write(ask) => write::run(target, json, ask).await,
    }
}
