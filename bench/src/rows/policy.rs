//! One decision of the policy, in this process.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use engine::policy::{
    ArgvPattern, CommandLine, Matcher, PathAccess, PathGlob, Policy, PolicyOperation, PolicyQuery,
    PolicySettings, Rule, RuleAccess, Verdict,
};

use super::table;
use crate::report::{Findings, limit};
use crate::stats::interleave;
use crate::world::World;

/// Decisions per sample; one is shorter than the resolution of the clock.
const EACH: u32 = 1_000;
const MOST: f64 = 5e-6;
const LINE: &str = "cd /srv/app && cargo test --workspace 2>&1 | tail -20";

#[derive(Debug, Clone, Copy)]
enum Kind {
    Argv,
    Shell,
    Path,
}

/// Measures this row and returns its findings.
pub(crate) fn run(world: &World) -> Result<Findings> {
    let (few, many, any) = (policy(10)?, policy(1_000)?, on_any_program(1_000)?);
    let kinds = [(Kind::Argv, "argv"), (Kind::Shell, "shell text"), (Kind::Path, "path")];
    let mut peers: Vec<(String, &Policy, Kind)> = Vec::new();
    for (policy, rules) in [(&few, "10 rules"), (&many, "1,000 rules")] {
        peers.extend(kinds.iter().map(|(kind, name)| (format!("{name}, {rules}"), policy, *kind)));
    }
    peers.push(("argv, any program, 1,000 rules".to_owned(), &any, Kind::Argv));
    let names: Vec<String> = peers.iter().map(|(name, _, _)| name.clone()).collect();
    let samples =
        interleave(&mut peers, world.amount(50, 5), |(_, policy, kind)| Ok(vec![decisions(policy, *kind)?]))?;
    let mut findings = Findings::new("Policy decision, 1,000 rules");
    table(&mut findings, "policy decision", &names, &samples, short_time);
    findings.note(
        "One half of the rules denies programs, the other half paths. None matches, so that every candidate is checked; in \
         the last line no rule names a program, so that no index applies. Sessions share a policy without a lock, so their number has no effect.",
    );
    for (name, samples) in names.iter().zip(&samples).filter(|(name, _)| name.ends_with("1,000 rules")) {
        findings.targets.push(limit(&format!("policy decision, {name}"), samples.p50(), MOST, short_time));
    }
    Ok(findings)
}

/// Half the rules on programs, a quarter on directories, a quarter on names of files.
fn policy(count: usize) -> Result<Policy> {
    let rule = |at: usize| {
        let globs = |text: String| PathGlob::new(&text).map(|glob| vec![glob]).context("a glob");
        let matcher = match at % 4 {
            0 | 1 => {
                let words = [format!("tool{at}"), "run".to_owned(), "*".to_owned()];
                Matcher::Argv(ArgvPattern::new(&words).context("a pattern")?)
            }
            2 => {
                Matcher::Paths { globs: globs(format!("/srv/app{at}/secrets/**"))?, access: RuleAccess::Any }
            }
            _ => Matcher::Paths { globs: globs(format!("**/secret{at}.pem"))?, access: RuleAccess::Any },
        };
        Ok(Rule::new(&format!("rule {at}"), Verdict::Deny, matcher))
    };
    let rules = (0..count).map(rule).collect::<Result<_>>()?;
    Ok(Policy::new(PolicySettings { rules, ..PolicySettings::default() })?)
}

/// Rules that match any program.
fn on_any_program(count: usize) -> Result<Policy> {
    let rule = |at: usize| {
        let words = ["*".to_owned(), format!("--flag{at}"), "*".to_owned()];
        let matcher = Matcher::Argv(ArgvPattern::new(&words).context("a pattern")?);
        Ok(Rule::new(&format!("rule {at}"), Verdict::Deny, matcher))
    };
    let rules = (0..count).map(rule).collect::<Result<_>>()?;
    Ok(Policy::new(PolicySettings { rules, ..PolicySettings::default() })?)
}

fn short_time(seconds: f64) -> String {
    format!("{:.2} us", seconds * 1e6)
}

/// Seconds for one decision.
fn decisions(policy: &Policy, kind: Kind) -> Result<f64> {
    let words: Vec<String> = ["cargo", "test", "--workspace"].map(str::to_owned).to_vec();
    let path = Path::new("/srv/app/src/deep/er/main.rs");
    let touched = [PathAccess::read(path), PathAccess::write(path)];
    let cwd = Path::new("/srv/app");
    let operation = match kind {
        Kind::Argv => PolicyOperation::Run { line: CommandLine::Argv(&words), cwd, env: &[] },
        Kind::Shell => {
            PolicyOperation::Run { line: CommandLine::Shell { line: LINE, login: false }, cwd, env: &[] }
        }
        Kind::Path => PolicyOperation::Files(&touched),
    };
    let asked = PolicyQuery { face: "rexd", client: "bench", caller: "uid:1000", operation };
    ensure!(policy.decide(&asked).verdict == Verdict::Allow, "the policy refuses what it should allow");
    let start = Instant::now();
    for _ in 0..EACH {
        black_box(policy.decide(black_box(&asked)));
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(EACH))
}
