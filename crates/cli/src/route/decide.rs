//! The decision: from everything the rules look at to one target. Touches nothing.

use std::path::{Path, PathBuf};

use client::Target;
use client::target::BearerToken;

use super::inputs::Inputs;
use super::places::in_home;
use super::registry::{Registry, TokenSource};
use super::{Choice, Rule, near};
use crate::failure::Failure;

/// A rule, by what it is called and what it says.
pub(super) type Says = fn(&Inputs) -> Result<Option<Said>, Failure>;

/// The rules in their order; the first that says something decides.
pub(super) const RULES: [(&str, Says); 7] = [
    ("-t", asked),
    ("REX_TARGET", environment),
    ("project file", project),
    ("path prefix", prefix),
    ("rex target use", used),
    ("carried over", carried),
    ("default", default),
];

/// What a rule says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) rule: Rule,
    /// An alias or a target.
    pub(super) name: String,
    /// Where commands start there, if the rule says that too.
    pub(super) cwd: Option<String>,
}

/// A choice, and where its token is to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The choice, without its token.
    pub choice: Choice,
    /// What proves who calls, of a target that takes it.
    pub token: Option<Proof>,
}

/// What proves who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// A file with a token.
    File(PathBuf),
    /// The token itself.
    Token(BearerToken),
}

/// Decides where work is done.
pub fn decide(inputs: &Inputs) -> Result<Decision, Failure> {
    for (_, says) in RULES {
        if let Some(said) = says(inputs)? {
            return resolve(said, inputs);
        }
    }
    Err(Failure::new("no rule chose a target"))
}

fn asked(inputs: &Inputs) -> Result<Option<Said>, Failure> {
    Ok(inputs.asked.clone().map(|name| Said { rule: Rule::Flag, name, cwd: None }))
}

fn environment(inputs: &Inputs) -> Result<Option<Said>, Failure> {
    Ok(inputs.environment.clone().map(|name| Said { rule: Rule::Environment, name, cwd: None }))
}

fn project(inputs: &Inputs) -> Result<Option<Said>, Failure> {
    let Some(project) = inputs.project.clone()? else { return Ok(None) };
    let rule = Rule::Project(project.file);
    Ok(project.target.map(|name| Said { rule, name, cwd: project.cwd }))
}

fn prefix(inputs: &Inputs) -> Result<Option<Said>, Failure> {
    let registry = inputs.registry.as_ref().map_err(Clone::clone)?;
    let mut best: Option<(usize, &str, Said)> = None;
    for (alias, prefix) in registry.prefixes()? {
        let from = in_home(&prefix.from, inputs.places.home.as_deref());
        let inside = inputs.directories.iter().find_map(|directory| directory.strip_prefix(&from).ok());
        let (Some(inside), true) = (inside, from.is_absolute()) else { continue };
        let length = from.components().count();
        if let Some((longest, other, _)) = &best {
            if length == *longest && *other != alias {
                let both = format!("the targets `{other}` and `{alias}` both claim {}", from.display());
                return Err(Failure::new(both).hint("name one with -t, or take the prefix from the other"));
            }
            if length <= *longest {
                continue;
            }
        }
        let cwd = prefix.to.map(|to| mapped(&to, inside)).transpose()?;
        best = Some((length, alias, Said { rule: Rule::Prefix(from), name: alias.to_owned(), cwd }));
    }
    Ok(best.map(|(_, _, said)| said))
}

/// The directory there that a directory here stands for.
fn mapped(to: &str, inside: &Path) -> Result<String, Failure> {
    let Some(inside) = inside.to_str() else {
        let what = format!("{} has no UTF-8 name, so it cannot be named there", inside.display());
        return Err(Failure::new(what).hint("name the target with -t, and the directory with -C"));
    };
    Ok(match inside {
        "" => to.to_owned(),
        inside => format!("{}/{inside}", to.trim_end_matches('/')),
    })
}

fn used(inputs: &Inputs) -> Result<Option<Said>, Failure> {
    Ok(inputs.used.clone()?.map(|name| Said { rule: Rule::Used, name, cwd: None }))
}

fn carried(inputs: &Inputs) -> Result<Option<Said>, Failure> {
    Ok(inputs.carried.clone()?.map(|name| Said { rule: Rule::CarriedOver, name, cwd: None }))
}

fn default(_: &Inputs) -> Result<Option<Said>, Failure> {
    Ok(Some(Said { rule: Rule::Default, name: "local".to_owned(), cwd: None }))
}

