//! `rex target install`: puts rexd on a machine that ssh reaches, then tries it.

use client::Target;
use client::target::{RemoteCommand, SshTarget};
use serde_json::{Value, json};

use super::add::{self, Mode};
use super::checks::{self, Checks};
use super::registry_file;
use crate::app::App;
use crate::args::TargetInstall;
use crate::failure::{Failure, Status};
use crate::install::config::{self, Change};
use crate::install::machine::{Machine, PROBE, SYSTEM};
use crate::install::program::Program;
use crate::install::remote::Remote;
use crate::output;
use crate::route::{self, Choice, Inputs};

/// Stands before a file that was asked for.
const MARK: &str = "rex-file-follows";

pub(super) async fn run(json: bool, ask: &TargetInstall) -> Result<Status, Failure> {
    if let Some(alias) = &ask.alias {
        add::check_alias(alias)?;
    }
    let choice = machine_named(&ask.host)?;
    let Target::Ssh(ssh) = &choice.target else {
        return Err(Failure::new(format!(
            "{} is not reached by ssh, so nothing can be put there",
            choice.target
        ))
        .hint("name a machine: rex target install [USER@]HOST[:PORT] --root DIR"));
    };
    let app = App { choice: choice.clone(), json };
    let mut checks = Checks::new(json);
    let remote = Remote::connect(ssh.clone(), app.options())?;
    let machine = Machine::parse(&remote.run(PROBE, "looking at the machine")?.text())?;
    checks.ok("machine", format!("{} {}", machine.system, machine.processor))?;
    let folder = machine.folder(ask.into.as_deref())?;
    let roots =
        ask.roots.iter().map(|root| machine.absolute(root, "--root")).collect::<Result<Vec<_>, _>>()?;
    let data = route::Places::from_environment().data;
    let program = Program::find(ask.rexd.as_deref(), &machine, data.as_deref())?;
    // Everything that could be refused is known before anything is changed.
    let change = planned(&remote, &machine, &roots)?;
    let (before, after) = put(&remote, &folder, &program)?;
    if before.as_deref().is_some_and(|before| is_newer(before, &after)) {
        output::remark("the rexd that was there was newer: update rex and the rexd beside it");
    }
    checks.ok("program", moved(&folder, before.as_deref(), &after))?;
    configure(&remote, &machine, &change, &mut checks)?;
    let installed = register(ask, &choice, &machine, &folder, &mut checks)?;
    let tried = through(&remote, &installed);
    checks::run(&mut checks, &tried, app.options()).await?;
    if json {
        output::json_line(&report(&installed, &folder, (before, after), &checks))?;
    }
    Ok(if checks.is_ok() { Status::OK } else { Status::NOTHING })
}

/// The machine that a name stands for: an alias, a target, or what ssh itself takes.
fn machine_named(host: &str) -> Result<Choice, Failure> {
    let named = |name: &str| route::choose_from(&Inputs::gather(Some(name)));
    let is_alias = Inputs::gather(None).registry?.has(host);
    match is_alias || host.parse::<Target>().is_ok() {
        true => named(host),
        false => named(&format!("ssh:{host}")),
    }
}

/// What becomes of the config; read there, decided here.
fn planned(remote: &Remote, machine: &Machine, roots: &[String]) -> Result<Change, Failure> {
    if machine.has_system_config {
        if !roots.is_empty() {
            output::remark(
                "/etc/rexd/config.toml is there and counts more: its operator decides which roots are allowed",
            );
        }
        return Ok(Change::Nothing);
    }
    let file = quote(&machine.config());
    let script = format!("if [ -e {file} ]; then echo {MARK}; cat {file}; fi");
    let answer = remote.run(&script, "reading the config there")?;
    if answer.status != Some(0) {
        return Err(Failure::new(format!(
            "cannot read {} on that machine: {}",
            machine.config(),
            answer.errors
        ))
        .hint("that user must be able to read its own config"));
    }
    // What is not understood to the last byte could not be written back.
    let Ok(text) = String::from_utf8(answer.output) else {
        return Err(Failure::new(format!("the config {} on that machine is no text", machine.config()))
            .hint("mend it there; `rexd check-config` says whether it is right"));
    };
    // A login shell may print a greeting of its own before it.
    let present = text.split_once(&format!("{MARK}\n")).map(|(_, text)| text);
    config::change(present, roots, &machine.config())
}

