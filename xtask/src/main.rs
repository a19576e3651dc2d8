//! Development commands: `cargo xtask tidy` checks the rules of the repository, `cargo xtask generate` writes generated files,
//! `cargo xtask web` builds the web application again and compares.

mod command_line;
mod differences;
mod generate;
mod reference;
mod relay;
mod tidy;
mod tree;
mod web;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy | generate [--check] | web";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["tidy"] => tidy::run(),
        ["generate"] => generate::run(generate::Mode::Write),
        ["generate", "--check"] => generate::run(generate::Mode::Check),
        ["web"] => web::compare(),
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
