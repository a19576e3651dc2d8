//! The commands, one file each.

mod approvals;
mod attach;
mod call;
mod complete;
mod completions;
mod cp;
mod doctor;
mod edit;
mod exec;
mod glob;
mod grep;
mod hosts;
mod kill;
mod login;
mod logout;
mod logs;
mod ls;
mod man;
mod mcp;
mod mkdir;
mod mv;
mod patch;
mod processes;
mod prune;
mod ps;
mod read;
mod rm;
mod rsh;
mod runs;
mod shell;
mod stat;
mod string;
mod target;
mod tools;
mod up;
mod wait;
mod watch;
mod write;

use std::pin::Pin;

use crate::app::{App, close_all_sessions};
use crate::args::{RexArgs, RexCommand};
use crate::failure::{CommandStatus, Failure};

/// Runs a command; after a failure, closes the sessions it left open.
pub async fn run(args: RexArgs) -> Result<CommandStatus, Failure> {
    let done = dispatch(args).await;
    if done.is_err() {
        close_all_sessions().await;
    }
    done
}

/// A boxed command.
type CommandFuture<'a> = Pin<Box<dyn Future<Output = Result<CommandStatus, Failure>> + 'a>>;

async fn dispatch(args: RexArgs) -> Result<CommandStatus, Failure> {
    let (target, json) = (args.global.target.as_deref(), args.global.json);
    match args.command {
        RexCommand::Approvals(args) => {
            boxed(async move || approvals::run(&App::new(target, json)?, args).await).await
        }
        RexCommand::Attach(args) => {
            boxed(async move || attach::run(&App::new(target, json)?, args).await).await
        }
        RexCommand::Call(args) => boxed(async move || call::run(target, json, args).await).await,
        RexCommand::Completions(args) => completions::run(&args),
        RexCommand::Complete(args) => complete::run(&args),
        RexCommand::Cp(args) => boxed(async move || cp::run(target, json, args).await).await,
        RexCommand::Doctor => boxed(async move || doctor::run(json).await).await,
        RexCommand::Edit(args) => boxed(async move || edit::run(target, json, args).await).await,
        RexCommand::Exec(args) => {
            boxed(async move || {
                let app = App::new(target, json).map_err(exec::with_tty_hint)?;
                exec::run(&app, args).await
            })
            .await
        }
        RexCommand::Glob(args) => boxed(async move || glob::run(target, json, args).await).await,
        RexCommand::Grep(args) => boxed(async move || grep::run(target, json, args).await).await,
        RexCommand::Hosts => boxed(async move || hosts::run(target, json).await).await,
        RexCommand::Kill(args) => boxed(async move || kill::run(&App::new(target, json)?, args).await).await,
        RexCommand::Logs(args) => boxed(async move || logs::run(&App::new(target, json)?, args).await).await,
        RexCommand::Login(args) => boxed(async move || login::run(json, args).await).await,
        RexCommand::Logout(args) => boxed(async move || logout::run(json, args).await).await,
        RexCommand::Ls(args) => boxed(async move || ls::run(target, json, args).await).await,
        RexCommand::Man(args) => man::run(&args),
        RexCommand::Mcp(args) => boxed(async move || mcp::run(target, json, args).await).await,
        RexCommand::Mkdir(args) => boxed(async move || mkdir::run(target, json, args).await).await,
        RexCommand::Mv(args) => boxed(async move || mv::run(target, json, args).await).await,
        RexCommand::Patch(args) => {
            boxed(async move || patch::run(&App::new(target, json)?, args).await).await
        }
        RexCommand::Prune => boxed(async move || prune::run(&App::new(target, json)?).await).await,
        RexCommand::Ps(args) => boxed(async move || ps::run(&App::new(target, json)?, args).await).await,
        RexCommand::Read(args) => boxed(async move || read::run(target, json, args).await).await,
        RexCommand::Rm(args) => boxed(async move || rm::run(target, json, args).await).await,
        RexCommand::Rsh(args) => boxed(async move || rsh::run(json, &args).await).await,
        RexCommand::Runs(args) => boxed(async move || runs::run(target, json, args).await).await,
        RexCommand::Shell(args) => {
            boxed(async move || shell::run(&App::new(target, json)?, args).await).await
        }
        RexCommand::Stat(args) => boxed(async move || stat::run(target, json, args).await).await,
        RexCommand::String(args) => boxed(async move || string::run(json, args).await).await,
        RexCommand::Target(args) => boxed(async move || target::run(target, json, args).await).await,
        RexCommand::Tools(args) => boxed(async move || tools::run(target, json, args).await).await,
        RexCommand::Up(args) => boxed(async move || up::run(args).await).await,
        RexCommand::Wait(args) => boxed(async move || wait::run(&App::new(target, json)?, args).await).await,
        RexCommand::Watch(args) => boxed(async move || watch::run(target, json, args).await).await,
        RexCommand::Write(args) => boxed(async move || write::run(target, json, args).await).await,
    }
}

/// Boxes a command. Without this, the future of every command would be as large as the largest one, and each start
/// would touch that many pages; for the same reason the function is not inlined.
#[inline(never)]
fn boxed<'a, F: Future<Output = Result<CommandStatus, Failure>> + 'a>(
    command: impl FnOnce() -> F,
) -> CommandFuture<'a> {
    Box::pin(command())
}
