//! `rex target list`: lists the registered targets, marks the current one and notes misspelt fields.

use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::route::{self, Inputs};
use crate::table::TextTable;

pub(super) fn run(flag: Option<&str>, json: bool) -> Result<CommandStatus, Failure> {
    let inputs = Inputs::gather(flag);
    let registry = inputs.registry.clone()?;
    if json {
        output::line(registry.to_line())?;
        return Ok(CommandStatus::OK);
    }
    registry.warnings().into_iter().for_each(output::note);
    // An invalid project file must not hide the list.
    let current = route::decide(&inputs).ok().map(|decision| decision.choice);
    let used = current.as_ref().and_then(|choice| choice.alias.as_deref());
    let rows: Vec<[String; 4]> = registry
        .aliases()
        .filter_map(|alias| registry.entry(alias).map(|entry| (alias, entry)))
        .map(|(alias, entry)| {
            let mark = if used == Some(alias) { "*" } else { " " };
            let (target, about) = match entry {
                Ok(entry) => {
                    let about = entry.default_cwd.into_iter().chain(entry.description);
                    (entry.target.to_string(), about.collect::<Vec<_>>().join("  "))
                }
                Err(failure) => ("?".to_owned(), failure.message),
            };
            [mark.to_owned(), alias.to_owned(), target, about]
        })
        .collect();
    let mut table = TextTable::new(&["", "ALIAS", "TARGET", "DESCRIPTION"]);
    rows.iter().for_each(|row| table.row(row));
    match rows.is_empty() {
        false => table.print()?,
        true => {
            output::note("no targets: add one with `rex target add ALIAS ssh:[USER@]HOST[:PORT]`");
        }
    }
    if let (Some(choice), None) = (&current, used) {
        output::note(format_args!("current target: {} (`rex target show` explains why)", choice.target));
    }
    Ok(CommandStatus::OK)
}
