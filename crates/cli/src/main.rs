//! `rex`: parses the command line, runs the command and exits with its status.

use std::process::ExitCode;

use cli::args;
use cli::failure::{Failure, OWN_FAILURE};
use cli::{commands, output};

fn main() -> ExitCode {
    let args = match args::parse() {
        Ok(args) => args,
        Err(error) => return misused(&error),
    };
    let wants_json = args.global.json;
    // A single-threaded runtime starts faster, and a command line has one thing to wait for at a time.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(commands::run(args));
            // A blocked read of the terminal or a wait for a child must not delay the exit.
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

/// Prints a usage error, or help or the version if that is what was requested. A usage error exits with 255, which
/// no remote command can return by accident.
fn misused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // If stdout is closed, there is nowhere to report it.
        error.print().ok();
        return ExitCode::SUCCESS;
    }
    let wants_json =
        std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json");
    if wants_json {
        let text = error.to_string();
        let failure = Failure::new(text.trim_start_matches("error: ").trim());
        let failure = Failure { hint: args::misuse_hint().map(str::to_owned), ..failure };
        return output::report(&failure, true);
    }
    error.print().ok();
    if let Some(hint) = args::misuse_hint() {
        output::hint(hint);
    }
    ExitCode::from(OWN_FAILURE)
}