/// Copies the program and puts it in its place in one step; the versions before and after. A rexd that runs meanwhile
/// keeps its own file until it ends.
fn put(remote: &Remote, folder: &str, program: &Program) -> Result<(Option<String>, String), Failure> {
    let (size, sum) = (program.content.len(), &program.sha256);
    let variables = format!("d={}; sum={sum}; size={size};", quote(folder));
    let same = format!(
        r#"{variables}
        if [ -x "$d/rexd" ]; then echo "rex before $("$d/rexd" --version 2>/dev/null)"; fi;
        if [ "$(sha256sum < "$d/rexd" 2>/dev/null | cut -d" " -f1)" = "$sum" ]; then echo "rex same yes"; fi"#
    );
    let answer = remote.run(&same, "looking for rexd there")?;
    let answer = answer.text();
    let before = said(&answer, "before").and_then(version);
    // The same bytes, and they answer as rexd does.
    if let (Some(_), Some(version)) = (said(&answer, "same"), before.clone()) {
        return Ok((before, version));
    }
    let copy = format!(
        r#"{variables}
        umask 022; t="$d/.rexd.new.$$";
        trap 'rm -f "$t"' EXIT; trap 'exit 9' HUP INT TERM PIPE;
        mkdir -p "$d" && cat > "$t" && chmod 755 "$t" || exit 5;
        [ "$(wc -c < "$t")" -eq "$size" ] || {{ echo "it did not arrive whole" >&2; exit 6; }};
        if command -v sha256sum >/dev/null 2>&1; then
        [ "$(sha256sum < "$t" | cut -d" " -f1)" = "$sum" ] || {{ echo "it arrived changed" >&2; exit 6; }}; fi;
        v=$("$t" --version 2>&1) || {{ echo "$v" >&2; exit 7; }};
        case "$v" in "rexd "*) ;; *) echo "$v" | head -n 1 >&2; exit 8;; esac;
        mv -f "$t" "$d/rexd" || exit 5;
        echo "rex after $v""#
    );
    let what = format!("copying {} ({} KiB)", program.file.display(), size / 1024);
    let answer = remote.run_with(&copy, &program.content, &what)?;
    match (answer.status, said(&answer.text(), "after").and_then(version)) {
        (Some(0), Some(after)) => Ok((before, after)),
        (Some(7), _) => Err(Failure::new(format!("that rexd does not run there: {}", answer.errors)).hint(
            "name one that was built for that machine: --rexd FILE (a release build needs no libraries)",
        )),
        (Some(8), _) => Err(Failure::new(format!(
            "{} is not rexd: asked for its version there, it says `{}`",
            program.file.display(),
            answer.errors
        ))
        .hint("name a rexd: --rexd FILE; nothing was changed")),
        _ => Err(Failure::new(format!("cannot put rexd into {folder} there: {}", answer.errors))
            .hint("--into DIR names a directory that user may write; nothing was changed")),
    }
}

/// What a script said about something.
fn said<'a>(output: &'a str, name: &str) -> Option<&'a str> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("rex "));
    lines.filter_map(|line| line.split_once(' ')).find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Whether a version is newer than another, as far as they are numbers.
fn is_newer(one: &str, other: &str) -> bool {
    let numbers = |text: &str| text.split('.').map_while(|part| part.parse::<u64>().ok()).collect::<Vec<_>>();
    numbers(one) > numbers(other)
}

/// The version in `rexd 1.2.3`; nothing if it is no rexd that says so.
fn version(said: &str) -> Option<String> {
    said.strip_prefix("rexd ")?.split_whitespace().next().map(str::to_owned)
}

fn moved(folder: &str, before: Option<&str>, after: &str) -> String {
    match before {
        None => format!("rexd {after} put into {folder}"),
        Some(before) if before == after => format!("rexd {after} is in {folder}"),
        Some(before) => format!("rexd {before} → {after} in {folder}; what runs goes on with the old one"),
    }
}

