//! `rex target install`: installs rexd on a machine over ssh, then tests it.

use client::Target;
use client::target::{RemoteCommand, SshTarget};
use serde_json::{Value, json};

use super::add::{self, StoreMode};
use super::checks::{self, Checks};
use super::registry_file;
use crate::app::App;
use crate::args::TargetInstallArgs;
use crate::failure::{CommandStatus, Failure};
use crate::install::binary::RexdBinary;
use crate::install::config::{self, ConfigChange};
use crate::install::machine::{Machine, PROBE, SYSTEM};
use crate::install::remote_shell::RemoteShell;
use crate::output;
use crate::route::{self, Choice, Inputs};

/// Marks the start of the file contents in the output of a script.
const MARK: &str = "rex-file-follows";

pub(super) async fn run(json: bool, args: &TargetInstallArgs) -> Result<CommandStatus, Failure> {
    if let Some(alias) = &args.alias {
        add::check_alias(alias)?;
    }
    let choice = resolve_machine(&args.host)?;
    let Target::Ssh(ssh) = &choice.target else {
        return Err(Failure::new(format!("cannot install on {}: it is not an ssh target", choice.target))
            .hint("rex target install [USER@]HOST[:PORT] --root DIR"));
    };
    let app = App { choice: choice.clone(), json };
    let mut checks = Checks::new(json);
    let remote = RemoteShell::connect(ssh.clone(), app.options())?;
    let machine = Machine::parse(&remote.run(PROBE, "probing the machine")?.text())?;
    checks.ok("machine", format!("{} {}", machine.system, machine.processor))?;
    let dir = machine.install_dir(args.into.as_deref())?;
    let roots =
        args.roots.iter().map(|root| machine.absolute(root, "--root")).collect::<Result<Vec<_>, _>>()?;
    let data = route::Paths::from_environment().data;
    let program = RexdBinary::find(args.rexd.as_deref(), &machine, data.as_deref())?;
    // Everything that can be refused is checked before anything is changed.
    let change = plan_config(&remote, &machine, &roots)?;
    let (before, after) = install_binary(&remote, &dir, &program)?;
    if before.as_deref().is_some_and(|before| is_newer(before, &after)) {
        output::note("the installed rexd was newer: update rex and the rexd next to it");
    }
    checks.ok("program", describe_install(&dir, before.as_deref(), &after))?;
    configure(&remote, &machine, &change, &mut checks)?;
    let installed = register(args, &choice, &machine, &dir, &mut checks)?;
    let tested = via_shared_connection(&remote, &installed);
    checks::run(&mut checks, &tested, app.options()).await?;
    if json {
        output::json_line(&report(&installed, &dir, (before, after), &checks))?;
    }
    Ok(if checks.is_ok() { CommandStatus::OK } else { CommandStatus::UNSUCCESSFUL })
}

/// Resolves an alias, a target, or a host as ssh takes it.
fn resolve_machine(host: &str) -> Result<Choice, Failure> {
    let named = |name: &str| route::choose_from(&Inputs::gather(Some(name)));
    let is_alias = Inputs::gather(None).registry?.has(host);
    match is_alias || host.parse::<Target>().is_ok() {
        true => named(host),
        false => named(&format!("ssh:{host}")),
    }
}

/// Reads the config on the machine and plans its change.
fn plan_config(remote: &RemoteShell, machine: &Machine, roots: &[String]) -> Result<ConfigChange, Failure> {
    if machine.has_system_config {
        if !roots.is_empty() {
            output::note(
                "/etc/rexd/config.toml exists and takes precedence: --root has no effect, its operator sets the roots",
            );
        }
        return Ok(ConfigChange::Nothing);
    }
    let file = quote(&machine.config())?;
    let script = format!("if [ -e {file} ]; then echo {MARK}; cat {file}; fi");
    let output = remote.run(&script, "reading the config")?;
    if output.status != Some(0) {
        return Err(Failure::new(format!(
            "cannot read {} on the machine: {}",
            machine.config(),
            output.errors
        ))
        .hint("the user must be able to read the config"));
    }
    // A file that is not valid UTF-8 could not be written back unchanged.
    let Ok(text) = String::from_utf8(output.output) else {
        return Err(Failure::new(format!(
            "cannot read {} on the machine: it is not UTF-8",
            machine.config()
        ))
        .hint("fix it on the machine; `rexd check-config` checks it"));
    };
    // A login shell may print a greeting first.
    let present = text.split_once(&format!("{MARK}\n")).map(|(_, text)| text);
    config::change(present, roots, &machine.config())
}

