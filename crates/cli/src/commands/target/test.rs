//! `rex target test`: tests a target step by step.

use client::Target;
use serde_json::json;

use super::checks::{self, Checks};
use crate::app::App;
use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::route::{self, Choice, Inputs};

pub(super) async fn run(flag: Option<&str>, json: bool) -> Result<CommandStatus, Failure> {
    let inputs = Inputs::gather(flag);
    let mut checks = Checks::new(json);
    let choice = match route::choose_from(&inputs) {
        Ok(choice) => choice,
        Err(failure) => {
            checks.failed("name", &failure)?;
            return finish(&checks, None);
        }
    };
    let meaning = match &choice.alias {
        Some(alias) => format!("{alias} is {}", choice.target),
        None => choice.target.to_string(),
    };
    checks.ok("name", meaning)?;
    choice.warnings.iter().for_each(output::note);
    let app = App { choice: on_new_connection(choice), json };
    checks::run(&mut checks, &app.choice, app.options()).await?;
    finish(&checks, Some(&app.choice))
}

/// The login is a step of the test: a connection that is open already would skip it.
fn on_new_connection(mut choice: Choice) -> Choice {
    if let Target::Ssh(ssh) = &mut choice.target {
        ssh.is_unshared = true;
    }
    choice
}

fn finish(checks: &Checks, choice: Option<&Choice>) -> Result<CommandStatus, Failure> {
    if let Some(line) = checks.as_json_line(choice) {
        output::json_line(&line)?;
    }
    Ok(if checks.is_ok() { CommandStatus::OK } else { CommandStatus::UNSUCCESSFUL })
}

impl Checks {
    /// The report of `rex target test --json`.
    fn as_json_line(&self, choice: Option<&Choice>) -> Option<serde_json::Value> {
        self.is_json().then(|| {
            json!({
                "target": choice.map(|choice| choice.target.to_string()),
                "alias": choice.and_then(|choice| choice.alias.as_deref()),
                "ok": self.is_ok(),
                "steps": self.to_json(),
            })
        })
    }
}
