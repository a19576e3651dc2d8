//! `rex target`: what is registered, which target is used, whether it works, and putting rexd on a machine.

mod add;
mod checks;
mod install;
mod list;
mod show;
mod test;
mod used;

use std::path::PathBuf;

use crate::args::TargetAsk;
use crate::failure::{Failure, Status};
use crate::output;
use crate::route::{Places, Registry, near, state};

/// Does what is asked about targets.
pub(super) async fn run(target: Option<&str>, json: bool, ask: TargetAsk) -> Result<Status, Failure> {
    match ask {
        TargetAsk::Add(ask) => add::run(json, &ask),
        TargetAsk::List => list::run(target, json),
        TargetAsk::Use { name } => used::run(json, &name),
        TargetAsk::Show => show::run(target, json),
        TargetAsk::Remove { name } => remove(json, &name),
        TargetAsk::Test { name } => test::run(name.as_deref().or(target), json).await,
        TargetAsk::Install(ask) => install::run(json, &ask).await,
    }
}

fn remove(json: bool, name: &str) -> Result<Status, Failure> {
    let places = Places::from_environment();
    Registry::change(&registry_file(&places)?, |registry| match registry.remove(name) {
        true => Ok(()),
        false => {
            let hint = match near::nearest(name, registry.aliases()) {
                Some(meant) => format!("did you mean `{meant}`? `rex target list` shows all"),
                None => "`rex target list` shows the aliases".to_owned(),
            };
            let what =
                format!("cannot forget `{name}`: no alias in {} has that name", registry.path().display());
            Err(Failure::new(what).hint(hint))
        }
    })?;
    match json {
        true => output::json_line(&serde_json::json!({ "removed": name }))?,
        false => output::line(format_args!("forgot {name}"))?,
    }
    // It stays chosen: falling back to this machine in silence would run commands where nobody wanted them.
    let used = places.state.as_deref().map_or(Ok(None), state::used)?;
    if used.as_deref() == Some(name) {
        output::remark(format_args!("`rex target use` still names {name}: rex target use -   takes it back"));
    }
    Ok(Status::OK)
}

/// Where the registry lies.
fn registry_file(places: &Places) -> Result<PathBuf, Failure> {
    places.registry.clone().ok_or_else(|| {
        Failure::new("there is no place for the registry of targets: HOME is not set")
            .hint("set REXD_TARGETS_FILE to a file of yours")
    })
}
