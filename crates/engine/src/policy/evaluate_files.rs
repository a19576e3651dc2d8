//! Evaluates file operations: the first path rule that matches decides on each file.

use super::decision::risk_of_files;
use super::explain::{DecisionRecorder, Finding};
use super::path_glob::clean;
use super::pattern::Match;
use super::{DEFAULT, Decision, PathAccess, Policy, PolicyQuery, Rule, Verdict};

impl Policy {
    /// The strictest verdict on any of the files.
    pub(super) fn evaluate_files(
        &self,
        query: &PolicyQuery<'_>,
        accesses: &[PathAccess<'_>],
        recorder: &mut impl DecisionRecorder,
    ) -> Decision {
        let mut strictest = Decision::allowed(DEFAULT);
        for (at, access) in accesses.iter().enumerate() {
            recorder.file(access);
            let decision = self.evaluate_file(query, access, recorder);
            recorder.decided(&decision);
            if at == 0 || decision.verdict > strictest.verdict {
                strictest = decision;
            }
        }
        if strictest.verdict != Verdict::Allow {
            strictest.risk = risk_of_files(accesses);
        }
        strictest
    }

    fn evaluate_file(
        &self,
        query: &PolicyQuery<'_>,
        access: &PathAccess<'_>,
        recorder: &mut impl DecisionRecorder,
    ) -> Decision {
        let cleaned = clean(access.path);
        let access = PathAccess { path: &cleaned, ..*access };
        let mut may_ask = None;
        let decision = if recorder.needs_all_rules() {
            let rules = self.settings.rules.iter().filter(|rule| rule.is_about_files());
            self.first_path_match((query, &access), rules, (&mut may_ask, recorder))
        } else {
            let candidates = self.paths.candidates(access.path, access.is_recursive);
            let rules = candidates.iter().filter_map(|&at| self.settings.rules.get(at));
            self.first_path_match((query, &access), rules, (&mut may_ask, recorder))
        };
        let decision = decision.unwrap_or_else(|| match self.settings.files_default {
            Verdict::Allow => Decision::allowed(DEFAULT),
            verdict => Decision::new(verdict, DEFAULT, format!("no rule allows to {}", describe(&access))),
        });
        match may_ask {
            Some(ask) if decision.verdict < Verdict::Ask => ask,
            _ => decision,
        }
    }

    fn first_path_match<'r>(
        &'r self,
        (query, access): (&PolicyQuery<'_>, &PathAccess<'_>),
        rules: impl Iterator<Item = &'r Rule>,
        (may_ask, recorder): (&mut Option<Decision>, &mut impl DecisionRecorder),
    ) -> Option<Decision> {
        for rule in rules {
            let conditions = rule.conditions.matches(query, false);
            let matched = if conditions == Match::No { conditions } else { rule.matches_path(access) };
            match (matched, rule.verdict) {
                (Match::No, _) => recorder.rule(rule, Finding::no_path(rule, access, conditions)),
                (Match::Maybe, Verdict::Allow) => recorder.rule(rule, Finding::NotCertain),
                (Match::Yes, Verdict::Allow) => {
                    recorder.rule(rule, Finding::Decides);
                    return Some(Decision::allowed(rule.name.clone()));
                }
                (Match::Yes, _) => {
                    recorder.rule(rule, Finding::Decides);
                    return Some(rule.refusal(&describe(access), ""));
                }
                (Match::Maybe, Verdict::Ask) => {
                    recorder.rule(rule, Finding::MayMatch);
                    may_ask.get_or_insert_with(|| rule.refusal(&describe(access), BELOW));
                }
                (Match::Maybe, _) => {
                    recorder.rule(rule, Finding::MayMatch);
                    return Some(rule.refusal(&describe(access), BELOW));
                }
            }
        }
        None
    }
}

/// Note on a rule that may match only below a directory.
const BELOW: &str = " (files below it may match)";

/// The access as text, such as `read /a/b`.
pub(super) fn describe(access: &PathAccess<'_>) -> String {
    let below = if access.is_recursive { " with all below" } else { "" };
    format!("{} {}{below}", access.access.name(), access.path.display())
}
