//! `rexd`: serves one engine through the faces named in the configuration.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use daemon::cli::args::{self, CliCommand, ExecServerArgs, HELP, ServeArgs};
use daemon::cli::doctor::{Doctor, colours_wanted};
use daemon::config::{Config, ConfigArgs, Listeners, Paths, check_config};
use daemon::observe::{audit, log};
use daemon::{keeper, serve};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let command = match args::parse_as(&name, arguments) {
        Ok(command) => command,
        Err(error) => {
            complain(&error.to_string());
            return ExitCode::from(error.exit_code);
        }
    };
    match run(command) {
        Ok(code) => ExitCode::from(code),
        // Whoever reads our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("rexd: {}", story(&error)));
            ExitCode::FAILURE
        }
    }
}

fn run(command: CliCommand) -> anyhow::Result<u8> {
    let paths = Paths::from_environment();
    let out = &mut io::stdout().lock();
    match command {
        CliCommand::Help => out.write_all(HELP.as_bytes()).map(|()| 0).map_err(Into::into),
        CliCommand::Version => {
            writeln!(out, "rexd {}", env!("CARGO_PKG_VERSION")).map(|()| 0).map_err(Into::into)
        }
        CliCommand::CheckConfig(config) => Ok(check_config(&config, &paths, out)?),
        CliCommand::AuditVerify(file) => Ok(audit::verify_command(&file, out)?),
        CliCommand::AuditShow { show, config } => show_audit(&show, &config, &paths),
        CliCommand::Policy(command) => Ok(command.run(&paths, out)?),
        CliCommand::Doctor { json, config } => {
            let program_path = std::env::var_os("PATH");
            Ok(Doctor { config, paths, program_path, json, colours: colours_wanted() }.run(out)?)
        }
        CliCommand::Keeper => Ok(keeper::main()?),
        CliCommand::Serve(faces) => serve_faces(&faces, &paths),
        CliCommand::ExecServer(face) => serve_exec_server(&face, &paths),
    }
}

fn show_audit(show: &audit::ShowArgs, config: &ConfigArgs, paths: &Paths) -> anyhow::Result<u8> {
    let file = match &show.file {
        Some(file) => file.clone(),
        None => Config::load(config, paths)?.audit.path.context("no audit file is configured; name one")?,
    };
    Ok(show.run(&file, colours_wanted(), &mut io::BufWriter::new(io::stdout().lock()))?)
}

fn serve_faces(faces: &ServeArgs, paths: &Paths) -> anyhow::Result<u8> {
    let config = Config::load(&faces.config, paths)?;
    log::to_stderr(config.server.log_level);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    if let Some(missing) = not_built_yet(faces) {
        anyhow::bail!(
            "{missing} is not in this version yet; `rexd --stdio` serves standard input and output"
        );
    }
    let mut listeners = Listeners::new(faces, &config)?;
    let asks_stdio = faces.stdio && listeners.stdio;
    // Before anything else is opened: they are known by their numbers.
    let passed = match asks_stdio && listeners.is_stdio_alone() {
        true => Vec::new(),
        false => engine::process::activation_sockets()?,
    };
    // Whoever passes sockets means those, not the streams of a service.
    listeners.stdio = asks_stdio || (listeners.stdio && passed.is_empty());
    if listeners.is_empty() && passed.is_empty() {
        anyhow::bail!("there is nothing to serve: name --http ADDR, --unix PATH or --stdio");
    }
    // One thread serves all: a command's way through the daemon then never waits for another core to wake up.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match listeners.is_stdio_alone() && passed.is_empty() {
        true => runtime.block_on(serve::stdio(&config, paths))?,
        false => {
            let source = &faces.config;
            let exec_server = serve::ExecServerFace::new(&listeners, &faces.ws_auth, &config)?;
            let plan = serve::Plan { config: &config, source, paths, listeners, exec_server, passed };
            runtime.block_on(serve::serve(plan))?;
        }
    }
    // A thread that still reads a standard input which is a plain file must not hold up the end.
    runtime.shutdown_background();
    Ok(0)
}

/// Codex's exec-server alone: without configured roots its clients have the rights of the user.
fn serve_exec_server(face: &ExecServerArgs, paths: &Paths) -> anyhow::Result<u8> {
    let config = Config::load(&face.config, paths)?;
    log::to_stderr(config.server.log_level);
    let no_roots = config.no_roots_message();
    for warning in config.warnings.iter().filter(|warning| Some(*warning) != no_roots.as_ref()) {
        tracing::warn!("{warning}");
    }
    if no_roots.is_some() {
        tracing::warn!("no roots are configured: exec-server serves / with the rights of this user");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve::exec_server(&config, paths, face))?;
    // A thread that still reads a standard input which is a plain file must not hold up the end.
    runtime.shutdown_background();
    Ok(0)
}

fn not_built_yet(faces: &ServeArgs) -> Option<&'static str> {
    let asked = [(faces.stringd.is_some(), "stringd"), (faces.hub.is_some(), "the hub")];
    asked.iter().find(|(is_asked, _)| *is_asked).map(|(_, name)| *name)
}

/// The error and its causes, each said once: some name their cause themselves.
fn story(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |told, cause| {
        let cause = cause.to_string();
        let reason = cause.split(" (os error").next().unwrap_or_default().to_lowercase();
        match told.as_str() {
            "" => cause,
            _ if told.to_lowercase().contains(&reason) => told,
            _ => format!("{told}: {cause}"),
        }
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn complain(message: &str) {
    // Nobody to tell if even this fails.
    let _told = writeln!(io::stderr(), "{message}");
}