/// Copies the binary and replaces the old one atomically; returns the versions before and after. A running rexd keeps
/// its own file until it exits.
fn install_binary(
    remote: &RemoteShell,
    dir: &str,
    program: &RexdBinary,
) -> Result<(Option<String>, String), Failure> {
    let (size, sum) = (program.content.len(), &program.sha256);
    let variables = format!("d={}; sum={sum}; size={size};", quote(dir)?);
    let same = format!(
        r#"{variables}
        if [ -x "$d/rexd" ]; then echo "rex before $("$d/rexd" --version 2>/dev/null)"; fi;
        if [ "$(sha256sum < "$d/rexd" 2>/dev/null | cut -d" " -f1)" = "$sum" ]; then echo "rex same yes"; fi"#
    );
    let output = remote.run(&same, "looking for rexd")?;
    let output = output.text();
    let before = script_value(&output, "before").and_then(version);
    // The same bytes, which run there.
    if let (Some(_), Some(version)) = (script_value(&output, "same"), before.clone()) {
        return Ok((before, version));
    }
    let copy = format!(
        r#"{variables}
        umask 022; t="$d/.rexd.new.$$";
        trap 'rm -f "$t"' EXIT; trap 'exit 9' HUP INT TERM PIPE;
        mkdir -p "$d" && cat > "$t" && chmod 755 "$t" || exit 5;
        [ "$(wc -c < "$t")" -eq "$size" ] || {{ echo "the copy is incomplete" >&2; exit 6; }};
        if command -v sha256sum >/dev/null 2>&1; then
        [ "$(sha256sum < "$t" | cut -d" " -f1)" = "$sum" ] || {{ echo "the copy has another hash" >&2; exit 6; }}; fi;
        v=$("$t" --version 2>&1) || {{ echo "$v" >&2; exit 7; }};
        case "$v" in "rexd "*) ;; *) echo "$v" | head -n 1 >&2; exit 8;; esac;
        mv -f "$t" "$d/rexd" || exit 5;
        echo "rex after $v""#
    );
    let what = format!("copying {} ({} KiB)", program.file.display(), size / 1024);
    let output = remote.run_with(&copy, &program.content, &what)?;
    match (output.status, script_value(&output.text(), "after").and_then(version)) {
        (Some(0), Some(after)) => Ok((before, after)),
        (Some(7), _) => Err(Failure::new(format!("rexd does not run on the machine: {}", output.errors))
            .hint("pass a binary that is built for the machine: --rexd FILE (a release build is static)")),
        (Some(8), _) => Err(Failure::new(format!(
            "{} is not rexd: `--version` prints `{}`",
            program.file.display(),
            output.errors
        ))
        .hint("pass a rexd binary: --rexd FILE; nothing was changed")),
        _ => Err(Failure::new(format!("cannot install rexd in {dir}: {}", output.errors))
            .hint("--into DIR installs to a directory that the user can write; nothing was changed")),
    }
}

/// A value that a script printed as `rex NAME VALUE`.
fn script_value<'a>(output: &'a str, name: &str) -> Option<&'a str> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("rex "));
    lines.filter_map(|line| line.split_once(' ')).find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Whether a version is newer than another, by its numeric parts.
fn is_newer(one: &str, other: &str) -> bool {
    let numbers = |text: &str| text.split('.').map_while(|part| part.parse::<u64>().ok()).collect::<Vec<_>>();
    numbers(one) > numbers(other)
}

/// The version in `rexd 1.2.3`; `None` for the output of another program.
fn version(text: &str) -> Option<String> {
    text.strip_prefix("rexd ")?.split_whitespace().next().map(str::to_owned)
}

fn describe_install(dir: &str, before: Option<&str>, after: &str) -> String {
    match before {
        None => format!("rexd {after} installed in {dir}"),
        Some(before) if before == after => format!("rexd {after} already in {dir}"),
        Some(before) => format!("rexd {before} → {after} in {dir}; running daemons keep the old version"),
    }
}

