//! `[auth]`: tokens and client certificates, with their scopes and roots.

use std::path::{Path, PathBuf};

use super::section::{ConfigError, Section};
use crate::net::auth::{FROM_VARIABLE, FROM_VARIABLE_FILE, OWN, Scopes, TokenDigest};

/// Names of the tokens that do not come from the file.
const RESERVED_NAMES: [&str; 3] = [FROM_VARIABLE, FROM_VARIABLE_FILE, OWN];
/// The maximal length of a token's name.
const MAX_NAME: usize = 64;

/// The tokens and client certificates of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AuthConfig {
    /// The configured tokens.
    pub tokens: Vec<TokenConfig>,
    /// The accepted client certificates of the client CA; empty means all of them.
    pub certificates: Vec<CertificateConfig>,
}

/// One token of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenConfig {
    /// Its name in the audit.
    pub name: String,
    /// The digest or the file of the token.
    pub source: TokenSource,
    /// The scopes of its callers.
    pub scopes: Scopes,
    /// The directories it is limited to; `None` means all roots.
    pub roots: Option<Vec<PathBuf>>,
}

/// The source of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// The SHA-256 digest of the token.
    Sha256(TokenDigest),
    /// A file that only its owner can read.
    File(PathBuf),
}

/// One configured client certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateConfig {
    /// A name in the certificate.
    pub name: String,
    /// The scopes of its callers.
    pub scopes: Scopes,
    /// The directories it is limited to; `None` means all roots.
    pub roots: Option<Vec<PathBuf>>,
}

/// The directories that a token can be limited to.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServedRoots<'r> {
    /// The roots of the file.
    pub(super) configured: &'r [PathBuf],
    /// The served roots: the same, or those of `--root`.
    pub(super) effective: &'r [PathBuf],
}

/// Parses the section of the configuration.
pub(super) fn read(section: Section<'_, '_>, served: ServedRoots<'_>) -> Result<AuthConfig, ConfigError> {
    let mut auth = AuthConfig::default();
    for table in section.sections("tokens")? {
        let name = table.name("token")?;
        if auth.tokens.iter().any(|other| other.name == name) {
            return Err(table.error_at("name", format!("duplicate token name {name:?}")));
        }
        if RESERVED_NAMES.contains(&name.as_str()) || !is_plain(&name) {
            let reason = format!(
                "invalid token name {name:?}: expected at most {MAX_NAME} letters, digits and \"._@-\", \
                 and none of {RESERVED_NAMES:?}"
            );
            return Err(table.error_at("name", reason));
        }
        let source = source(&table, &name)?;
        let (scopes, roots) = (scopes(&table)?, roots(&table, served)?);
        auth.tokens.push(TokenConfig { name, source, scopes, roots });
    }
    for table in section.sections("certificates")? {
        let name = table.name("certificate")?;
        if auth.certificates.iter().any(|other| other.name == name) {
            return Err(table.error_at("name", format!("duplicate certificate name {name:?}")));
        }
        let (scopes, roots) = (scopes(&table)?, roots(&table, served)?);
        auth.certificates.push(CertificateConfig { name, scopes, roots });
    }
    Ok(auth)
}

fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@-".contains(&byte);
    name.len() <= MAX_NAME && name.bytes().all(is_plain)
}

fn source(table: &Section<'_, '_>, name: &str) -> Result<TokenSource, ConfigError> {
    match (table.text("sha256")?, table.file("file")?) {
        (Some(hex), None) => match TokenDigest::from_hex(&hex) {
            Some(digest) => Ok(TokenSource::Sha256(digest)),
            // The value may be a token in the wrong place, so the message does not contain it.
            None => Err(table.error("sha256", "must be 64 hexadecimal digits")),
        },
        (None, Some(file)) => Ok(TokenSource::File(file)),
        (None, None) => Err(table.error_at("name", format!("the token {name:?} needs sha256 or file"))),
        (Some(_), Some(_)) => {
            let reason = format!("the token {name:?} has both sha256 and file; use one of them");
            Err(table.error_at("file", reason))
        }
    }
}

fn scopes(table: &Section<'_, '_>) -> Result<Scopes, ConfigError> {
    if table.value("scopes").is_none() {
        return Ok(Scopes::DEFAULT);
    }
    let mut scopes = Scopes::default();
    table.each("scopes", |name| {
        match name {
            "read" => scopes.read = true,
            "exec" => scopes.exec = true,
            "admin" => scopes.admin = true,
            other => {
                let key = table.path_of("scopes");
                return Err(format!(
                    "{key} must contain only \"read\", \"exec\" and \"admin\", not {other:?}"
                ));
            }
        }
        Ok(())
    })?;
    if scopes.is_empty() {
        table.warn("scopes", "a token or certificate without scopes can do nothing");
    }
    Ok(scopes)
}

/// Directories below the roots of the file. With `--root`, only what is also below those roots remains.
fn roots(table: &Section<'_, '_>, served: ServedRoots<'_>) -> Result<Option<Vec<PathBuf>>, ConfigError> {
    if table.value("roots").is_none() {
        return Ok(None);
    }
    let roots = table.each("roots", |text| {
        let root = table.document.paths.expand(text);
        if !is_exact(&root) || text.contains('\0') {
            return Err(format!("a root must be an absolute path without \"..\", not {text:?}"));
        }
        match served.configured.iter().any(|allowed| root.starts_with(allowed)) {
            true => Ok(shared(&root, served.effective)),
            false => Err(format!("the root {text:?} is not below security.allowed_roots")),
        }
    });
    let roots = roots?.concat();
    if roots.is_empty() {
        table.warn("roots", "no served directory is below these roots");
    }
    Ok(Some(roots))
}

fn is_exact(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == std::path::Component::ParentDir)
}

/// The directories that are below both `root` and one of `served`.
fn shared(root: &Path, served: &[PathBuf]) -> Vec<PathBuf> {
    if served.iter().any(|allowed| root.starts_with(allowed)) {
        return vec![root.to_owned()];
    }
    served.iter().filter(|allowed| is_exact(allowed) && allowed.starts_with(root)).cloned().collect()
}
