//! `rex`: reads what is asked, does it, and ends with the status that says how it went.

use std::process::ExitCode;

use clap::Parser as _;
use cli::args::Args;
use cli::{commands, output};

fn main() -> ExitCode {
    let args = Args::parse();
    let wants_json = args.json;
    // One thread: a command line waits for one thing at a time, and starts sooner.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(commands::run(args));
            // What still reads a terminal or waits for a child must not keep us.
            runtime.shutdown_background();
            done
        }
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(status) => status.into(),
        Err(failure) => output::report(&failure, wants_json),
    }
}
