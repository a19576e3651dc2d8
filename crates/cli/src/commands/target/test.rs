//! `rex target test`: tries every step to a target, and says which fails and what to do.

use serde_json::json;

use super::checks::{self, Checks};
use crate::app::App;
use crate::failure::{Failure, Status};
use crate::output;
use crate::route::{self, Choice, Inputs};

pub(super) async fn run(asked: Option<&str>, json: bool) -> Result<Status, Failure> {
    let inputs = Inputs::gather(asked);
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
    choice.warnings.iter().for_each(output::remark);
    let app = App { choice, json };
    checks::run(&mut checks, &app.choice, app.options()).await?;
    finish(&checks, Some(&app.choice))
}

fn finish(checks: &Checks, choice: Option<&Choice>) -> Result<Status, Failure> {
    if let Some(line) = checks.as_json_line(choice) {
        output::json_line(&line)?;
    }
    Ok(if checks.is_ok() { Status::OK } else { Status::NOTHING })
}

impl Checks {
    /// The report of a test, if it is wanted as JSON.
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
