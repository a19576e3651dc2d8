//! The verdict on everything a command line may run: each command by the first rule that matches it.

use super::classes::{self, Classes};
use super::pattern::Match;
use super::seen::{Command, Kind, Seen};
use super::words::base_name;
use super::{DEFAULT, Decision, Policy, Rule, Verdict};

impl Policy {
    /// The strictest verdict on any of the commands, and on what could not be seen.
    pub(super) fn judge(&self, seen: &Seen) -> Decision {
        let mut strictest: Option<Decision> = None;
        let mut add = |decision: Decision| {
            if strictest.as_ref().is_none_or(|worst| decision.verdict > worst.verdict) {
                strictest = Some(decision);
            }
        };
        let mut granted = vec![false; seen.commands.len()];
        for (at, command) in seen.commands.iter().enumerate() {
            let under_grant = command.under_sudo.is_some_and(|sudo| granted[sudo]);
            let decision = self.judge_command(command, seen, under_grant);
            let listed = self.listed_for_sudo(command) == Some(true);
            granted[at] = under_grant || (listed && decision.verdict == Verdict::Allow);
            add(decision);
        }
        if let Some(why) = seen.unseen.as_ref().filter(|_| self.can_refuse) {
            add(self.refuse_unseen(why));
        }
        strictest.unwrap_or_else(|| self.by_default("an empty command"))
    }

    fn judge_command(&self, command: &Command, seen: &Seen, granted: bool) -> Decision {
        let listed = self.listed_for_sudo(command);
        if listed == Some(false) {
            let reason =
                format!("`{}` is not in the list of commands that may run with sudo", command.text());
            return Decision { verdict: Verdict::Deny, rule: "sudo".to_owned(), reason };
        }
        let mut asked = None;
        let by_rule = self.first_match(command, seen, &mut asked);
        let decision = by_rule.unwrap_or_else(|| match command.kind {
            _ if listed == Some(true) || granted => allowed("sudo"),
            Kind::Passes => allowed(DEFAULT),
            Kind::Opaque if self.can_refuse => {
                self.refuse_unseen(&format!("`{}` may run anything, and no rule names it", command.text()))
            }
            Kind::Plain | Kind::Sudo(_) | Kind::Opaque => self.by_default(&command.text()),
        });
        match asked {
            Some(ask) if decision.verdict < Verdict::Ask => ask,
            _ => decision,
        }
    }

    /// Whether the command of a `sudo` is in the operator's list; nothing when there is no list or no `sudo`.
    fn listed_for_sudo(&self, command: &Command) -> Option<bool> {
        let list = self.settings.sudo.as_ref()?;
        if !is_sudo(command) {
            return None;
        }
        let Kind::Sudo(start) = command.kind else { return Some(false) };
        let (program, arguments) = command.words.get(start..)?.split_first()?;
        let Some(program) = program.literal() else { return Some(false) };
        Some(list.iter().any(|pattern| {
            pattern.program_matches(program)
                && (!pattern.trusts_any_directory() || is_system_program(program))
                && pattern.arguments_match(arguments) == Match::Yes
        }))
    }

    /// The first rule that surely matches, or that might and is strict. `asked` gets a rule that might match and asks.
    fn first_match(&self, command: &Command, seen: &Seen, asked: &mut Option<Decision>) -> Option<Decision> {
        let classes = if self.uses_classes { classes::of(command) } else { Classes::default() };
        let mut doubt = None;
        for rule in self.candidates(command.program()) {
            match (rule.matches(command, classes), rule.verdict) {
                (Match::No, _) | (Match::Maybe, Verdict::Allow) => {}
                (Match::Yes, Verdict::Allow) => {
                    if command.kind == Kind::Opaque && rule.program_name().is_none() {
                        continue;
                    }
                    match &seen.lookup_changed {
                        Some(name) => doubt = Some(name),
                        None => return Some(allowed(&rule.name)),
                    }
                }
                (Match::Yes, _) => return Some(refused(rule, command, "")),
                (Match::Maybe, Verdict::Ask) => {
                    asked.get_or_insert_with(|| {
                        refused(rule, command, " (some words are only known when it runs)")
                    });
                }
                (Match::Maybe, _) => {
                    return Some(refused(rule, command, " (some words are only known when it runs)"));
                }
            }
        }
        let name = doubt.filter(|_| self.settings.default != Verdict::Allow)?;
        let reason = format!(
            "`{}` is allowed, but {name} is changed and its name may mean another program",
            command.text()
        );
        Some(Decision { verdict: self.settings.default, rule: DEFAULT.to_owned(), reason })
    }

    /// The rules that could match a program, in their order.
    fn candidates(&self, program: &str) -> impl Iterator<Item = &Rule> {
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
            Verdict::Allow => allowed(DEFAULT),
            verdict => {
                Decision { verdict, rule: DEFAULT.to_owned(), reason: format!("no rule allows `{command}`") }
            }
        }
    }

    /// What cannot be seen is asked about when the default asks, and denied otherwise.
    fn refuse_unseen(&self, why: &str) -> Decision {
        let verdict = if self.settings.default == Verdict::Ask { Verdict::Ask } else { Verdict::Deny };
        Decision { verdict, rule: "unseen".to_owned(), reason: why.to_owned() }
    }
}

fn allowed(rule: &str) -> Decision {
    Decision { verdict: Verdict::Allow, rule: rule.to_owned(), reason: String::new() }
}

fn refused(rule: &Rule, command: &Command, note: &str) -> Decision {
    let reason = match &rule.reason {
        Some(reason) => format!("{reason}{note}"),
        None => format!("rule {:?} matches `{}`{note}", rule.name, command.text()),
    };
    Decision { verdict: rule.verdict, rule: rule.name.clone(), reason }
}

fn is_sudo(command: &Command) -> bool {
    matches!(command.kind, Kind::Sudo(_)) || base_name(command.program()) == "sudo"
}

/// Whether a bare name in an allowing rule may mean this program: looked up by the system, or in one of its
/// directories. A file of that name elsewhere could be anybody's.
pub(super) fn is_system_program(program: &str) -> bool {
    const DIRECTORIES: &[&str] =
        &["/bin/", "/sbin/", "/usr/", "/nix/store/", "/run/current-system/", "/opt/homebrew/"];
    !program.contains('/')
        || (DIRECTORIES.iter().any(|directory| program.starts_with(directory)) && !program.contains("/../"))
}
