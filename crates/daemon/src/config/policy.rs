//! `[policy]`: rules on commands and files, and the defaults if no rule matches.

use engine::policy::{
    Access, ArgvPattern, Class, Conditions, Example, Glob, Matcher, PathGlob, Policy, PolicyError,
    PolicySettings, Rule, RuleAccess, Verdict,
};
use toml::Spanned;
use toml::de::DeValue;

use super::environment;
use super::paths::Paths;
use super::section::{ConfigError, Section};

const VERDICTS: [(&str, Verdict); 3] =
    [("allow", Verdict::Allow), ("ask", Verdict::Ask), ("deny", Verdict::Deny)];

/// Parses the policy and tests the examples of its rules.
pub(super) fn read(root: &Section<'_, '_>, allow_shell: bool, paths: &Paths) -> Result<Policy, ConfigError> {
    let section = root.section("policy")?;
    let default = section.choice("default", &VERDICTS)?.unwrap_or(Verdict::Allow);
    let files_default = section.choice("files_default", &VERDICTS)?.unwrap_or(Verdict::Allow);
    let mut rules: Vec<Rule> = Vec::new();
    let mut spans = Vec::new();
    for (at, table) in section.sections("rules")?.into_iter().enumerate() {
        let span = table.span();
        let rule = RuleReader { section: table, paths }.read(at)?;
        if rules.iter().any(|other| other.name == rule.name) {
            return Err(root.document.error(span, format!("duplicate rule name {:?}", rule.name)));
        }
        rules.push(rule);
        spans.push(span);
    }
    let sudo = sudo(section.section("sudo")?)?;
    let environment = environment::read(root.section("environment")?)?;
    section.finish();
    let names: Vec<_> = rules.iter().map(|rule| rule.name.clone()).collect();
    let settings = PolicySettings { rules, default, files_default, allow_shell, sudo, environment };
    Policy::new(settings).map_err(|error| {
        let PolicyError::Example { rule, .. } = &error;
        let at = names.iter().position(|name| **name == **rule);
        let span = at.and_then(|at| spans.get(at).cloned()).unwrap_or(0..0);
        root.document.error(span, error.to_string())
    })
}

struct RuleReader<'s, 'd, 't> {
    section: Section<'d, 't>,
    paths: &'s Paths,
}

impl RuleReader<'_, '_, '_> {
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
        let rule = Rule {
            conditions,
            env,
            reason: section.text("reason")?,
            examples_match: self.examples("examples_match", about_files)?,
            examples_no_match: self.examples("examples_no_match", about_files)?,
            line: Some(section.document.position(section.span().start).0),
            ..Rule::new(&name, verdict, matcher)
        };
        self.section.finish();
        Ok(rule)
    }

    fn matcher(&self, name: &str, verdict: Verdict) -> Result<Matcher, ConfigError> {
        let section = &self.section;
        let class = section.choice("class", &Class::NAMES)?;
        let argv = section.texts("argv")?;
        let globs = self.path_globs("paths")?;
        let access = section.choice("access", &RuleAccess::NAMES)?;
        let given = [!argv.is_empty(), class.is_some(), !globs.is_empty()];
        match given.iter().filter(|given| **given).count() {
            0 => return Err(self.error(name, "needs one of argv, class and paths")),
            1 => {}
            _ => {
                return Err(self.error(name, "has more than one of argv, class and paths; use one of them"));
            }
        }
        if access.is_some() && globs.is_empty() {
            let reason = format!("rule {name:?} has access but no paths; access is only for rules on files");
            return Err(section.document.error(section.span_of("access"), reason));
        }
        if let (Some(pattern), true) = (ArgvPattern::new(&argv), verdict != Verdict::Allow)
            && pattern.is_bare()
        {
            let text = format!(
                "rule {name:?} matches {:?} only without arguments; end argv with \"*\" to match any arguments",
                argv[0]
            );
            section.document.warn(section.span_of("argv"), text);
        }
        Ok(match (ArgvPattern::new(&argv), class) {
            (Some(pattern), _) => Matcher::Argv(pattern),
            (None, Some(class)) => Matcher::Class(class),
            (None, None) => Matcher::Paths { globs, access: access.unwrap_or(RuleAccess::Any) },
        })
    }

    /// Globs on names. An empty list is refused: it could mean all names or none.
    fn globs(&self, key: &'static str) -> Result<Vec<Glob>, ConfigError> {
        let texts = self.section.texts(key)?;
        self.not_empty(key, texts.is_empty())?;
        Ok(texts.into_iter().map(Glob::new).collect())
    }

    fn path_globs(&self, key: &'static str) -> Result<Vec<PathGlob>, ConfigError> {
        let items = self.section.items(key)?;
        self.not_empty(key, items.is_empty())?;
        items.into_iter().map(|item| self.path_glob(key, item)).collect()
    }

    fn path_glob(&self, key: &str, item: &Spanned<DeValue<'_>>) -> Result<PathGlob, ConfigError> {
        let text = self.path(key, item)?;
        PathGlob::new(&text).ok_or_else(|| {
            let reason = format!("{text:?} matches no path; use an absolute path without `.` and `..`");
            self.section.document.error(item.span(), reason)
        })
    }

    /// A path or a glob, with `~` replaced by the home directory.
    fn path(&self, key: &str, item: &Spanned<DeValue<'_>>) -> Result<String, ConfigError> {
        let text = self.section.as_text(key, item)?;
        let expanded = self.paths.expand(&text);
        if text.starts_with('~') && expanded.starts_with("~") {
            let reason = format!("unknown home directory in {text:?}; use an absolute path");
            return Err(self.section.document.error(item.span(), reason));
        }
        Ok(expanded.to_string_lossy().into_owned())
    }

    fn not_empty(&self, key: &str, empty: bool) -> Result<(), ConfigError> {
        match self.section.has_key(key) && empty {
            true => {
                let reason = format!("{} is empty; omit it to match any", self.section.path_of(key));
                Err(self.section.document.error(self.section.span_of(key), reason))
            }
            false => Ok(()),
        }
    }

    /// Examples of commands are arrays of words or shell text; examples of files are paths or `{ write = "path" }`.
    fn examples(&self, key: &'static str, about_files: bool) -> Result<Vec<Example>, ConfigError> {
        let section = &self.section;
        let convert = |item: &Spanned<DeValue<'_>>| match (about_files, item.get_ref()) {
            (false, DeValue::Array(words)) => words
                .iter()
                .map(|word| section.as_text(key, word))
                .collect::<Result<_, _>>()
                .map(Example::Argv),
            (false, _) => section.as_text(key, item).map(Example::Shell),
            (true, DeValue::Table(_)) => self.file_example(key, item),
            (true, _) => self.path(key, item).map(|path| Example::Path { path: path.into(), access: None }),
        };
        section.items(key)?.into_iter().map(convert).collect()
    }

    fn file_example(&self, key: &str, item: &Spanned<DeValue<'_>>) -> Result<Example, ConfigError> {
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
        Ok(Example::Path { path: self.path(key, value)?.into(), access: Some(access) })
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
    let present = section.is_present();
    section.finish();
    Ok(present.then_some(patterns))
}
