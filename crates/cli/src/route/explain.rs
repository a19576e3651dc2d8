//! Explains the choice of a target: the result of every rule, and the rule that won.

use super::decide::{RULES, RuleResult};
use super::inputs::Inputs;
use super::{Choice, Rule, choose_from};
use crate::failure::Failure;

/// The result of every rule, and the choice.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The rules in order of precedence.
    pub rules: Vec<RuleExplanation>,
    /// The choice, or why it failed.
    pub choice: Result<Choice, Failure>,
}

/// The result of one rule, for `rex target show`.
#[derive(Debug, Clone)]
pub struct RuleExplanation {
    /// The name of the rule.
    pub rule: &'static str,
    /// The alias or target it selects.
    pub target: Option<String>,
    /// Where that is configured, or why the rule does not apply.
    pub note: Option<String>,
    /// Whether this rule decided.
    pub wins: bool,
}

/// Explains the choice of the target.
pub fn explain(inputs: &Inputs) -> Explanation {
    let mut rules: Vec<RuleExplanation> = RULES
        .iter()
        .map(|(rule, apply)| match apply(inputs) {
            Ok(Some(result)) => {
                let note = note(&result);
                RuleExplanation { rule, target: Some(result.name), note, wins: false }
            }
            Ok(None) => {
                RuleExplanation { rule, target: None, note: not_applied_reason(rule, inputs), wins: false }
            }
            Err(failure) => RuleExplanation { rule, target: None, note: Some(failure.message), wins: false },
        })
        .collect();
    // A rule that fails also decides: the command fails.
    let failed = RULES.iter().position(|(_, apply)| apply(inputs).is_err());
    let selected = rules.iter().position(|rule| rule.target.is_some());
    let winner = failed.into_iter().chain(selected).min();
    if let Some(winner) = winner.and_then(|index| rules.get_mut(index)) {
        winner.wins = true;
    }
    Explanation { rules, choice: choose_from(inputs) }
}

fn note(result: &RuleResult) -> Option<String> {
    let place = match &result.rule {
        Rule::Project(path) | Rule::Prefix(path) => Some(path.display().to_string()),
        _ => None,
    };
    match (place, &result.cwd) {
        (Some(place), Some(cwd)) => Some(format!("{place} → {cwd}")),
        (place, _) => place,
    }
}

fn not_applied_reason(rule: &str, inputs: &Inputs) -> Option<String> {
    match rule {
        "project file" => Some(match &inputs.project {
            Ok(Some(project)) => format!("{} sets no target", project.file.display()),
            _ => "no .rex.toml in this directory or above".to_owned(),
        }),
        "carried over" if inputs.session.is_none() => Some("REX_SESSION is not set".to_owned()),
        _ => None,
    }
}
