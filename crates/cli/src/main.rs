//! `rex`: reads what is asked, does it, and ends with the status that says how it went.

use std::process::ExitCode;

use cli::args;
use cli::failure::{Failure, OWN_FAILURE};
use cli::{commands, output};

fn main() -> ExitCode {
    let args = match args::parse() {
        Ok(args) => args,
        Err(error) => return misused(&error),
    };
    let wants_json = args.everywhere.json;
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

/// What was typed is no command, or asks for help. The status of a mistake is ours, not one a command could have.
fn misused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Nobody is left to tell if stdout is gone.
        error.print().ok();
        return ExitCode::SUCCESS;
    }
    if std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json") {
        let text = error.to_string();
        return output::report(&Failure::new(text.trim_start_matches("error: ").trim()), true);
    }
    error.print().ok();
    ExitCode::from(OWN_FAILURE)
}
