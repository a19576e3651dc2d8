//! Evaluates command lines: the first rule that matches decides on each command.

use super::analyze::{CommandKind, ParsedCommand, ParsedCommands};
use super::classes::{self, Classes};
use super::decision::risk_of_commands;
use super::explain::{DecisionRecorder, Finding};
use super::pattern::Match;
use super::words::{Word, base_name};
use super::{DEFAULT, Decision, Policy, PolicyQuery, Rule, Verdict};

/// Input that is the same for all commands of one decision.
#[derive(Clone, Copy)]
pub(super) struct CommandQuery<'a> {
    pub(super) query: &'a PolicyQuery<'a>,
    pub(super) parsed: &'a ParsedCommands,
    /// Whether the policy could refuse this caller a command; then commands that cannot be analyzed are refused.
    pub(super) can_refuse: bool,
}

impl Policy {
    /// The strictest decision on any command and on the part that could not be analyzed.
    pub(super) fn evaluate(&self, query: CommandQuery<'_>, recorder: &mut impl DecisionRecorder) -> Decision {
        let parsed = query.parsed;
        let mut strictest: Option<Decision> = None;
        let mut add = |decision: Decision| {
            if strictest.as_ref().is_none_or(|worst| decision.verdict > worst.verdict) {
                strictest = Some(decision);
            }
        };
        let mut granted = vec![false; parsed.commands.len()];
        for (at, command) in parsed.commands.iter().enumerate() {
            let under_grant = command.under_sudo.is_some_and(|sudo| granted[sudo]);
            let decision = self.evaluate_command(command, query, under_grant, recorder);
            let listed = self.listed_for_sudo(command, &parsed.variables) == Some(true);
            granted[at] = under_grant || (listed && decision.verdict == Verdict::Allow);
            add(decision);
        }
        if let Some(why) = parsed.unseen.as_ref().filter(|_| query.can_refuse) {
            recorder.unseen(why);
            add(self.refuse_unseen(why));
        }
        let mut decision = strictest.unwrap_or_else(|| self.by_default("an empty command"));
        if decision.verdict != Verdict::Allow {
            decision.risk = risk_of_commands(parsed);
        }
        decision
    }

    fn evaluate_command(
        &self,
        command: &ParsedCommand,
        query: CommandQuery<'_>,
        granted: bool,
        recorder: &mut impl DecisionRecorder,
    ) -> Decision {
        let needs_classes = self.uses_classes || recorder.needs_all_rules();
        let classes = if needs_classes { classes::of(command) } else { Classes::default() };
        recorder.command(command, classes);
        let listed = self.listed_for_sudo(command, &query.parsed.variables);
        if listed == Some(false) {
            let reason = format!(
                "`{}` is not among the commands that may run with sudo (policy.sudo)",
                command.text()
            );
            let decision = Decision::new(Verdict::Deny, "sudo", reason);
            recorder.decided(&decision);
            return decision;
        }
        let mut may_ask = None;
        let by_rule = if recorder.needs_all_rules() {
            let rules = self.settings.rules.iter().filter(|rule| !rule.is_about_files());
            self.first_match((command, classes), query, rules, (&mut may_ask, recorder))
        } else {
            let rules = self.candidates(command.program(), command.words.get(1..).unwrap_or_default());
            self.first_match((command, classes), query, rules, (&mut may_ask, recorder))
        };
        let decision = by_rule.unwrap_or_else(|| match command.kind {
            _ if listed == Some(true) || granted => Decision::allowed("sudo"),
            CommandKind::Passes | CommandKind::Perhaps => Decision::allowed(DEFAULT),
            CommandKind::Opaque if query.can_refuse => {
                self.refuse_unseen(&format!("`{}` may run any command, and no rule names it", command.text()))
            }
            CommandKind::Plain | CommandKind::Sudo(_) | CommandKind::Opaque | CommandKind::Code => {
                self.by_default(&command.text())
            }
        });
        let decision = match may_ask {
            Some(ask) if decision.verdict < Verdict::Ask => ask,
            _ => decision,
        };
        recorder.decided(&decision);
        decision
    }

    /// Whether the command of a `sudo` is in the configured list; `None` without a list or without `sudo`.
    fn listed_for_sudo(&self, command: &ParsedCommand, variables: &[String]) -> Option<bool> {
        let list = self.settings.sudo.as_ref()?;
        if !is_sudo(command) {
            return None;
        }
        let CommandKind::Sudo(start) = command.kind else { return Some(false) };
        // Another root directory, working directory or environment makes the name refer to another program.
        if !variables.is_empty() || !command.words[1..start].iter().all(is_plain_sudo_option) {
            return Some(false);
        }
        let (program, arguments) = command.words.get(start..)?.split_first()?;
        let Some(program) = program.literal() else { return Some(false) };
        Some(list.iter().any(|pattern| {
            pattern.program_matches(program)
                && (!pattern.trusts_any_directory() || is_system_program(program))
                && pattern.arguments_match(arguments) == Match::Yes
        }))
    }

