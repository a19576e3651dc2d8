//! `rexhub`: reads what is asked, does it, and ends with 1 if that failed.

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
            // Nobody is left to tell if stderr is gone.
            writeln!(std::io::stderr(), "rexhub: {error:#}").ok();
            ExitCode::FAILURE
        }
    }
}
