//! Sources: where each token comes from and what is wrong with it, for `doctor` and `check-config`.

use super::{FROM_VARIABLE, FROM_VARIABLE_FILE, OWN, Scopes, own_token_file, token_file};
use crate::config::{Config, Paths, TokenSource};

/// A token shorter than this can be guessed.
const WEAK: usize = 16;

/// What can be said about one token without saying it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenReport {
    /// Its name.
    pub name: String,
    /// Where it comes from, and what it is for.
    pub found: String,
    /// What is wrong with it, and what to do.
    pub trouble: Option<String>,
}

/// Every token that `rexd serve` would accept.
pub fn report(config: &Config, paths: &Paths) -> Vec<TokenReport> {
    let mut tokens = Vec::new();
    if let Some(token) = &paths.token {
        let weak = token.expose().len() < WEAK;
        let trouble = weak.then(|| format!("it is short; use at least {WEAK} random characters"));
        let found = described("$REXD_TOKEN", Scopes::DEFAULT);
        tokens.push(TokenReport { name: FROM_VARIABLE.to_owned(), found, trouble });
    }
    if let Some(path) = &paths.token_file {
        tokens.push(of_file(FROM_VARIABLE_FILE, path, Scopes::DEFAULT));
    }
    for token in &config.auth.tokens {
        tokens.push(match &token.source {
            TokenSource::File(path) => of_file(&token.name, path, token.scopes),
            TokenSource::Sha256(_) => TokenReport {
                name: token.name.clone(),
                found: described("sha256 in the configuration", token.scopes),
                trouble: None,
            },
        });
    }
    let own = own_token_file(paths).filter(|_| tokens.is_empty());
    tokens.extend(own.map(|path| match path.exists() {
        true => of_file(OWN, &path, Scopes::DEFAULT),
        false => TokenReport {
            name: OWN.to_owned(),
            found: format!("none configured; `rexd serve` makes {}", path.display()),
            trouble: None,
        },
    }));
    tokens
}

fn of_file(name: &str, path: &std::path::Path, scopes: Scopes) -> TokenReport {
    let trouble = token_file::check(path).err().map(|trouble| trouble.to_string());
    TokenReport { name: name.to_owned(), found: described(&path.display().to_string(), scopes), trouble }
}

fn described(source: &str, scopes: Scopes) -> String {
    match scopes.is_empty() {
        true => format!("{source}, no scopes"),
        false => format!("{source}, {}", scopes.names().join(" + ")),
    }
}
