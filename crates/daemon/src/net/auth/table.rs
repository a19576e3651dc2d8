//! The table: who is known, by the digest of a token or by the names in a certificate.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{AuthConfig, CertificateConfig, TokenConfig, TokenSource};

use super::caller::{Caller, Proof, Scopes};
use super::secret::{Digest, Secret};
use super::token_file::TokenFile;
use super::{AuthError, Trouble};

/// What the token of the environment is called.
pub(crate) const FROM_VARIABLE: &str = "env";
/// What the token of a file that the environment names is called.
pub(crate) const FROM_VARIABLE_FILE: &str = "env-file";
/// What the token that the daemon made for itself is called.
pub(crate) const OWN: &str = "default";

/// Everybody who is known at one moment.
#[derive(Debug)]
pub(super) struct Table {
    tokens: Vec<Token>,
    certificates: Vec<CertificateConfig>,
}

/// One token.
#[derive(Debug)]
struct Token {
    name: Arc<str>,
    source: Source,
    scopes: Scopes,
    roots: Option<Vec<PathBuf>>,
}

#[derive(Debug)]
enum Source {
    Fixed(Digest),
    File(TokenFile),
}

/// Where tokens come from beside the configuration.
#[derive(Debug, Clone, Default)]
pub(super) struct Given {
    /// The token of the environment.
    pub(super) token: Option<Secret>,
    /// The file that the environment names.
    pub(super) file: Option<PathBuf>,
}

impl Table {
    /// Reads every source. A file that is missing admits nobody until it is there; anything else that is wrong
    /// with one refuses the whole table.
    pub(super) fn read(config: &AuthConfig, given: &Given) -> Result<Self, AuthError> {
        let mut tokens = Vec::new();
        if let Some(token) = &given.token {
            tokens.push(Token::new(FROM_VARIABLE, Source::Fixed(token.digest())));
        }
        if let Some(path) = &given.file {
            let file = TokenFile::open(path)?;
            if file.digest().is_none() {
                return Err(AuthError::File { path: path.clone(), trouble: Trouble::Missing });
            }
            tokens.push(Token::new(FROM_VARIABLE_FILE, Source::File(file)));
        }
        for token in &config.tokens {
            tokens.push(Token::configured(token)?);
        }
        let table = Self { tokens, certificates: config.certificates.clone() };
        table.check_twins()?;
        Ok(table)
    }

    /// The same certificates, and the token that the daemon made for itself because there is no other.
    pub(super) fn with_own(&self, file: TokenFile) -> Self {
        let own = Token::new(OWN, Source::File(file));
        Self { tokens: vec![own], certificates: self.certificates.clone() }
    }

    /// Whether nobody can come in with a token.
    pub(super) fn has_no_token(&self) -> bool {
        self.tokens.is_empty()
    }

    /// One token under two names would make it a matter of luck who somebody is.
    fn check_twins(&self) -> Result<(), AuthError> {
        for (at, token) in self.tokens.iter().enumerate() {
            let same = |other: &&Token| token.digest().is_some() && other.digest() == token.digest();
            if let Some(other) = self.tokens.iter().take(at).find(same) {
                let names = [&other.name, &token.name].map(|name| name.to_string());
                return Err(AuthError::Twins { one: names[0].clone(), other: names[1].clone() });
            }
        }
        Ok(())
    }

    /// Looks at every file again. True when one of them is not what it was.
    pub(super) fn look(&self) -> bool {
        let mut changed = false;
        for token in &self.tokens {
            if let Source::File(file) = &token.source {
                changed |= file.look();
            }
        }
        changed
    }

    /// Who holds this token. Every entry is compared, so that the time tells nothing about which one it was.
    pub(super) fn holder(&self, presented: &Digest) -> Option<Caller> {
        let mut found = None;
        for token in &self.tokens {
            let is_it = token.digest().is_some_and(|digest| digest.matches(presented));
            if is_it && found.is_none() {
                found = Some(token);
            }
        }
        found.map(|token| Caller {
            name: Arc::clone(&token.name),
            scopes: token.scopes,
            roots: token.roots.clone(),
            address: None,
            proof: Proof::Token(*presented),
        })
    }

    /// Who a certificate with these names is. With entries in the configuration, one of them has to fit.
    pub(super) fn bearer_of(&self, names: &Arc<[String]>) -> Option<Caller> {
        let first = names.first()?;
        let entry = self.certificates.iter().find(|entry| names.contains(&entry.name));
        let (name, scopes, roots) = match entry {
            Some(entry) => (&entry.name, entry.scopes, entry.roots.clone()),
            None if self.certificates.is_empty() => (first, Scopes::DEFAULT, None),
            None => return None,
        };
        let name = Arc::from(format!("cert:{name}"));
        Some(Caller { name, scopes, roots, address: None, proof: Proof::Certificate(Arc::clone(names)) })
    }
}

impl Token {
    /// A token that the configuration says nothing about.
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

    fn digest(&self) -> Option<Digest> {
        match &self.source {
            Source::Fixed(digest) => Some(*digest),
            Source::File(file) => file.digest(),
        }
    }
}
