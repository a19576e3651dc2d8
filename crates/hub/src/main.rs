//! `rexhub`: runs the command of its arguments and exits with status 1 if it failed.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use hub::args::Args;
use hub::commands;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    match commands::run(args.command).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Ignored: stderr may be closed.
            writeln!(std::io::stderr(), "rexhub: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}
