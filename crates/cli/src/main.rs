//! `rex`: reads what is asked, does it, and ends with the status that says how it went.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
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

/// What a later version does.
const LATER: [&str; 3] = ["login", "hosts", "runs"];

/// What was typed is no command, or asks for help. The status of a mistake is ours, not one a command could have.
fn misused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Nobody is left to tell if stdout is gone.
        error.print().ok();
        return ExitCode::SUCCESS;
    }
    let wants_json =
        std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json");
    if let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand)
        && LATER.contains(&name.as_str())
    {
        let failure = Failure::new(format!("`rex {name}` is not in this version yet"))
            .hint("it is for machines behind a hub; `rex target list` shows the ones that are named here");
        return output::report(&failure, wants_json);
    }
    if wants_json {
        let text = error.to_string();
        return output::report(&Failure::new(text.trim_start_matches("error: ").trim()), true);
    }
    error.print().ok();
    ExitCode::from(OWN_FAILURE)
}
