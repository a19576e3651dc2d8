//! The routing decision: from the inputs of all rules to one target, without I/O.

use std::path::{Path, PathBuf};

use client::Target;
use client::target::BearerToken;

use super::inputs::Inputs;
use super::paths::expand_home;
use super::registry::{Registry, TokenSource};
use super::{Choice, Rule, suggest};
use crate::failure::Failure;

/// A routing rule: returns the target it selects, if any.
pub(super) type RuleFn = fn(&Inputs) -> Result<Option<RuleResult>, Failure>;

/// The rules in order of precedence; the first that selects a target wins.
pub(super) const RULES: [(&str, RuleFn); 7] = [
    ("-t", flag),
    ("REX_TARGET", environment),
    ("project file", project),
    ("path prefix", prefix),
    ("rex target use", used),
    ("carried over", carried),
    ("default", default),
];

/// What a rule selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RuleResult {
    pub(super) rule: Rule,
    /// An alias or a target.
    pub(super) name: String,
    /// The working directory on the target, if the rule sets one.
    pub(super) cwd: Option<String>,
}

/// The chosen target and the source of its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The choice, without its token.
    pub choice: Choice,
    /// The credential to send, if the target takes one.
    pub token: Option<Credential>,
}

/// A bearer token or the file that contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// A file that contains the token.
    File(PathBuf),
    /// The token itself.
    Token(BearerToken),
    /// The stored sign-in to a hub; without one, this token, and only for a hub that the registry names.
    SignIn(Option<BearerToken>),
}

/// Applies the rules in order of precedence.
pub fn decide(inputs: &Inputs) -> Result<Decision, Failure> {
    for (_, apply) in RULES {
        if let Some(result) = apply(inputs)? {
            return resolve(result, inputs);
        }
    }
    Err(Failure::new("cannot choose a target: no rule applies"))
}

fn flag(inputs: &Inputs) -> Result<Option<RuleResult>, Failure> {
    Ok(inputs.flag.clone().map(|name| RuleResult { rule: Rule::Flag, name, cwd: None }))
}

fn environment(inputs: &Inputs) -> Result<Option<RuleResult>, Failure> {
    Ok(inputs.environment.clone().map(|name| RuleResult { rule: Rule::Environment, name, cwd: None }))
}

fn project(inputs: &Inputs) -> Result<Option<RuleResult>, Failure> {
    let Some(project) = inputs.project.clone()? else { return Ok(None) };
    let rule = Rule::Project(project.file);
    Ok(project.target.map(|name| RuleResult { rule, name, cwd: project.cwd }))
}

fn prefix(inputs: &Inputs) -> Result<Option<RuleResult>, Failure> {
    let registry = inputs.registry.as_ref().map_err(Clone::clone)?;
    let mut best: Option<(usize, &str, RuleResult)> = None;
    for (alias, prefix) in registry.prefixes()? {
        let from = expand_home(&prefix.from, inputs.paths.home.as_deref());
        let inside = inputs.directories.iter().find_map(|directory| directory.strip_prefix(&from).ok());
        let (Some(inside), true) = (inside, from.is_absolute()) else { continue };
        let length = from.components().count();
        if let Some((longest, other, _)) = &best {
            if length == *longest && *other != alias {
                let both = format!(
                    "ambiguous path prefix {}: targets `{other}` and `{alias}` both have it",
                    from.display()
                );
                return Err(
                    Failure::new(both).hint("choose one with -t, or remove the prefix from the other")
                );
            }
            if length <= *longest {
                continue;
            }
        }
        let cwd = prefix.to.map(|to| map_directory(&to, inside)).transpose()?;
        best = Some((length, alias, RuleResult { rule: Rule::Prefix(from), name: alias.to_owned(), cwd }));
    }
    Ok(best.map(|(_, _, result)| result))
}

/// Maps a local directory to the directory on the target.
fn map_directory(to: &str, inside: &Path) -> Result<String, Failure> {
    let Some(inside) = inside.to_str() else {
        let what = format!("cannot map {} to the target: its name is not UTF-8", inside.display());
        return Err(Failure::new(what).hint("choose the target with -t and the directory with -C"));
    };
    Ok(match inside {
        "" => to.to_owned(),
        inside => format!("{}/{inside}", to.trim_end_matches('/')),
    })
}

fn used(inputs: &Inputs) -> Result<Option<RuleResult>, Failure> {
    Ok(inputs.used.clone()?.map(|name| RuleResult { rule: Rule::Used, name, cwd: None }))
}

fn carried(inputs: &Inputs) -> Result<Option<RuleResult>, Failure> {
    Ok(inputs.carried_over.clone()?.map(|name| RuleResult { rule: Rule::CarriedOver, name, cwd: None }))
}

fn default(_: &Inputs) -> Result<Option<RuleResult>, Failure> {
    Ok(Some(RuleResult { rule: Rule::Default, name: "local".to_owned(), cwd: None }))
}

