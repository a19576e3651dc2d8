//! `[policy]`: rules on commands and files, and the defaults if no rule matches; `[environment]` of commands.

use engine::policy::{
    Access, ArgvPattern, Class, Conditions, Environment, Example, Glob, Matcher, PathGlob, Policy,
    PolicyError, PolicySettings, Rule, RuleAccess, Verdict,
};
use toml::de::DeValue;

use super::section::{ConfigError, Section, TomlValue};

const VERDICTS: [(&str, Verdict); 3] =
    [("allow", Verdict::Allow), ("ask", Verdict::Ask), ("deny", Verdict::Deny)];

/// Parses the policy and tests the examples of its rules.
pub(super) fn read(root: &Section<'_, '_>, allow_shell: bool) -> Result<Policy, ConfigError> {
    let section = root.section("policy")?;
    let default = section.choice("default", &VERDICTS)?.unwrap_or(Verdict::Allow);
    let files_default = section.choice("files_default", &VERDICTS)?.unwrap_or(Verdict::Allow);
    let mut rules: Vec<Rule> = Vec::new();
    let mut spans = Vec::new();
    for (at, table) in section.sections("rules")?.into_iter().enumerate() {
        let span = table.span();
        let rule = RuleReader { section: table }.read(at)?;
        if rules.iter().any(|other| other.name == rule.name) {
            return Err(root.document.error(span, format!("duplicate rule name {:?}", rule.name)));
        }
        rules.push(rule);
        spans.push(span);
    }
    let sudo = sudo(section.section("sudo")?)?;
    let environment = environment(root.section("environment")?)?;
    let names: Vec<_> = rules.iter().map(|rule| rule.name.clone()).collect();
    let settings = PolicySettings { rules, default, files_default, allow_shell, sudo, environment };
    Policy::new(settings).map_err(|error| {
        let PolicyError::Example { rule, .. } = &error;
        let at = names.iter().position(|name| **name == **rule);
        let span = at.and_then(|at| spans.get(at).cloned()).unwrap_or(0..0);
        root.document.error(span, error.to_string())
    })
}

fn environment(section: Section<'_, '_>) -> Result<Environment, ConfigError> {
    Ok(Environment {
        remove: section.globs("remove")?,
        keep: section.globs("keep")?,
        remove_secrets: section.boolean("remove_secrets", true)?,
        set: section.text_map("set")?,
    })
}

struct RuleReader<'d, 't> {
    section: Section<'d, 't>,
}

impl RuleReader<'_, '_> {
    fn read(self, at: usize) -> Result<Rule, ConfigError> {
        let section = &self.section;
        let name = section.text("name")?.unwrap_or_else(|| format!("rule {}", at + 1));
        let verdict =
            section.choice("action", &VERDICTS)?.ok_or_else(|| self.error(&name, "needs an action"))?;
        let matcher = self.matcher(&name, verdict)?;
        let conditions = Conditions {
            faces: self.globs("faces")?,
            clients: self.globs("clients")?,
            callers: self.globs("callers")?,
            cwd: self.path_globs("cwd")?,
        };
        let about_files = matches!(matcher, Matcher::Paths { .. });
        if about_files && !conditions.cwd.is_empty() {
            return Err(self.error(&name, "has both paths and cwd; cwd is only for rules on commands"));
        }
        let env = self.globs("env")?;
        if !env.is_empty() && (about_files || verdict != Verdict::Allow) {
            return Err(self.error(&name, "has env, which is only for rules that allow commands"));
        }
        Ok(Rule {
            conditions,
            env,
            reason: section.text("reason")?,
            examples_match: self.examples("examples_match", about_files)?,
            examples_no_match: self.examples("examples_no_match", about_files)?,
            line: Some(section.document.position(section.span().start).0),
            ..Rule::new(&name, verdict, matcher)
        })
    }

    fn matcher(&self, name: &str, verdict: Verdict) -> Result<Matcher, ConfigError> {
        let section = &self.section;
        let class = section.choice("class", &Class::NAMES)?;
        let argv = section.texts("argv")?;
        let globs = self.path_globs("paths")?;
        let access = section.choice("access", &RuleAccess::NAMES)?;
        let given = [!argv.is_empty(), class.is_some(), !globs.is_empty()];
        let problem = match given.iter().filter(|given| **given).count() {
            0 => Some("needs one of argv, class and paths"),
            1 => None,
            _ => Some("has more than one of argv, class and paths; use one of them"),
        };
        if let Some(problem) = problem {
            return Err(self.error(name, problem));
        }
        if access.is_some() && globs.is_empty() {
            let reason = format!("rule {name:?} has access but no paths; access is only for rules on files");
            return Err(section.error_at("access", reason));
        }
        if let (Some(pattern), true) = (ArgvPattern::new(&argv), verdict != Verdict::Allow)
            && pattern.is_bare()
        {
            let text = format!(
                "rule {name:?} matches {:?} only without arguments; end argv with \"*\" to match any arguments",
                argv[0]
            );
            section.warn("argv", text);
        }
        Ok(match (ArgvPattern::new(&argv), class) {
            (Some(pattern), _) => Matcher::Argv(pattern),
            (None, Some(class)) => Matcher::Class(class),
            (None, None) => Matcher::Paths { globs, access: access.unwrap_or(RuleAccess::Any) },
        })
    }

