//! `[auth]`: tokens and certificates, what each is good for, and in which directories.

use std::path::{Path, PathBuf};

use super::paths::Paths;
use super::section::{ConfigError, Section};
use crate::net::auth::{FROM_VARIABLE, FROM_VARIABLE_FILE, OWN, Scopes, TokenDigest};

/// Names that tokens from elsewhere have.
const TAKEN: [&str; 3] = [FROM_VARIABLE, FROM_VARIABLE_FILE, OWN];
/// The longest name of a token.
const MAX_NAME: usize = 64;

/// Who may come in, as far as the configuration says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthConfig {
    /// The tokens.
    pub tokens: Vec<TokenConfig>,
    /// The client certificates that count, out of those that the client CA vouches for; all of them when empty.
    pub certificates: Vec<CertificateConfig>,
}

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenConfig {
    /// What it is called in the audit.
    pub name: String,
    /// Where it is.
    pub source: TokenSource,
    /// What it is good for.
    pub scopes: Scopes,
    /// Only these directories, or all that are served.
    pub roots: Option<Vec<PathBuf>>,
}

/// Where a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// Only its digest is known here.
    Sha256(TokenDigest),
    /// In this file, which only its owner can read.
    File(PathBuf),
}

/// One client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateConfig {
    /// A name in it.
    pub name: String,
    /// What it is good for.
    pub scopes: Scopes,
    /// Only these directories, or all that are served.
    pub roots: Option<Vec<PathBuf>>,
}

/// The directories a part of which somebody may be given.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServedRoots<'r> {
    /// What the file names.
    pub(super) configured: &'r [PathBuf],
    /// What is served in fact: the same, or what flags name instead.
    pub(super) effective: &'r [PathBuf],
}

/// Reads the section.
pub(super) fn read(
    section: Section<'_, '_>,
    served: ServedRoots<'_>,
    paths: &Paths,
) -> Result<AuthConfig, ConfigError> {
    let mut auth = AuthConfig::default();
    for table in section.sections("tokens")? {
        let name = name(&table, "token", auth.tokens.iter().map(|token| token.name.as_str()))?;
        if TAKEN.contains(&name.as_str()) || !is_plain(&name) {
            let reason = format!(
                "{name:?} cannot be the name of a token: at most {MAX_NAME} letters, digits and \"._@-\", \
                 and not {TAKEN:?}"
            );
            return Err(table.document.error(table.span_of("name"), reason));
        }
        let source = source(&table, &name, paths)?;
        let (scopes, roots) = (scopes(&table)?, roots(&table, served, paths)?);
        auth.tokens.push(TokenConfig { name, source, scopes, roots });
        table.finish();
    }
    for table in section.sections("certificates")? {
        let known = auth.certificates.iter().map(|certificate| certificate.name.as_str());
        let name = name(&table, "certificate", known)?;
        let (scopes, roots) = (scopes(&table)?, roots(&table, served, paths)?);
        auth.certificates.push(CertificateConfig { name, scopes, roots });
        table.finish();
    }
    section.finish();
    Ok(auth)
}

fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    name.len() <= MAX_NAME && name.bytes().all(is_plain)
}

fn name<'n>(
    table: &Section<'_, '_>,
    what: &str,
    mut known: impl Iterator<Item = &'n str>,
) -> Result<String, ConfigError> {
    let name = table.text("name")?.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| table.document.error(table.span(), format!("a {what} has no name")))?;
    if known.any(|other| other == name) {
        let reason = format!("two {what}s are called {name:?}");
        return Err(table.document.error(table.span_of("name"), reason));
    }
    Ok(name)
}

fn source(table: &Section<'_, '_>, name: &str, paths: &Paths) -> Result<TokenSource, ConfigError> {
    let wrong = |key: &str, reason: String| Err(table.document.error(table.span_of(key), reason));
    match (table.text("sha256")?, table.text("file")?) {
        (Some(hex), None) => match TokenDigest::from_hex(&hex) {
            Some(digest) => Ok(TokenSource::Sha256(digest)),
            // The text itself may be a token somebody wrote here by mistake, so it is not repeated.
            None => wrong("sha256", format!("{} must be 64 hexadecimal digits", table.path_of("sha256"))),
        },
        (None, Some(file)) => {
            let path = paths.expand(&file);
            if path.is_absolute() {
                return Ok(TokenSource::File(path));
            }
            wrong("file", format!("{} must be absolute, not {file:?}", table.path_of("file")))
        }
        (None, None) => wrong("name", format!("the token {name:?} has neither sha256 nor file")),
        (Some(_), Some(_)) => wrong("file", format!("the token {name:?} has both sha256 and file")),
    }
}

fn scopes(table: &Section<'_, '_>) -> Result<Scopes, ConfigError> {
    if table.value("scopes").is_none() {
        return Ok(Scopes::DEFAULT);
    }
    let mut scopes = Scopes::default();
    for item in table.items("scopes")? {
        match table.as_text("scopes", item)?.as_str() {
            "read" => scopes.read = true,
            "exec" => scopes.exec = true,
            "admin" => scopes.admin = true,
            other => {
                let reason = format!(
                    "{} must be of \"read\", \"exec\", \"admin\", not {other:?}",
                    table.path_of("scopes")
                );
                return Err(table.document.error(item.span(), reason));
            }
        }
    }
    if scopes.is_empty() {
        table.document.warn(table.span_of("scopes"), "nobody can do anything without scopes");
    }
    Ok(scopes)
}

/// Directories within those that the file names. When flags name others instead, only what lies in both is left.
fn roots(
    table: &Section<'_, '_>,
    served: ServedRoots<'_>,
    paths: &Paths,
) -> Result<Option<Vec<PathBuf>>, ConfigError> {
    if table.value("roots").is_none() {
        return Ok(None);
    }
    let mut roots = Vec::new();
    for item in table.items("roots")? {
        let text = table.as_text("roots", item)?;
        let root = paths.expand(&text);
        let wrong = |reason: String| Err(table.document.error(item.span(), reason));
        if !is_exact(&root) || text.contains('\0') {
            return wrong(format!("a root must be an absolute path without \"..\", not {text:?}"));
        }
        if !served.configured.iter().any(|allowed| root.starts_with(allowed)) {
            return wrong(format!("the root {text:?} lies in none of security.allowed_roots"));
        }
        roots.extend(shared(&root, served.effective));
    }
    if roots.is_empty() {
        table.document.warn(table.span_of("roots"), "nothing that is served lies in these roots");
    }
    Ok(Some(roots))
}

fn is_exact(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == std::path::Component::ParentDir)
}

/// What lies in `root` and in one of the `served` directories.
fn shared(root: &Path, served: &[PathBuf]) -> Vec<PathBuf> {
    if served.iter().any(|allowed| root.starts_with(allowed)) {
        return vec![root.to_owned()];
    }
    served.iter().filter(|allowed| is_exact(allowed) && allowed.starts_with(root)).cloned().collect()
}