/// Resolves a name: first as an alias, then as a target.
fn resolve(result: RuleResult, inputs: &Inputs) -> Result<Decision, Failure> {
    let entry = match &inputs.registry {
        Ok(registry) => registry.entry(&result.name).transpose()?,
        // A complete target such as ssh:host needs no registry.
        Err(_) if result.name.parse::<Target>().is_ok() => None,
        Err(failure) => return Err(failure.clone()),
    };
    let mut warnings = Vec::new();
    let (target, alias, default_cwd, own) = match entry {
        Some(entry) => {
            warnings.extend(entry.warnings(&result.name));
            let entry = entry.expand_home(inputs.paths.home.as_deref());
            (entry.target, Some(result.name.clone()), entry.default_cwd, entry.token)
        }
        None => (parse(&result, inputs)?, None, None, None),
    };
    let has_own_token = own.is_some();
    let token = match own {
        Some(TokenSource::File(file)) => Some(Credential::File(relative_to_registry(file, inputs))),
        Some(TokenSource::Registry(token)) => {
            warnings.push(format!(
                "the token of `{}` is in the registry, which other programs read: move it to a file and set tokenFile",
                result.name
            ));
            Some(Credential::Token(token))
        }
        // A project file comes with the project: it must not be able to send the user's token to an address it chooses.
        None if matches!(result.rule, Rule::Project(_)) => None,
        None => inputs.token.clone().map(Credential::Token),
    };
    let token = match (&target, token) {
        (Target::Url(_) | Target::ExecServer(_), token) => token,
        (Target::Hub(_), Some(Credential::File(file))) => Some(Credential::File(file)),
        (Target::Hub(_), Some(Credential::Token(token))) if has_own_token => Some(Credential::Token(token)),
        // REX_TOKEN may be the token of a daemon: it is not sent to the hub of the sign-in.
        (Target::Hub(hub), Some(Credential::Token(token))) => {
            Some(Credential::SignIn(Some(token).filter(|_| hub.hub.is_some())))
        }
        (Target::Hub(_), _) => Some(Credential::SignIn(None)),
        (Target::Local(_) | Target::Ssh(_) | Target::Unix(_), _) => None,
    };
    let cwd = working_directory(&result, default_cwd, &target, inputs)?;
    Ok(Decision { choice: Choice { target, alias, cwd, rule: result.rule, warnings }, token })
}

/// The working directory on the target.
fn working_directory(
    result: &RuleResult,
    default_cwd: Option<String>,
    target: &Target,
    inputs: &Inputs,
) -> Result<Option<String>, Failure> {
    let here = inputs.directories.first();
    let text = |path: &Path| path.to_str().map(str::to_owned);
    match (&result.rule, &result.cwd, target) {
        (Rule::Project(file), Some(cwd), Target::Local(_)) => {
            return Ok(text(&file.parent().unwrap_or(Path::new("/")).join(cwd)));
        }
        (Rule::Project(file), Some(cwd), _) if !cwd.starts_with('/') => {
            let what =
                format!("invalid `cwd` in {}: it must be absolute for a remote target", file.display());
            return Err(
                Failure::new(what).hint(format!("replace `{cwd}` by the absolute path on the target"))
            );
        }
        _ => {}
    }
    Ok(match (result.cwd.clone().or(default_cwd), target) {
        (Some(cwd), _) => Some(cwd),
        (None, Target::Local(local)) => {
            let is_inside = |here: &&PathBuf| {
                local.roots.is_empty() || local.roots.iter().any(|root| here.starts_with(root))
            };
            here.filter(is_inside).or(local.roots.first()).and_then(|path| text(path))
        }
        (None, _) => None,
    })
}

/// Relative file names in the registry are relative to its directory.
fn relative_to_registry(file: PathBuf, inputs: &Inputs) -> PathBuf {
    match inputs.paths.registry.as_deref().and_then(Path::parent) {
        Some(dir) => dir.join(file),
        None => file,
    }
}

fn parse(result: &RuleResult, inputs: &Inputs) -> Result<Target, Failure> {
    let wrong = match result.name.parse::<Target>() {
        Ok(target) => return Ok(target),
        Err(wrong) => wrong,
    };
    let by = match &result.rule {
        Rule::Flag => String::new(),
        Rule::Environment => " (set by REX_TARGET)".to_owned(),
        Rule::Project(file) => format!(" (set by {})", file.display()),
        Rule::Prefix(from) => format!(" (set by the path prefix {})", from.display()),
        Rule::Used => " (set by `rex target use`; `rex target use -` clears it)".to_owned(),
        Rule::CarriedOver => " (carried over from this session)".to_owned(),
        Rule::Default => String::new(),
    };
    let registry = inputs.registry.as_ref().ok();
    Err(unknown_target(&wrong.text, registry, &wrong.problem, &by))
}

/// The failure for a name that is neither an alias nor a target.
fn unknown_target(name: &str, registry: Option<&Registry>, problem: &str, by: &str) -> Failure {
    // A name with a colon was meant as a target, and the parser knows what is wrong with it.
    if name.contains(':') {
        return Failure::new(format!("invalid target `{name}`{by}: {problem}"))
            .hint("`rex target -h` shows the forms of a target, `rex target list` the aliases");
    }
    let aliases = registry.map(|registry| registry.aliases().collect::<Vec<_>>()).unwrap_or_default();
    let add = format!("`rex target add {name} ssh:HOST` adds it");
    let hint = match suggest::nearest(name, aliases.iter().copied().chain(["local"])) {
        Some(meant) => format!("did you mean `{meant}`? `rex target list` shows all aliases; {add}"),
        None if aliases.is_empty() => {
            format!("no alias is configured; {add}; `-t ssh:{name}` needs no alias")
        }
        None => format!("`rex target list` shows the aliases; {add}; `-t ssh:{name}` needs no alias"),
    };
    Failure::new(format!("unknown target `{name}`{by}: no such alias")).hint(hint)
}
