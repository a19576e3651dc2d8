//! The verdict on everything a command line may run: each command by the first rule that matches it.

use super::analyze::{CommandKind, ParsedCommand, ParsedCommands};
use super::classes::{self, Classes};
use super::decision::risk_of_commands;
use super::explain::{DecisionRecorder, Finding};
use super::pattern::Match;
use super::words::base_name;
use super::{DEFAULT, Decision, Policy, PolicyQuery, Rule, Verdict};

/// What is the same for every command of one decision.
#[derive(Clone, Copy)]
pub(super) struct CommandQuery<'a> {
    pub(super) asked: &'a PolicyQuery<'a>,
    pub(super) seen: &'a ParsedCommands,
    /// Whether the policy could refuse this caller anything, so that what cannot be seen counts against it.
    pub(super) can_refuse: bool,
}

impl Policy {
    /// The strictest verdict on any of the commands, and on what could not be seen.
    pub(super) fn evaluate(&self, case: CommandQuery<'_>, notes: &mut impl DecisionRecorder) -> Decision {
        let seen = case.seen;
        let mut strictest: Option<Decision> = None;
        let mut add = |decision: Decision| {
            if strictest.as_ref().is_none_or(|worst| decision.verdict > worst.verdict) {
                strictest = Some(decision);
            }
        };
        let mut granted = vec![false; seen.commands.len()];
        for (at, command) in seen.commands.iter().enumerate() {
            let under_grant = command.under_sudo.is_some_and(|sudo| granted[sudo]);
            let decision = self.judge_command(command, case, under_grant, notes);
            let listed = self.listed_for_sudo(command) == Some(true);
            granted[at] = under_grant || (listed && decision.verdict == Verdict::Allow);
            add(decision);
        }
        if let Some(why) = seen.unseen.as_ref().filter(|_| case.can_refuse) {
            notes.unseen(why);
            add(self.refuse_unseen(why));
        }
        let mut decision = strictest.unwrap_or_else(|| self.by_default("an empty command"));
        if decision.verdict != Verdict::Allow {
            decision.risk = risk_of_commands(seen);
        }
        decision
    }

    fn judge_command(
        &self,
        command: &ParsedCommand,
        case: CommandQuery<'_>,
        granted: bool,
        notes: &mut impl DecisionRecorder,
    ) -> Decision {
        let needs_classes = self.uses_classes || notes.every_rule();
        let classes = if needs_classes { classes::of(command) } else { Classes::default() };
        notes.command(command, classes);
        let listed = self.listed_for_sudo(command);
        if listed == Some(false) {
            let reason =
                format!("`{}` is not in the list of commands that may run with sudo", command.text());
            let decision = Decision::new(Verdict::Deny, "sudo", reason);
            notes.decided(&decision);
            return decision;
        }
        let mut asked = None;
        let by_rule = if notes.every_rule() {
            let rules = self.settings.rules.iter().filter(|rule| !rule.is_about_files());
            self.first_match((command, classes), case, rules, (&mut asked, notes))
        } else {
            let rules = self.candidates(command.program());
            self.first_match((command, classes), case, rules, (&mut asked, notes))
        };
        let decision = by_rule.unwrap_or_else(|| match command.kind {
            _ if listed == Some(true) || granted => Decision::allowed("sudo"),
            CommandKind::Passes | CommandKind::Perhaps => Decision::allowed(DEFAULT),
            CommandKind::Opaque if case.can_refuse => {
                self.refuse_unseen(&format!("`{}` may run anything, and no rule names it", command.text()))
            }
            CommandKind::Plain | CommandKind::Sudo(_) | CommandKind::Opaque | CommandKind::Code => {
                self.by_default(&command.text())
            }
        });
        let decision = match asked {
            Some(ask) if decision.verdict < Verdict::Ask => ask,
            _ => decision,
        };
        notes.decided(&decision);
        decision
    }

    /// Whether the command of a `sudo` is in the operator's list; nothing when there is no list or no `sudo`.
    fn listed_for_sudo(&self, command: &ParsedCommand) -> Option<bool> {
        let list = self.settings.sudo.as_ref()?;
        if !is_sudo(command) {
            return None;
        }
        let CommandKind::Sudo(start) = command.kind else { return Some(false) };
        let (program, arguments) = command.words.get(start..)?.split_first()?;
        let Some(program) = program.literal() else { return Some(false) };
        Some(list.iter().any(|pattern| {
            pattern.program_matches(program)
                && (!pattern.trusts_any_directory() || is_system_program(program))
                && pattern.arguments_match(arguments) == Match::Yes
        }))
    }

