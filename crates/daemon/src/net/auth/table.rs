//! The credential table: callers by the digest of a token or by the names in a certificate.

use std::path::PathBuf;
use std::sync::Arc;

use link::listen::ClientCertificate;

use crate::config::{AuthConfig, CertificateConfig, Paths, TokenConfig, TokenSource};

use super::caller::{Caller, Proof, Scopes};
use super::token_file::TokenFile;
use super::{AuthError, TokenDigest, TokenFileError};

/// The name of the token in `$REXD_TOKEN`.
pub(crate) const FROM_VARIABLE: &str = "env";
/// The name of the token in `$REXD_TOKEN_FILE`.
pub(crate) const FROM_VARIABLE_FILE: &str = "env-file";
/// The name of the token that the daemon creates.
pub(crate) const OWN: &str = "default";

/// The accepted credentials at one moment.
#[derive(Debug)]
pub(super) struct CredentialTable {
    tokens: Vec<Token>,
    certificates: Vec<CertificateConfig>,
}

/// One accepted token.
#[derive(Debug)]
struct Token {
    name: Arc<str>,
    source: Source,
    scopes: Scopes,
    roots: Option<Vec<PathBuf>>,
}

#[derive(Debug)]
enum Source {
    Fixed(TokenDigest),
    File(TokenFile),
}

impl CredentialTable {
    /// Reads every source: the tokens of the environment and those of the configuration. A missing file of the configuration is accepted without a token until it exists; any other
    /// problem is an error.
    pub(super) fn read(config: &AuthConfig, paths: &Paths) -> Result<Self, AuthError> {
        let mut tokens = Vec::new();
        if let Some(token) = &paths.token {
            tokens.push(Token::new(FROM_VARIABLE, Source::Fixed(token.digest())));
        }
        if let Some(path) = &paths.token_file {
            let file = TokenFile::open(path)?;
            if file.digest().is_none() {
                return Err(AuthError::File { path: path.clone(), cause: TokenFileError::Missing });
            }
            tokens.push(Token::new(FROM_VARIABLE_FILE, Source::File(file)));
        }
        for token in &config.tokens {
            tokens.push(Token::configured(token)?);
        }
        let table = Self { tokens, certificates: config.certificates.clone() };
        table.check_unique()?;
        Ok(table)
    }

    /// The same certificates, and the daemon's own token as the only one.
    pub(super) fn with_own(&self, file: TokenFile) -> Self {
        let own = Token::new(OWN, Source::File(file));
        Self { tokens: vec![own], certificates: self.certificates.clone() }
    }

    /// True if no token is configured.
    pub(super) fn has_no_token(&self) -> bool {
        self.tokens.is_empty()
    }

    /// With one token under two names, the caller would depend on their order.
    fn check_unique(&self) -> Result<(), AuthError> {
        for (at, token) in self.tokens.iter().enumerate() {
            let same = |other: &&Token| token.digest().is_some() && other.digest() == token.digest();
            if let Some(other) = self.tokens.iter().take(at).find(same) {
                let (one, other) = (other.name.to_string(), token.name.to_string());
                return Err(AuthError::Duplicate { one, other });
            }
        }
        Ok(())
    }

    /// Checks every file for changes. True if a token has changed.
    pub(super) fn refresh(&self) -> bool {
        let mut changed = false;
        for token in &self.tokens {
            if let Source::File(file) = &token.source {
                changed |= file.refresh();
            }
        }
        changed
    }

    /// The caller of a token. Every entry is compared, so that the time does not depend on the position.
    pub(super) fn token_caller(&self, presented: &TokenDigest) -> Option<Caller> {
        let is_match = |token: &&Token| token.digest().is_some_and(|digest| digest.matches(presented));
        let found = self.tokens.iter().filter(is_match).fold(None, |found, token| found.or(Some(token)));
        found.map(|token| Caller {
            name: Arc::clone(&token.name),
            scopes: token.scopes,
            roots: token.roots.clone(),
            address: None,
            proof: Proof::Token(*presented),
        })
    }

    /// The caller of a certificate with these names. If the configuration lists certificates, one of them must match.
    pub(super) fn certificate_caller(
        &self,
        certificate: &ClientCertificate,
        names: &Arc<[String]>,
    ) -> Option<Caller> {
        let first = names.first()?;
        let entry = self.certificates.iter().find(|entry| names.contains(&entry.name));
        let (name, scopes, roots) = match entry {
            Some(entry) => (&entry.name, entry.scopes, entry.roots.clone()),
            None if self.certificates.is_empty() => (first, Scopes::DEFAULT, None),
            None => return None,
        };
        let name = Arc::from(format!("cert:{name}"));
        let proof = Proof::Certificate(certificate.clone(), Arc::clone(names));
        Some(Caller { name, scopes, roots, address: None, proof })
    }
}

impl Token {
    /// A token with the default scopes and all roots.
    fn new(name: &str, source: Source) -> Self {
        Self { name: Arc::from(format!("token:{name}")), source, scopes: Scopes::DEFAULT, roots: None }
    }

    fn configured(config: &TokenConfig) -> Result<Self, AuthError> {
        let source = match &config.source {
            TokenSource::Sha256(digest) => Source::Fixed(*digest),
            TokenSource::File(path) => Source::File(TokenFile::open(path)?),
        };
        Ok(Self { scopes: config.scopes, roots: config.roots.clone(), ..Self::new(&config.name, source) })
    }

    fn digest(&self) -> Option<TokenDigest> {
        match &self.source {
            Source::Fixed(digest) => Some(*digest),
            Source::File(file) => file.digest(),
        }
    }
}