fn configure(
    remote: &Remote,
    machine: &Machine,
    change: &Change,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let file = machine.config();
    let (text, told) = match change {
        Change::Nothing => return checks.ok("config", "allows what is asked; left as it is"),
        Change::Write(text) => (text, format!("{file} written")),
        Change::Add { lines, whole } => {
            output::remark(format_args!("adding to {file} there:\n{}", lines.trim()));
            (whole, format!("{file}: roots added"))
        }
    };
    let quoted = quote(&file);
    // The new file takes over the mode of the old one, and its place in one step.
    let script = format!(
        r#"f={quoted}; t="$f.new.$$"; umask 077; mkdir -p "${{f%/*}}" || exit 5;
        trap 'rm -f "$t"' EXIT;
        if [ -e "$f" ]; then cp -p "$f" "$t" || exit 5; fi;
        cat > "$t" && [ "$(wc -c < "$t")" -eq {size} ] && mv -f "$t" "$f" || exit 5"#,
        size = text.len()
    );
    let answer = remote.run_with(&script, text.as_bytes(), "writing the config there")?;
    match answer.status {
        Some(0) => checks.ok("config", told),
        _ => Err(Failure::new(format!("cannot write {file} on that machine: {}", answer.errors))
            .hint("rexd is there; write its config by hand: docs/config.example.toml")),
    }
}

/// Remembers the machine if an alias is wanted, or where its program is if nobody would look there; the target that
/// it now is.
fn register(
    ask: &TargetInstall,
    choice: &Choice,
    machine: &Machine,
    folder: &str,
    checks: &mut Checks,
) -> Result<Choice, Failure> {
    let Target::Ssh(ssh) = &choice.target else { return Ok(choice.clone()) };
    let line = format!("{} --stdio", quote_if_odd(&format!("{folder}/rexd")));
    let own = ssh.command.clone().filter(|_| ask.alias.is_none());
    if own.as_ref().is_some_and(|own| *own != RemoteCommand::Line(line.clone())) {
        output::remark(format_args!(
            "the alias has a `command` of its own, which may start another rexd than {folder}/rexd"
        ));
    }
    let is_found = machine.is_looked_into(folder);
    let command = own.clone().or_else(|| (!is_found).then(|| RemoteCommand::Line(line.clone())));
    let target = Target::Ssh(SshTarget { command, ..ssh.clone() });
    let alias = ask.alias.clone().or_else(|| choice.alias.clone());
    let mut fields = match &ask.alias {
        Some(_) => add::place_fields(&target)?,
        None => Vec::new(),
    };
    // The plugins look in /usr/local/bin alone.
    if own.is_none() && (!is_found || ask.alias.is_some() && folder != SYSTEM) {
        fields.push(("command", json!(line)));
    }
    let roots =
        ask.roots.iter().map(|root| machine.absolute(root, "--root")).collect::<Result<Vec<_>, _>>()?;
    if let (Some(_), Some(first)) = (&ask.alias, roots.first()) {
        fields.extend([("workspaceRoots", json!(roots)), ("defaultCwd", json!(first))]);
    }
    match &alias {
        Some(alias) if !fields.is_empty() => {
            let mode = if ask.alias.is_some() { Mode::Replace } else { Mode::Amend };
            add::store(&registry_file(&route::Places::from_environment())?, alias, &fields, mode)?;
            checks.ok("alias", format!("{alias} is {target}"))?;
        }
        None if !is_found => {
            output::remark(format_args!(
                "rexd is not looked for in {folder} there: --alias NAME remembers it"
            ));
        }
        _ => {}
    }
    Ok(Choice { target, alias, ..choice.clone() })
}

/// The same target through the connection that is open.
fn through(remote: &Remote, installed: &Choice) -> Choice {
    match &installed.target {
        Target::Ssh(ssh) => Choice {
            target: Target::Ssh(SshTarget { options: remote.ssh().options.clone(), ..ssh.clone() }),
            ..installed.clone()
        },
        _ => installed.clone(),
    }
}

fn report(
    installed: &Choice,
    folder: &str,
    (before, after): (Option<String>, String),
    checks: &Checks,
) -> Value {
    json!({
        "target": installed.target.to_string(),
        "alias": installed.alias,
        "path": format!("{folder}/rexd"),
        "before": before,
        "version": after,
        "ok": checks.is_ok(),
        "steps": checks.to_json(),
    })
}

/// Protected from `sh`.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Quoted only if it has to be, so that what people read in the registry stays readable.
fn quote_if_odd(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    match text.chars().all(is_plain) {
        true => text.to_owned(),
        false => quote(text),
    }
}
