//! Prints decisions and explanations as text and as JSON.

use std::io::{self, Write};

use engine::policy::{Decision, Explanation, Subject};
use serde_json::{Value, json};

use crate::config::Config;
use crate::observe::audit::printable;

/// Prints the verdict, the rule and the reason.
pub(super) fn decision(decision: &Decision, config: &Config, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:<9}{}", "verdict", decision.verdict.name())?;
    writeln!(out, "{:<9}{}{}", "rule", decision.rule, position(decision, config))?;
    if !decision.reason.is_empty() {
        writeln!(out, "{:<9}{}", "reason", printable(&decision.reason))?;
        writeln!(out, "{:<9}{}", "risk", decision.risk.name())?;
    }
    Ok(())
}

/// Prints every checked rule, then the decision.
pub(super) fn explanation(explanation: &Explanation, config: &Config, out: &mut dyn Write) -> io::Result<()> {
    for (at, subject) in explanation.subjects.iter().enumerate() {
        writeln!(out, "{}. {}", at + 1, printable(&subject.what))?;
        steps(subject, out)?;
        if let Some(decision) = &subject.decision {
            writeln!(out, "   -> {} by {}", decision.verdict.name(), decision.rule)?;
        }
    }
    if let Some(unseen) = &explanation.unseen {
        writeln!(out, "not analysed: {}", printable(unseen))?;
    }
    if explanation.subjects.len() + usize::from(explanation.unseen.is_some()) > 1 {
        writeln!(out, "the strictest decision applies:")?;
    }
    decision(&explanation.decision, config, out)
}

fn steps(subject: &Subject, out: &mut dyn Write) -> io::Result<()> {
    if let Some(note) = subject.note {
        writeln!(out, "   it {note}")?;
    }
    if !subject.classes.is_empty() {
        writeln!(out, "   classes: {}", subject.classes.join(", "))?;
    }
    for step in &subject.steps {
        let line = step.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        writeln!(out, "   {line}{} {}", step.rule, step.finding.text())?;
    }
    Ok(())
}

pub(super) fn decision_json(decision: &Decision, config: &Config) -> Value {
    json!({
        "verdict": decision.verdict.name(),
        "rule": &*decision.rule,
        "line": line_of(decision, config),
        "reason": decision.reason,
        "risk": decision.risk.name(),
    })
}

pub(super) fn explanation_json(explanation: &Explanation, config: &Config) -> Value {
    let subjects = explanation.subjects.iter().map(|subject| {
        let steps = subject
            .steps
            .iter()
            .map(|step| json!({ "rule": &*step.rule, "line": step.line, "finding": step.finding.text() }));
        json!({
            "what": subject.what,
            "note": subject.note,
            "classes": subject.classes,
            "rules": steps.collect::<Vec<_>>(),
            "verdict": subject.decision.as_ref().map(|decision| decision.verdict.name()),
            "rule": subject.decision.as_ref().map(|decision| &*decision.rule),
        })
    });
    json!({
        "subjects": subjects.collect::<Vec<_>>(),
        "unseen": explanation.unseen,
        "decision": decision_json(&explanation.decision, config),
    })
}

/// The line of the rule that decided.
fn line_of(decision: &Decision, config: &Config) -> Option<usize> {
    config.policy.settings().rules.iter().find(|rule| rule.name == decision.rule)?.line
}

fn position(decision: &Decision, config: &Config) -> String {
    match (line_of(decision, config), &config.source) {
        (Some(line), Some(file)) => format!(" ({}:{line})", file.display()),
        _ => String::new(),
    }
}
