//! Config: what rex writes for a rexd on another machine, and what it adds to one that is there.

use crate::failure::Failure;

/// What becomes of the config there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// It allows all roots already.
    Nothing,
    /// A new file.
    Write(String),
    /// These lines at the end of the file, which then is this.
    Add { lines: String, whole: String },
}

/// What to do so that the roots are allowed; `present` is the file that is there.
pub(crate) fn change(present: Option<&str>, roots: &[String], file: &str) -> Result<Change, Failure> {
    let Some(present) = present else {
        return match roots.is_empty() {
            true => Err(Failure::new(
                "no root is named and there is no config on that machine, so rexd would serve nothing",
            )
            .hint("name the directories it may serve: --root DIR")),
            false => Ok(Change::Write(new_config(roots))),
        };
    };
    let broken = |problem: &str| {
        Failure::new(format!("the config {file} on that machine makes no sense: {problem}"))
            .hint("mend it there; `rexd check-config` says whether it is right")
    };
    let allowed = allowed_roots(present).map_err(|problem| broken(&problem))?;
    let missing: Vec<&String> = roots.iter().filter(|root| !allowed.contains(root)).collect();
    if missing.is_empty() {
        return Ok(Change::Nothing);
    }
    let lines: String = missing.iter().map(|root| root_lines(root)).collect();
    let whole = match present.is_empty() || present.ends_with('\n') {
        true => format!("{present}{lines}"),
        false => format!("{present}\n{lines}"),
    };
    // Only where the file spells its roots as tables can one be added at the end.
    match allowed_roots(&whole) {
        Ok(then) if then.len() == allowed.len() + missing.len() => Ok(Change::Add { lines, whole }),
        _ => {
            let names = missing.iter().map(|root| root.as_str()).collect::<Vec<_>>().join(", ");
            Err(Failure::new(format!("cannot add {names} to {file}: its roots are spelled in another way"))
                .hint("add them there by hand"))
        }
    }
}

/// A config that allows the roots and nothing else; what it bounds are counts, not work.
fn new_config(roots: &[String]) -> String {
    let head = "\
# Written by `rex target install`. Every key: docs/config.example.toml

[limits]                              # 0 = none
default_timeout_ms = 0
hard_timeout_ms = 0
max_output_bytes = 0
hard_output_bytes = 0
max_file_read_bytes = 67108864
max_processes_per_session = 1024
max_concurrent_sessions = 1024
";
    let roots: String = roots.iter().map(|root| root_lines(root)).collect();
    format!("{head}{roots}")
}

fn root_lines(root: &str) -> String {
    format!("\n[[security.allowed_roots]]\npath = {}\n", toml::Value::from(root))
}

/// The roots that a config allows, as they are written.
fn allowed_roots(text: &str) -> Result<Vec<String>, String> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error
            .span()
            .and_then(|span| text.get(..span.start))
            .map_or(1, |before| before.matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })?;
    let Some(roots) = table.get("security").and_then(|security| security.get("allowed_roots")) else {
        return Ok(Vec::new());
    };
    let roots = roots.as_array().ok_or("security.allowed_roots is no list")?;
    let path = |root: &toml::Value| root.get("path").and_then(toml::Value::as_str).map(str::to_owned);
    roots.iter().map(|root| path(root).ok_or_else(|| "a root without `path`".to_owned())).collect()
}