/// What a name stands for: an alias first, then a target as it is written.
fn resolve(said: Said, inputs: &Inputs) -> Result<Decision, Failure> {
    let entry = match &inputs.registry {
        Ok(registry) => registry.entry(&said.name).transpose()?,
        // A target that is written out needs no registry.
        Err(_) if said.name.parse::<Target>().is_ok() => None,
        Err(failure) => return Err(failure.clone()),
    };
    let (target, alias, default_cwd, own) = match entry {
        Some(entry) => {
            let entry = entry.at_home(inputs.places.home.as_deref());
            (entry.target, Some(said.name.clone()), entry.default_cwd, entry.token)
        }
        None => (parse(&said, inputs)?, None, None, None),
    };
    let mut warnings = Vec::new();
    let token = match own {
        Some(TokenSource::File(file)) => Some(Proof::File(beside(file, inputs))),
        Some(TokenSource::Registry(token)) => {
            warnings.push(format!(
                "the token of `{}` lies in the registry, which other programs read: move it to a file and name that as tokenFile",
                said.name
            ));
            Some(Proof::Token(token))
        }
        // A project file comes with the project: it must not be able to send our token to an address of its own.
        None if matches!(said.rule, Rule::Project(_)) => None,
        None => inputs.token.clone().map(Proof::Token),
    };
    let token = token.filter(|_| matches!(target, Target::Url(_) | Target::ExecServer(_)));
    let cwd = start(&said, default_cwd, &target, inputs)?;
    Ok(Decision { choice: Choice { target, alias, cwd, rule: said.rule, warnings }, token })
}

/// Where commands start.
fn start(
    said: &Said,
    default_cwd: Option<String>,
    target: &Target,
    inputs: &Inputs,
) -> Result<Option<String>, Failure> {
    let here = inputs.directories.first();
    let text = |path: &Path| path.to_str().map(str::to_owned);
    match (&said.rule, &said.cwd, target) {
        (Rule::Project(file), Some(cwd), Target::Local(_)) => {
            return Ok(text(&file.parent().unwrap_or(Path::new("/")).join(cwd)));
        }
        (Rule::Project(file), Some(cwd), _) if !cwd.starts_with('/') => {
            let what =
                format!("`cwd` in {} must be absolute for a target on another machine", file.display());
            return Err(Failure::new(what).hint(format!("write where `{cwd}` lies there")));
        }
        _ => {}
    }
    Ok(match (said.cwd.clone().or(default_cwd), target) {
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

/// Files that the registry names without a folder lie beside it.
fn beside(file: PathBuf, inputs: &Inputs) -> PathBuf {
    match inputs.places.registry.as_deref().and_then(Path::parent) {
        Some(folder) => folder.join(file),
        None => file,
    }
}

fn parse(said: &Said, inputs: &Inputs) -> Result<Target, Failure> {
    let wrong = match said.name.parse::<Target>() {
        Ok(target) => return Ok(target),
        Err(wrong) => wrong,
    };
    let by = match &said.rule {
        Rule::Flag => String::new(),
        Rule::Environment => " (REX_TARGET says it)".to_owned(),
        Rule::Project(file) => format!(" ({} says it)", file.display()),
        Rule::Prefix(from) => format!(" (the prefix {} says it)", from.display()),
        Rule::Used => " (`rex target use` says it; `rex target use -` takes it back)".to_owned(),
        Rule::CarriedOver => " (this session used it before)".to_owned(),
        Rule::Default => String::new(),
    };
    let registry = inputs.registry.as_ref().ok();
    Err(unknown(&wrong.text, registry, &wrong.problem, &by))
}

/// A name that is neither an alias nor a target.
fn unknown(name: &str, registry: Option<&Registry>, problem: &str, by: &str) -> Failure {
    // Something with a colon was meant as a target, and what is wrong with it is known.
    if name.contains(':') {
        return Failure::new(format!("`{name}` is no target{by}: {problem}"))
            .hint("rex -h shows how targets are written; `rex target list` shows the aliases");
    }
    let aliases = registry.map(|registry| registry.aliases().collect::<Vec<_>>()).unwrap_or_default();
    let add = format!("rex target add {name} ssh:HOST   adds it");
    let hint = match near::nearest(name, aliases.iter().copied().chain(["local"])) {
        Some(meant) => format!("did you mean `{meant}`? `rex target list` shows all; {add}"),
        None if aliases.is_empty() => {
            format!("no alias is registered yet: {add}; -t ssh:{name} works without")
        }
        None => format!("`rex target list` shows the aliases; {add}; -t ssh:{name} works without"),
    };
    Failure::new(format!("unknown target `{name}`{by}: no alias has that name")).hint(hint)
}
