//! Token reports: the source of each token and its problem, for `doctor` and `check-config`.

use super::{FROM_VARIABLE, FROM_VARIABLE_FILE, OWN, Scopes, own_token_file, token_file};
use crate::config::{Config, Paths, TokenSource};

/// The length below which a token is reported as weak.
const MIN_LENGTH: usize = 16;

/// A description of one token without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenReport {
    /// The name in the configuration.
    pub name: String,
    /// The source and the scopes.
    pub found: String,
    /// The problem and its remedy.
    pub problem: Option<String>,
}

/// Every token that `rexd serve` would accept.
pub fn report(config: &Config, paths: &Paths) -> Vec<TokenReport> {
    let mut tokens = Vec::new();
    if let Some(token) = &paths.token {
        let weak = token.expose().len() < MIN_LENGTH;
        let problem =
            weak.then(|| format!("the token is short; use at least {MIN_LENGTH} random characters"));
        let found = described("$REXD_TOKEN", Scopes::DEFAULT);
        tokens.push(TokenReport { name: FROM_VARIABLE.to_owned(), found, problem });
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
                problem: None,
            },
        });
    }
    let own = own_token_file(paths).filter(|_| tokens.is_empty());
    tokens.extend(own.map(|path| match path.exists() {
        true => of_file(OWN, &path, Scopes::DEFAULT),
        false => TokenReport {
            name: OWN.to_owned(),
            found: format!("none configured; `rexd serve` creates {}", path.display()),
            problem: None,
        },
    }));
    tokens
}

fn of_file(name: &str, path: &std::path::Path, scopes: Scopes) -> TokenReport {
    let problem = token_file::check(path).err().map(|problem| problem.to_string());
    TokenReport { name: name.to_owned(), found: described(&path.display().to_string(), scopes), problem }
}

fn described(source: &str, scopes: Scopes) -> String {
    match scopes.is_empty() {
        true => format!("{source}, no scopes"),
        false => format!("{source}, {}", scopes.names().join(" + ")),
    }
}