    /// The first rule that surely matches, or that might and is strict. `asked` gets a rule that might match and asks.
    fn first_match<'r>(
        &'r self,
        (command, classes): (&ParsedCommand, Classes),
        case: CommandQuery<'_>,
        rules: impl Iterator<Item = &'r Rule>,
        (asked, notes): (&mut Option<Decision>, &mut impl DecisionRecorder),
    ) -> Option<Decision> {
        let mut doubt = None;
        for rule in rules {
            let held = rule.conditions.hold(case.asked, case.seen.moves);
            let matched = if held == Match::No { held } else { rule.matches(command, classes).min(held) };
            match (matched, rule.verdict) {
                (Match::No, _) => notes.rule(rule, Finding::no(rule, command, held)),
                (Match::Maybe, Verdict::Allow) => notes.rule(rule, Finding::NotCertain),
                (Match::Yes, Verdict::Allow) => {
                    if self.must_be_named(command) && rule.program_name().is_none() {
                        notes.rule(rule, Finding::NamesNoProgram);
                        continue;
                    }
                    match &case.seen.lookup_changed {
                        Some(name) => {
                            notes.rule(rule, Finding::LookupChanged);
                            doubt = Some(name);
                        }
                        None => {
                            notes.rule(rule, Finding::Decides);
                            return Some(Decision::allowed(rule.name.clone()));
                        }
                    }
                }
                (Match::Maybe, Verdict::Ask) => {
                    notes.rule(rule, Finding::MayMatch);
                    asked.get_or_insert_with(|| rule.refuses(&command.text(), UNKNOWN_WORDS));
                }
                (Match::Yes, _) => {
                    notes.rule(rule, Finding::Decides);
                    return Some(rule.refuses(&command.text(), ""));
                }
                (Match::Maybe, _) => {
                    notes.rule(rule, Finding::MayMatch);
                    return Some(rule.refuses(&command.text(), UNKNOWN_WORDS));
                }
            }
        }
        let name = doubt.filter(|_| self.settings.default != Verdict::Allow)?;
        let reason = format!(
            "`{}` is allowed, but {name} is changed and its name may mean another program",
            command.text()
        );
        Some(Decision::new(self.settings.default, DEFAULT, reason))
    }

    /// Whether only a rule that names the program can allow a command.
    fn must_be_named(&self, command: &ParsedCommand) -> bool {
        match command.kind {
            CommandKind::Opaque => true,
            CommandKind::Code => self.settings.default != Verdict::Allow,
            CommandKind::Plain | CommandKind::Passes | CommandKind::Sudo(_) | CommandKind::Perhaps => false,
        }
    }

    /// The rules that could match a program, in their order.
    pub(super) fn candidates(&self, program: &str) -> impl Iterator<Item = &Rule> {
        let named = self.named.get(base_name(program)).map(Vec::as_slice).unwrap_or_default();
        let (mut named, mut unnamed) = (named.iter().peekable(), self.unnamed.iter().peekable());
        std::iter::from_fn(move || {
            let next = match (named.peek(), unnamed.peek()) {
                (Some(one), Some(other)) if one < other => named.next(),
                (Some(_), None) => named.next(),
                _ => unnamed.next(),
            };
            next.and_then(|&at| self.settings.rules.get(at))
        })
    }

    fn by_default(&self, command: &str) -> Decision {
        match self.settings.default {
            Verdict::Allow => Decision::allowed(DEFAULT),
            verdict => Decision::new(verdict, DEFAULT, format!("no rule allows `{command}`")),
        }
    }

    /// What cannot be seen is asked about when the default asks, and denied otherwise.
    fn refuse_unseen(&self, why: &str) -> Decision {
        let verdict = if self.settings.default == Verdict::Ask { Verdict::Ask } else { Verdict::Deny };
        Decision::new(verdict, "unseen", why)
    }
}

/// Said of a rule that matches only perhaps.
const UNKNOWN_WORDS: &str = " (some of it is only known when it runs)";

fn is_sudo(command: &ParsedCommand) -> bool {
    matches!(command.kind, CommandKind::Sudo(_)) || base_name(command.program()) == "sudo"
}

/// Whether a bare name in an allowing rule may mean this program: looked up by the system, or in one of its
/// directories. A file of that name elsewhere could be anybody's.
pub(super) fn is_system_program(program: &str) -> bool {
    const DIRECTORIES: &[&str] =
        &["/bin/", "/sbin/", "/usr/", "/nix/store/", "/run/current-system/", "/opt/homebrew/"];
    !program.contains('/')
        || (DIRECTORIES.iter().any(|directory| program.starts_with(directory)) && !program.contains("/../"))
}
