//! `rex target list`: what is registered, with a mark at what is used here.

use crate::failure::{Failure, Status};
use crate::output;
use crate::route::{self, Inputs};
use crate::table::Table;

pub(super) fn run(asked: Option<&str>, json: bool) -> Result<Status, Failure> {
    let inputs = Inputs::gather(asked);
    let registry = inputs.registry.clone()?;
    if json {
        output::line(registry.to_line())?;
        return Ok(Status::OK);
    }
    // A broken project file must not hide the list.
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
    let mut table = Table::new(&["", "ALIAS", "TARGET", "ABOUT"]);
    rows.iter().for_each(|row| table.row(row));
    match rows.is_empty() {
        false => table.print()?,
        true => {
            output::remark("no target is registered yet: rex target add ALIAS ssh:[USER@]HOST[:PORT]");
        }
    }
    if let (Some(choice), None) = (&current, used) {
        output::remark(format_args!("used here: {} (rex target show tells why)", choice.target));
    }
    Ok(Status::OK)
}