    /// The first rule that matches with certainty, or may match and denies. `may_ask` receives the first rule that may match
    /// and asks.
    fn first_match<'r>(
        &'r self,
        (command, classes): (&ParsedCommand, Classes),
        query: CommandQuery<'_>,
        rules: impl Iterator<Item = &'r Rule>,
        (may_ask, recorder): (&mut Option<Decision>, &mut impl DecisionRecorder),
    ) -> Option<Decision> {
        let mut doubt = None;
        for rule in rules {
            let conditions = rule.conditions.matches(query.query, query.parsed.moves);
            let matched = if conditions == Match::No {
                conditions
            } else {
                rule.matches(command, classes).min(conditions)
            };
            match (matched, rule.verdict) {
                (Match::No, _) => recorder.rule(rule, Finding::no(rule, command, conditions)),
                (Match::Maybe, Verdict::Allow) => recorder.rule(rule, Finding::NotCertain),
                (Match::Yes, Verdict::Allow) => {
                    if self.must_be_named(command) && rule.program_name().is_none() {
                        recorder.rule(rule, Finding::NamesNoProgram);
                        continue;
                    }
                    match rule.unknown_variable(&query.parsed.variables) {
                        Some(name) => {
                            recorder.rule(rule, Finding::UnknownVariable);
                            doubt = Some(name);
                        }
                        None => {
                            recorder.rule(rule, Finding::Decides);
                            return Some(Decision::allowed(rule.name.clone()));
                        }
                    }
                }
                (Match::Maybe, Verdict::Ask) => {
                    recorder.rule(rule, Finding::MayMatch);
                    may_ask.get_or_insert_with(|| rule.refusal(&command.text(), UNKNOWN_WORDS));
                }
                (Match::Yes, _) => {
                    recorder.rule(rule, Finding::Decides);
                    return Some(rule.refusal(&command.text(), ""));
                }
                (Match::Maybe, _) => {
                    recorder.rule(rule, Finding::MayMatch);
                    return Some(rule.refusal(&command.text(), UNKNOWN_WORDS));
                }
            }
        }
        let name = doubt.filter(|_| self.settings.default != Verdict::Allow)?;
        let reason = format!(
            "`{}` is allowed, but {name} is set, which may change what it runs; a rule can list it in `env`",
            command.text()
        );
        Some(Decision::new(self.settings.default, DEFAULT, reason))
    }

    /// Whether only a rule that names the program can allow the command.
    fn must_be_named(&self, command: &ParsedCommand) -> bool {
        match command.kind {
            CommandKind::Opaque => true,
            CommandKind::Code => self.settings.default != Verdict::Allow,
            CommandKind::Plain | CommandKind::Passes | CommandKind::Sudo(_) | CommandKind::Perhaps => false,
        }
    }

    /// Rules that could match a command, in order.
    pub(super) fn candidates(&self, program: &str, arguments: &[Word]) -> impl Iterator<Item = &Rule> {
        let found = self.commands.candidates(program, arguments);
        found.into_iter().filter_map(|at| self.settings.rules.get(at))
    }

    fn by_default(&self, command: &str) -> Decision {
        match self.settings.default {
            Verdict::Allow => Decision::allowed(DEFAULT),
            verdict => Decision::new(verdict, DEFAULT, format!("no rule allows `{command}`")),
        }
    }

    /// Commands that cannot be analyzed need approval if the default is `ask`, and are denied otherwise.
    fn refuse_unseen(&self, why: &str) -> Decision {
        let verdict = if self.settings.default == Verdict::Ask { Verdict::Ask } else { Verdict::Deny };
        Decision::new(verdict, "unseen", why)
    }
}

/// Note on a rule that may match.
const UNKNOWN_WORDS: &str = " (some words are only known at run time)";

fn is_sudo(command: &ParsedCommand) -> bool {
    const NAMES: &[&str] = &["sudo", "sudo-rs", "sudoedit", "sudoedit-rs", "doas", "pkexec", "run0"];
    matches!(command.kind, CommandKind::Sudo(_)) || NAMES.contains(&base_name(command.program()))
}

/// Whether a word before the command of `sudo` changes neither its directories nor its environment: `-n`, `-u USER`, …
fn is_plain_sudo_option(word: &Word) -> bool {
    let Some(text) = word.literal() else { return false };
    match (text.strip_prefix("--"), text.strip_prefix('-')) {
        (Some(long), _) => {
            ["", "non-interactive", "stdin", "askpass", "set-home", "user", "group"].contains(&long)
                || long.starts_with("user=")
                || long.starts_with("group=")
        }
        (None, Some(short)) => {
            short.starts_with(['u', 'g']) || short.chars().all(|flag| "nSAHkb".contains(flag))
        }
        // The value of an option.
        (None, None) => !text.contains('='),
    }
}

/// Whether a name without a directory in a rule that allows may refer to this program: found through `PATH`, or in a
/// system directory. A file of the same name elsewhere may be another program.
pub(super) fn is_system_program(program: &str) -> bool {
    const DIRECTORIES: &[&str] =
        &["/bin/", "/sbin/", "/usr/", "/nix/store/", "/run/current-system/", "/opt/homebrew/"];
    !program.contains('/')
        || (DIRECTORIES.iter().any(|directory| program.starts_with(directory)) && !program.contains("/../"))
}