fn configure(
    remote: &RemoteShell,
    machine: &Machine,
    change: &ConfigChange,
    checks: &mut Checks,
) -> Result<(), Failure> {
    let file = machine.config();
    let (text, detail) = match change {
        ConfigChange::Nothing => return checks.ok("config", "unchanged: it allows the roots already"),
        ConfigChange::Write(text) => (text, format!("wrote {file}")),
        ConfigChange::Add { lines, whole } => {
            output::note(format_args!("adding to {file}:\n{}", lines.trim()));
            (whole, format!("added roots to {file}"))
        }
    };
    let quoted = quote(&file)?;
    // The new file gets the mode of the old one and replaces it atomically.
    let script = format!(
        r#"f={quoted}; t="$f.new.$$"; umask 077; mkdir -p "${{f%/*}}" || exit 5;
        trap 'rm -f "$t"' EXIT;
        if [ -e "$f" ]; then cp -p "$f" "$t" || exit 5; fi;
        cat > "$t" && [ "$(wc -c < "$t")" -eq {size} ] && mv -f "$t" "$f" || exit 5"#,
        size = text.len()
    );
    let output = remote.run_with(&script, text.as_bytes(), "writing the config")?;
    match output.status {
        Some(0) => checks.ok("config", detail),
        _ => Err(Failure::new(format!("cannot write {file} on the machine: {}", output.errors))
            .hint("rexd is installed; write its config by hand, see docs/config.example.toml")),
    }
}

/// Adds the alias, or the path of the binary to an existing one if rexd is outside the search path; returns the
/// resulting target.
fn register(
    args: &TargetInstallArgs,
    choice: &Choice,
    machine: &Machine,
    dir: &str,
    checks: &mut Checks,
) -> Result<Choice, Failure> {
    let Target::Ssh(ssh) = &choice.target else { return Ok(choice.clone()) };
    let line = format!("{} --stdio", quote(&format!("{dir}/rexd"))?);
    let own = ssh.command.clone().filter(|_| args.alias.is_none());
    if own.as_ref().is_some_and(|own| *own != RemoteCommand::Line(line.clone())) {
        output::note(format_args!(
            "the alias has its own `command`, which may start another rexd than {dir}/rexd"
        ));
    }
    let is_found = machine.is_searched(dir);
    let command = own.clone().or_else(|| (!is_found).then(|| RemoteCommand::Line(line.clone())));
    let target = Target::Ssh(SshTarget { command, ..ssh.clone() });
    let alias = args.alias.clone().or_else(|| choice.alias.clone());
    let mut fields = match &args.alias {
        Some(_) => add::address_fields(&target)?,
        None => Vec::new(),
    };
    // Agent plugins search /usr/local/bin only.
    if own.is_none() && (!is_found || args.alias.is_some() && dir != SYSTEM) {
        fields.push(("command", json!(line)));
    }
    let roots =
        args.roots.iter().map(|root| machine.absolute(root, "--root")).collect::<Result<Vec<_>, _>>()?;
    if let (Some(_), Some(first)) = (&args.alias, roots.first()) {
        fields.extend([("workspaceRoots", json!(roots)), ("defaultCwd", json!(first))]);
    }
    match &alias {
        Some(alias) if !fields.is_empty() => {
            let mode = if args.alias.is_some() { StoreMode::Replace } else { StoreMode::Amend };
            add::store(&registry_file(&route::Paths::from_environment())?, alias, &fields, mode)?;
            checks.ok("alias", format!("{alias} is {target}"))?;
        }
        None if !is_found => {
            output::note(format_args!(
                "rexd in {dir} is not found automatically: --alias NAME stores its path"
            ));
        }
        _ => {}
    }
    Ok(Choice { target, alias, ..choice.clone() })
}

/// The same target over the open ssh connection.
fn via_shared_connection(remote: &RemoteShell, installed: &Choice) -> Choice {
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
    dir: &str,
    (before, after): (Option<String>, String),
    checks: &Checks,
) -> Value {
    json!({
        "target": installed.target.to_string(),
        "alias": installed.alias,
        "path": format!("{dir}/rexd"),
        "before": before,
        "version": after,
        "ok": checks.is_ok(),
        "steps": checks.to_json(),
    })
}

/// Quotes a path for `sh`, if it needs quotes.
fn quote(path: &str) -> Result<String, Failure> {
    match shlex::try_quote(path) {
        Ok(quoted) => Ok(quoted.into_owned()),
        Err(error) => Err(Failure::new(format!("cannot pass {path:?} to a shell: {error}"))),
    }
}
