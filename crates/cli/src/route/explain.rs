//! The explanation of a choice: what every rule says, and which one won.

use super::decide::{RULES, Said, decide};
use super::inputs::Inputs;
use super::{Choice, Rule, token};
use crate::failure::Failure;

/// What every rule says, and what comes of it.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// The rules in their order.
    pub rules: Vec<Spoken>,
    /// Where work is done, if that could be decided.
    pub choice: Result<Choice, Failure>,
}

/// What one rule says.
#[derive(Debug, Clone)]
pub struct Spoken {
    /// What the rule is called.
    pub rule: &'static str,
    /// An alias or a target, or nothing.
    pub says: Option<String>,
    /// Where it says so, or why it says nothing.
    pub remark: Option<String>,
    /// Whether it decides.
    pub wins: bool,
}

/// Explains the choice.
pub fn explain(inputs: &Inputs) -> Explanation {
    let mut rules: Vec<Spoken> = RULES
        .iter()
        .map(|(rule, says)| match says(inputs) {
            Ok(Some(said)) => {
                let remark = remark(&said);
                Spoken { rule, says: Some(said.name), remark, wins: false }
            }
            Ok(None) => Spoken { rule, says: None, remark: silence(rule, inputs), wins: false },
            Err(failure) => Spoken { rule, says: None, remark: Some(failure.message), wins: false },
        })
        .collect();
    // A rule that fails decides too: that nothing is done.
    let failed = RULES.iter().position(|(_, says)| says(inputs).is_err());
    let spoken = rules.iter().position(|spoken| spoken.says.is_some());
    let winner = failed.into_iter().chain(spoken).min();
    if let Some(winner) = winner.and_then(|index| rules.get_mut(index)) {
        winner.wins = true;
    }
    Explanation { rules, choice: decide(inputs).and_then(token::admit) }
}

fn remark(said: &Said) -> Option<String> {
    let place = match &said.rule {
        Rule::Project(path) | Rule::Prefix(path) => Some(path.display().to_string()),
        _ => None,
    };
    match (place, &said.cwd) {
        (Some(place), Some(cwd)) => Some(format!("{place} → {cwd}")),
        (place, _) => place,
    }
}

fn silence(rule: &str, inputs: &Inputs) -> Option<String> {
    match rule {
        "project file" => Some(match &inputs.project {
            Ok(Some(project)) => format!("{} names no target", project.file.display()),
            _ => "no .rex.toml here or above".to_owned(),
        }),
        "carried over" if inputs.session.is_none() => Some("REX_SESSION names no session".to_owned()),
        _ => None,
    }
}
