//! `rex target show`: which target is used here, and what every rule says.

use serde_json::{Value, json};

use crate::failure::{Failure, Status};
use crate::output;
use crate::route::{self, Choice, Explanation, Inputs};
use crate::table::{Table, plain};

pub(super) fn run(asked: Option<&str>, json: bool) -> Result<Status, Failure> {
    let explanation = route::explain(&Inputs::gather(asked));
    match json {
        true => output::json_line(&as_json(&explanation))?,
        false => print(&explanation)?,
    }
    let choice = explanation.choice?;
    choice.warnings.iter().for_each(output::remark);
    Ok(Status::OK)
}

fn print(explanation: &Explanation) -> Result<(), Failure> {
    if let Ok(choice) = &explanation.choice {
        output::line(plain(&headline(choice)) + "\n")?;
    }
    let mut table = Table::new(&["", "RULE", "SAYS", ""]);
    for spoken in &explanation.rules {
        let mark = if spoken.wins { ">" } else { " " };
        let says = spoken.says.as_deref().unwrap_or("-");
        table
            .row(&[mark, spoken.rule, says, spoken.remark.as_deref().unwrap_or_default()].map(str::to_owned));
    }
    table.print()
}

fn headline(choice: &Choice) -> String {
    let alias = choice.alias.as_ref().map(|alias| format!("{alias}  ")).unwrap_or_default();
    let cwd = choice.cwd.as_ref().map(|cwd| format!("  in {cwd}")).unwrap_or_default();
    format!("{alias}{}{cwd}", choice.target)
}

fn as_json(explanation: &Explanation) -> Value {
    let rules: Vec<Value> = explanation
        .rules
        .iter()
        .map(|spoken| {
            json!({ "rule": spoken.rule, "says": spoken.says, "remark": spoken.remark, "wins": spoken.wins })
        })
        .collect();
    let winner = explanation.rules.iter().find(|spoken| spoken.wins).map(|spoken| spoken.rule);
    match &explanation.choice {
        Ok(choice) => json!({
            "target": choice.target.to_string(),
            "alias": choice.alias,
            "cwd": choice.cwd,
            "rule": winner,
            "rules": rules,
        }),
        Err(_) => json!({ "target": null, "alias": null, "cwd": null, "rule": winner, "rules": rules }),
    }
}