    /// Globs on names. An empty list is refused: it could mean all names or none.
    fn globs(&self, key: &'static str) -> Result<Vec<Glob>, ConfigError> {
        self.not_empty(key, self.section.globs(key)?)
    }

    fn path_globs(&self, key: &'static str) -> Result<Vec<PathGlob>, ConfigError> {
        let globs = self.section.each(key, |text| {
            let text = self.path(text)?;
            PathGlob::new(&text)
                .ok_or_else(|| format!("{text:?} matches no path; use an absolute path without `.` and `..`"))
        });
        self.not_empty(key, globs?)
    }

    /// A path or a glob, with `~` replaced by the home directory.
    fn path(&self, text: &str) -> Result<String, String> {
        let expanded = self.section.document.paths.expand(text);
        match text.starts_with('~') && expanded.starts_with("~") {
            true => Err(format!("unknown home directory in {text:?}; use an absolute path")),
            false => Ok(expanded.to_string_lossy().into_owned()),
        }
    }

    fn not_empty<T>(&self, key: &'static str, list: Vec<T>) -> Result<Vec<T>, ConfigError> {
        match list.is_empty() && self.section.value(key).is_some() {
            true => Err(self.section.error(key, "is empty; omit it to match any")),
            false => Ok(list),
        }
    }

    /// Examples of commands are arrays of words or shell text; examples of files are paths or `{ write = "path" }`.
    fn examples(&self, key: &'static str, about_files: bool) -> Result<Vec<Example>, ConfigError> {
        let section = &self.section;
        let convert = |item: &TomlValue<'_>| match (about_files, item.get_ref()) {
            (false, DeValue::Array(words)) => words
                .iter()
                .map(|word| section.as_text(key, word))
                .collect::<Result<_, _>>()
                .map(Example::Argv),
            (false, _) => section.as_text(key, item).map(Example::Shell),
            (true, DeValue::Table(_)) => self.file_example(key, item),
            (true, _) => self.path_example(key, item, None),
        };
        section.items(key)?.into_iter().map(convert).collect()
    }

    fn file_example(&self, key: &str, item: &TomlValue<'_>) -> Result<Example, ConfigError> {
        let table = item.get_ref().as_table();
        let mut entries = table.into_iter().flat_map(|table| table.iter());
        let (entry, more) = (entries.next(), entries.next().is_some());
        let known = entry.filter(|_| !more).and_then(|(name, value)| {
            let access = Access::NAMES.iter().find(|(access, _)| **access == **name.get_ref());
            access.map(|(_, access)| (*access, value))
        });
        let Some((access, value)) = known else {
            let reason = "an example of a rule on files must be a path, { read = \"…\" }, { write = \"…\" } \
                          or { remove = \"…\" }";
            return Err(self.section.document.error(item.span(), reason));
        };
        self.path_example(key, value, Some(access))
    }

    fn path_example(
        &self,
        key: &str,
        item: &TomlValue<'_>,
        access: Option<Access>,
    ) -> Result<Example, ConfigError> {
        let path = self.path(&self.section.as_text(key, item)?);
        let path = path.map_err(|reason| self.section.document.error(item.span(), reason))?;
        Ok(Example::Path { path: path.into(), access })
    }

    fn error(&self, name: &str, problem: &str) -> ConfigError {
        self.section.document.error(self.section.span(), format!("rule {name:?} {problem}"))
    }
}

/// The commands that `sudo` can run; `None` without a list, which is different from an empty list.
fn sudo(section: Section<'_, '_>) -> Result<Option<Vec<ArgvPattern>>, ConfigError> {
    let mut patterns = Vec::new();
    for item in section.items("allow")? {
        let words = item
            .get_ref()
            .as_array()
            .ok_or_else(|| section.wrong_type("allow", item, "an array of arrays of strings"))?;
        let words: Vec<String> =
            words.iter().map(|word| section.as_text("allow", word)).collect::<Result<_, _>>()?;
        let pattern = ArgvPattern::new(&words)
            .ok_or_else(|| section.document.error(item.span(), "an entry of policy.sudo.allow is empty"))?;
        patterns.push(pattern);
    }
    Ok(section.is_present().then_some(patterns))
}
