//! `rexd`: parses the command line and runs the command.

use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::Context as _;
use daemon::cli::args::{self, CliCommand, ExecServerArgs, HELP, HostArgs, RunArgs, ServeArgs, StringdArgs};
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
            print_error(&error.to_string());
            return ExitCode::from(error.exit_code);
        }
    };
    match run(command) {
        Ok(code) => ExitCode::from(code),
        // The reader of our output has closed it.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            print_error(&format!("rexd: {}", error_chain(&error)));
            ExitCode::FAILURE
        }
    }
}

fn run(command: CliCommand) -> anyhow::Result<u8> {
    let paths = Paths { program: Some(keeper::OWN_PROGRAM.into()), ..Paths::from_environment() };
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
        CliCommand::Guardian(mark) => {
            engine::process::guard(&mark);
            Ok(0)
        }
        CliCommand::Serve(faces) => serve_faces(&faces, &paths),
        CliCommand::ExecServer(face) => serve_exec_server(&face, &paths),
        CliCommand::Stringd(face) => serve_stringd(&face, &paths),
        CliCommand::Host(face) => serve_host(&face, &paths),
        CliCommand::Run(run) => attached_run(&run, &paths),
    }
}

fn show_audit(show: &audit::ShowArgs, config: &ConfigArgs, paths: &Paths) -> anyhow::Result<u8> {
    let file = match &show.file {
        Some(file) => file.clone(),
        None => {
            Config::load(config, paths)?.audit.path.context("no audit file is configured; pass its path")?
        }
    };
    Ok(show.run(&file, colours_wanted(), &mut io::BufWriter::new(io::stdout().lock()))?)
}

fn serve_faces(faces: &ServeArgs, paths: &Paths) -> anyhow::Result<u8> {
    let config = Config::load(&faces.config, paths)?;
    log::to_stderr(config.server.log_level);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let mut listeners = Listeners::new(faces, &config)?;
    let stdio_flag = faces.stdio && listeners.stdio;
    // Before any other descriptor is opened: activation sockets are identified by number.
    let passed = match stdio_flag && listeners.is_stdio_alone() {
        true => Vec::new(),
        false => engine::process::activation_sockets()?,
    };
    // A service manager that passes sockets wants those served, not stdin and stdout.
    listeners.stdio = stdio_flag || (listeners.stdio && passed.is_empty());
    let paths = &serve::with_listener_files(paths, &listeners, &faces.ws_auth, &passed);
    if listeners.is_empty() && passed.is_empty() {
        anyhow::bail!("no listener is configured; pass --http ADDR, --unix PATH or --stdio");
    }
    match listeners.is_stdio_alone() && passed.is_empty() {
        true => serve::run(serve::stdio(&config, paths))?,
        false => {
            let source = &faces.config;
            let exec_server = serve::ExecServerFace::new(&listeners, &faces.ws_auth, &config)?;
            let client_ca = faces.client_ca.clone();
            let host = match listeners.is_host {
                true => Some(serve::HostFace::new(&config, paths, &faces.host())?),
                false => None,
            };
            let stringd = serve::StringdFace::beside_others(&config, paths, &listeners)?;
            let plan = serve::Plan {
                config: &config,
                source,
                paths,
                listeners,
                client_ca,
                exec_server,
                host,
                stringd,
                passed,
            };
            serve::run(serve::serve(plan))?;
        }
    }
    Ok(0)
}

/// Serves only the exec-server face. Without configured roots, its clients have the rights of the user.
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
    let paths = &serve::with_listener_files(paths, &Listeners::default(), &face.ws_auth, &[]);
    serve::run(serve::exec_server(&config, paths, face))?;
    Ok(0)
}

/// Serves only the stringd face. Without configured roots, its clients have the rights of the user.
fn serve_stringd(face: &StringdArgs, paths: &Paths) -> anyhow::Result<u8> {
    let config = Config::load(&face.config, paths)?;
    log::to_stderr(config.server.log_level);
    let no_roots = config.no_roots_message();
    for warning in config.warnings.iter().filter(|warning| Some(*warning) != no_roots.as_ref()) {
        tracing::warn!("{warning}");
    }
    if no_roots.is_some() {
        tracing::warn!("no roots are configured: stringd serves / with the rights of this user");
    }
    serve::run(serve::stringd(&config, paths, face))?;
    Ok(0)
}

/// Serves only the host face. Without configured roots it could do nothing.
fn serve_host(face: &HostArgs, paths: &Paths) -> anyhow::Result<u8> {
    let config = Config::load(&face.config, paths)?;
    log::to_stderr(config.server.log_level);
    if let Some(missing) = config.no_roots_message() {
        anyhow::bail!("{missing}");
    }
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    serve::run(serve::host(&config, paths, face))?;
    Ok(0)
}

/// Starts a run on the host of this user, and ends as the run does.
fn attached_run(run: &RunArgs, paths: &Paths) -> anyhow::Result<u8> {
    let config = Config::load(&run.config, paths)?;
    let mut status = 0;
    serve::run(async {
        let keepers = serve::keepers(&config, paths)
            .context("there is no state directory: set HOME or XDG_STATE_HOME")?;
        status = daemon::cli::run::run(&config, paths, run, &keepers).await?;
        Ok(())
    })?;
    Ok(status)
}

/// The error and its causes, each once: some messages contain their cause.
fn error_chain(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |text, cause| {
        let cause = cause.to_string();
        let reason = cause.split(" (os error").next().unwrap_or_default().to_lowercase();
        match text.as_str() {
            "" => cause,
            _ if text.to_lowercase().contains(&reason) => text,
            _ => format!("{text}: {cause}"),
        }
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn print_error(message: &str) {
    // There is no other output to report a failure on.
    let _written = writeln!(io::stderr(), "{message}");
}
