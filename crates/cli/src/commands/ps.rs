//! `rex ps`: lists processes.

use client::v1;

use crate::app::App;
use crate::args::PsArgs;
use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::table::TextTable;

/// Lists the processes of the target.
pub(super) async fn run(app: &App, args: PsArgs) -> Result<CommandStatus, Failure> {
    let session = app.session().await?;
    let listed = session.call(&v1::ExecList { session_id: session.id() }).await?;
    session.close().await.ok();
    if app.json {
        output::json_line(&listed)?;
        return Ok(CommandStatus::OK);
    }
    let (shown, ended): (Vec<_>, Vec<_>) =
        listed.processes.into_iter().partition(|process| args.all || process.status == "running");
    table(&shown).print()?;
    if listed.truncated {
        output::note("the list is truncated: `rex prune` removes processes that have ended");
    }
    if !ended.is_empty() {
        output::note(format_args!("{} exited processes are not shown: `rex ps -a` shows them", ended.len()));
    }
    Ok(CommandStatus::OK)
}

/// The table of the processes, with a column for names if there are any.
fn table(processes: &[v1::ListedProcess]) -> TextTable {
    let has_names = processes.iter().any(|process| process.name.is_some());
    let names: &[&str] = if has_names { &["NAME"] } else { &[] };
    let heading = [&["ID"], names, &["STATUS", "PID", "STARTED", "KIND", "COMMAND"]].concat();
    let mut table = TextTable::new(&heading);
    for process in processes {
        let name = has_names.then(|| process.name.clone().unwrap_or_default());
        let others = [
            status(process),
            process.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            process.started_at.get(..19).unwrap_or(&process.started_at).replace('T', " "),
            kind(process),
            process.argv.join(" "),
        ];
        let row: Vec<String> = [process.process_id.clone()].into_iter().chain(name).chain(others).collect();
        table.row(&row);
    }
    table
}

fn status(process: &v1::ListedProcess) -> String {
    match (&process.signal, process.exit_code) {
        (Some(signal), _) => format!("{} ({signal})", process.status),
        (None, Some(code)) => format!("{} ({code})", process.status),
        (None, None) => process.status.clone(),
    }
}

fn kind(process: &v1::ListedProcess) -> String {
    let mut words = Vec::new();
    if process.detached {
        words.push("detached");
    }
    if process.pty_id.is_some() {
        words.push("terminal");
    }
    words.join(" ")
}
