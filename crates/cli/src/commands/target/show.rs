//! `rex target show`: shows the current target and the result of every routing rule.

use serde_json::{Value, json};

use crate::failure::{CommandStatus, Failure};
use crate::output;
use crate::route::{self, Choice, Explanation, Inputs};
use crate::table::TextTable;

pub(super) fn run(flag: Option<&str>, json: bool) -> Result<CommandStatus, Failure> {
    let explanation = route::explain(&Inputs::gather(flag));
    match json {
        true => output::json_line(&as_json(&explanation))?,
        false => print(&explanation)?,
    }
    let choice = explanation.choice?;
    choice.warnings.iter().for_each(output::note);
    Ok(CommandStatus::OK)
}

fn print(explanation: &Explanation) -> Result<(), Failure> {
    if let Ok(choice) = &explanation.choice {
        output::line(headline(choice) + "\n")?;
    }
    let mut table = TextTable::new(&["", "RULE", "TARGET", ""]);
    for rule in &explanation.rules {
        let mark = if rule.wins { ">" } else { " " };
        let target = rule.target.as_deref().unwrap_or("-");
        table.row(&[mark, rule.rule, target, rule.note.as_deref().unwrap_or_default()].map(str::to_owned));
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
        .map(|rule| json!({ "rule": rule.rule, "says": rule.target, "remark": rule.note, "wins": rule.wins }))
        .collect();
    let winner = explanation.rules.iter().find(|rule| rule.wins).map(|rule| rule.rule);
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
