//! Development commands: `cargo xtask tidy` checks the rules of the repository, `cargo xtask generate` writes generated files.

mod command_line;
mod differences;
mod generate;
mod reference;
mod relay;
mod tidy;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | generate [--check]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["tidy"] => tidy::run(),
        ["generate"] => generate::run(generate::Mode::Write),
        ["generate", "--check"] => generate::run(generate::Mode::Check),
        _ => Err(anyhow::anyhow!(USAGE)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a command-line tool")]
fn print_error(text: &str) {
    eprintln!("{text}");
}
