//! The verdict on files that are to be touched: each of them by the first path rule that matches it.

use super::decision::risk_of_files;
use super::explain::{DecisionRecorder, Finding};
use super::path_glob::clean;
use super::pattern::Match;
use super::{DEFAULT, Decision, PathAccess, Policy, PolicyQuery, Rule, Verdict};

impl Policy {
    /// The strictest verdict on any of the files.
    pub(super) fn evaluate_files(
        &self,
        asked: &PolicyQuery<'_>,
        touched: &[PathAccess<'_>],
        notes: &mut impl DecisionRecorder,
    ) -> Decision {
        let mut strictest = Decision::allowed(DEFAULT);
        for (at, touch) in touched.iter().enumerate() {
            notes.file(touch);
            let decision = self.judge_file(asked, touch, notes);
            notes.decided(&decision);
            if at == 0 || decision.verdict > strictest.verdict {
                strictest = decision;
            }
        }
        if strictest.verdict != Verdict::Allow {
            strictest.risk = risk_of_files(touched);
        }
        strictest
    }

    fn judge_file(
        &self,
        asked: &PolicyQuery<'_>,
        touch: &PathAccess<'_>,
        notes: &mut impl DecisionRecorder,
    ) -> Decision {
        let cleaned = clean(touch.path);
        let touch = PathAccess { path: &cleaned, ..*touch };
        let mut may_ask = None;
        let decision = if notes.every_rule() {
            let rules = self.settings.rules.iter().filter(|rule| rule.is_about_files());
            self.first_path_match((asked, &touch), rules, (&mut may_ask, notes))
        } else {
            let candidates = self.paths.candidates(touch.path, touch.is_recursive);
            let rules = candidates.iter().filter_map(|&at| self.settings.rules.get(at));
            self.first_path_match((asked, &touch), rules, (&mut may_ask, notes))
        };
        let decision = decision.unwrap_or_else(|| match self.settings.files_default {
            Verdict::Allow => Decision::allowed(DEFAULT),
            verdict => Decision::new(verdict, DEFAULT, format!("no rule allows to {}", describe(&touch))),
        });
        match may_ask {
            Some(ask) if decision.verdict < Verdict::Ask => ask,
            _ => decision,
        }
    }

    fn first_path_match<'r>(
        &'r self,
        (asked, touch): (&PolicyQuery<'_>, &PathAccess<'_>),
        rules: impl Iterator<Item = &'r Rule>,
        (may_ask, notes): (&mut Option<Decision>, &mut impl DecisionRecorder),
    ) -> Option<Decision> {
        for rule in rules {
            let held = rule.conditions.hold(asked, false);
            let matched = if held == Match::No { held } else { rule.touches(touch) };
            match (matched, rule.verdict) {
                (Match::No, _) => notes.rule(rule, Finding::no_path(rule, touch, held)),
                (Match::Maybe, Verdict::Allow) => notes.rule(rule, Finding::NotCertain),
                (Match::Yes, Verdict::Allow) => {
                    notes.rule(rule, Finding::Decides);
                    return Some(Decision::allowed(rule.name.clone()));
                }
                (Match::Yes, _) => {
                    notes.rule(rule, Finding::Decides);
                    return Some(rule.refuses(&describe(touch), ""));
                }
                (Match::Maybe, Verdict::Ask) => {
                    notes.rule(rule, Finding::MayMatch);
                    may_ask.get_or_insert_with(|| rule.refuses(&describe(touch), BELOW));
                }
                (Match::Maybe, _) => {
                    notes.rule(rule, Finding::MayMatch);
                    return Some(rule.refuses(&describe(touch), BELOW));
                }
            }
        }
        None
    }
}

/// Said of a rule that matches only something below a directory.
const BELOW: &str = " (files below it may match)";

/// `read /a/b`, for people.
pub(super) fn describe(touch: &PathAccess<'_>) -> String {
    let below = if touch.is_recursive { " with all below" } else { "" };
    format!("{} {}{below}", touch.access.name(), touch.path.display())
}
