//! `[policy]` and `[environment]`: rules on commands, and what commands inherit.

use engine::policy::{
    ArgvPattern, Class, Environment, Example, Glob, Matcher, Policy, PolicyError, PolicySettings, Rule,
    Verdict,
};

use super::section::{ConfigError, Section};

const VERDICTS: [(&str, Verdict); 3] =
    [("allow", Verdict::Allow), ("ask", Verdict::Ask), ("deny", Verdict::Deny)];

/// The policy of the file. Its examples are tried before it is accepted.
pub(super) fn read(root: &Section<'_, '_>, allow_shell: bool) -> Result<Policy, ConfigError> {
    let section = root.section("policy")?;
    let default = section.choice("default", &VERDICTS)?.unwrap_or(Verdict::Allow);
    let mut rules: Vec<Rule> = Vec::new();
    let mut spans = Vec::new();
    for (at, table) in section.sections("rules")?.into_iter().enumerate() {
        let span = table.span();
        let rule = rule(table, at)?;
        if rules.iter().any(|other| other.name == rule.name) {
            return Err(root.document.error(span, format!("two rules are called {:?}", rule.name)));
        }
        rules.push(rule);
        spans.push(span);
    }
    let sudo = sudo(section.section("sudo")?)?;
    let environment = environment(root.section("environment")?)?;
    section.finish();
    let names: Vec<String> = rules.iter().map(|rule| rule.name.clone()).collect();
    let settings = PolicySettings { rules, default, allow_shell, sudo, environment };
    Policy::new(settings).map_err(|error| {
        let PolicyError::Example { rule, .. } = &error;
        let at = names.iter().position(|name| name == rule);
        let span = at.and_then(|at| spans.get(at).cloned()).unwrap_or(0..0);
        root.document.error(span, error.to_string())
    })
}

fn rule(section: Section<'_, '_>, at: usize) -> Result<Rule, ConfigError> {
    let name = section.text("name")?.unwrap_or_else(|| format!("rule {}", at + 1));
    let missing = |what: &str| section.document.error(section.span(), format!("rule {name:?} {what}"));
    let verdict = section.choice("action", &VERDICTS)?.ok_or_else(|| missing("has no action"))?;
    let class = section.choice("class", &Class::NAMES)?;
    let argv = section.texts("argv")?;
    let matcher = match (ArgvPattern::new(&argv), class) {
        (Some(pattern), None) => Matcher::Argv(pattern),
        (None, Some(class)) => Matcher::Class(class),
        (Some(_), Some(_)) => return Err(missing("has both argv and class; it needs one of them")),
        (None, None) => return Err(missing("has neither argv nor class; it needs one of them")),
    };
    if let (Matcher::Argv(pattern), true) = (&matcher, verdict != Verdict::Allow)
        && pattern.is_bare()
    {
        let text = format!(
            "rule {name:?} matches {:?} without arguments only; end argv with \"*\" for any",
            argv[0]
        );
        section.document.warn(section.span_of("argv"), text);
    }
    let rule = Rule {
        verdict,
        matcher,
        reason: section.text("reason")?,
        examples_match: examples(&section, "examples_match")?,
        examples_no_match: examples(&section, "examples_no_match")?,
        name,
    };
    section.finish();
    Ok(rule)
}

/// Commands as arrays of words, or as shell text.
fn examples(section: &Section<'_, '_>, key: &'static str) -> Result<Vec<Example>, ConfigError> {
    let convert = |item: &toml::Spanned<toml::de::DeValue<'_>>| match item.get_ref().as_array() {
        Some(words) => {
            words.iter().map(|word| section.as_text(key, word)).collect::<Result<_, _>>().map(Example::Argv)
        }
        None => section.as_text(key, item).map(Example::Shell),
    };
    section.items(key)?.into_iter().map(convert).collect()
}

/// The list of what `sudo` may run; nothing when there is no list, which is not the same as an empty one.
fn sudo(section: Section<'_, '_>) -> Result<Option<Vec<ArgvPattern>>, ConfigError> {
    let mut patterns = Vec::new();
    for item in section.items("allow")? {
        let words =
            item.get_ref().as_array().ok_or_else(|| section.wrong_type("allow", item, "arrays of words"))?;
        let words: Vec<String> =
            words.iter().map(|word| section.as_text("allow", word)).collect::<Result<_, _>>()?;
        let pattern = ArgvPattern::new(&words).ok_or_else(|| {
            section.document.error(item.span(), "a command in policy.sudo.allow has no words")
        })?;
        patterns.push(pattern);
    }
    let present = section.is_present();
    section.finish();
    Ok(present.then_some(patterns))
}

fn environment(section: Section<'_, '_>) -> Result<Environment, ConfigError> {
    let environment = Environment {
        remove: section.texts("remove")?.into_iter().map(Glob::new).collect(),
        keep: section.texts("keep")?.into_iter().map(Glob::new).collect(),
        set: section.text_map("set")?,
    };
    section.finish();
    Ok(environment)
}
