//! Logins: the stored sign-ins to hubs, in a file that only the user can read. The last one is the default.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use client::Target;
use client::hub::SignIn;
use client::target::{BearerToken, HubTarget, Scheme, SharedTokenProvider, Tls, UrlTarget};
use serde::{Deserialize, Serialize};

use super::sign_in::StoredSignIn;
use crate::failure::Failure;
use crate::route::Paths;
use crate::route::registry::{lock_file, write_private};

/// The version of the file format.
const VERSION: u32 = 1;
/// The size above which the file is not read.
const SIZE_LIMIT: u64 = 1024 * 1024;

/// The sign-ins, the last one at the end.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Logins {
    version: u32,
    hubs: Vec<Login>,
}

/// The sign-in to one hub.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    /// The address of the hub.
    pub url: String,
    /// The user; `None` for a client token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The token of requests.
    pub access_token: String,
    /// When the access token expires, in seconds since 1970; `None` if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    /// The token for the next access token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// The CA certificates that are trusted instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("url", &self.url).field("user", &self.user).finish()
    }
}

impl Logins {
    /// Loads the file; a missing file has no sign-ins.
    pub fn load(file: &Path) -> Result<Logins, Failure> {
        let wrong = |problem: &dyn std::fmt::Display| {
            Failure::new(format!("cannot read the sign-ins in {}: {problem}", file.display()))
                .hint("fix the file, or remove it and sign in again with `rex login URL`")
        };
        let about = match std::fs::metadata(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Logins::default()),
            about => about.map_err(|error| wrong(&error))?,
        };
        if !about.is_file() || about.len() > SIZE_LIMIT {
            return Err(wrong(&"not a regular file below 1 MiB"));
        }
        let text = std::fs::read(file).map_err(|error| wrong(&error))?;
        // serde's message would quote a part of the file, which has secrets.
        let logins: Logins = serde_json::from_slice(&text)
            .map_err(|error| wrong(&format!("invalid JSON in line {}", error.line())))?;
        match logins.version {
            0 | VERSION => Ok(logins),
            other => Err(wrong(&format!("its version is {other}, and this rex supports {VERSION}"))),
        }
    }

    /// Changes the file: locks it, loads it, applies `change` and replaces it atomically.
    pub fn change<T>(file: &Path, change: impl FnOnce(&mut Logins) -> T) -> Result<T, Failure> {
        let failed = |error: std::io::Error| cannot_write(file, &error);
        let lock = lock_file(file).map_err(failed)?;
        let mut logins = Logins::load(file)?;
        let done = change(&mut logins);
        logins.store(file)?;
        drop(lock);
        Ok(done)
    }

    /// Replaces the file. The caller holds its lock.
    pub(super) fn store(&mut self, file: &Path) -> Result<(), Failure> {
        self.version = VERSION;
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|error| Failure::new(format!("cannot encode the sign-ins: {error}")))?;
        text.push(b'\n');
        write_private(file, &text).map_err(|error| cannot_write(file, &error))
    }

    /// The sign-in to this hub, or the last one.
    pub fn find(&self, url: Option<&str>) -> Option<&Login> {
        match url {
            Some(url) => self.hubs.iter().find(|login| login.url == url),
            None => self.hubs.last(),
        }
    }

    /// Adds a sign-in, which replaces one to the same hub and becomes the default.
    pub fn add(&mut self, login: Login) {
        self.remove(&login.url);
        self.hubs.push(login);
    }

    /// Replaces the tokens of a sign-in, which keeps its place.
    pub(super) fn update(&mut self, login: Login) {
        if let Some(present) = self.hubs.iter_mut().find(|present| present.url == login.url) {
            *present = login;
        }
    }

    /// Removes the sign-in to a hub; returns it.
    pub fn remove(&mut self, url: &str) -> Option<Login> {
        let index = self.hubs.iter().position(|login| login.url == url)?;
        Some(self.hubs.remove(index))
    }
}

impl Login {
    /// The tokens of a sign-in, received now.
    pub fn new(url: String, user: String, tokens: SignIn) -> Login {
        let login = Login {
            url,
            user: Some(user),
            access_token: String::new(),
            expires_at: None,
            refresh_token: None,
            ca_file: None,
        };
        login.with(tokens)
    }

    /// The same sign-in with other tokens, received now. A hub may keep the refresh token.
    pub(super) fn with(self, tokens: SignIn) -> Login {
        let lifetime = tokens.expires_in.and_then(|seconds| i64::try_from(seconds).ok());
        let expires_at = lifetime.map(|seconds| jiff::Timestamp::now().as_second().saturating_add(seconds));
        Login {
            access_token: tokens.access_token,
            expires_at,
            refresh_token: tokens.refresh_token.or(self.refresh_token),
            ..self
        }
    }

    /// The address of the hub with its certificates and without a token.
    pub fn address(&self) -> Result<UrlTarget, Failure> {
        let mut url = parse_hub(&self.url)?;
        url.tls = Tls { ca_file: self.ca_file.clone(), ..Tls::default() };
        Ok(url)
    }
}

/// The file of the sign-ins.
pub fn logins_file(paths: &Paths) -> Result<PathBuf, Failure> {
    paths.logins.clone().ok_or_else(|| {
        Failure::new("no path for the sign-ins to hubs: HOME is not set").hint("set HOME or XDG_CONFIG_HOME")
    })
}

/// The address of a hub in the form in which it is stored: `http(s)://HOST[:PORT][/PATH]`.
pub fn hub_address(text: &str) -> Result<String, Failure> {
    parse_hub(text).map(|url| url.to_text())
}

/// Parses the address of a hub, also as `ws(s)://…`.
pub fn parse_hub(text: &str) -> Result<UrlTarget, Failure> {
    let invalid = |problem: &dyn std::fmt::Display| {
        Failure::new(format!("invalid address of a hub: {problem}"))
            .hint("use https://HOST[:PORT], such as `rex login https://hub.example`")
    };
    match text.parse::<Target>() {
        Ok(Target::Url(url)) => Ok(normalized(url)),
        Ok(other) => Err(invalid(&format!("`{other}` is not an http(s):// URL"))),
        Err(error) => Err(invalid(&error)),
    }
}

/// The address without a query, so that one hub has one address.
fn normalized(url: UrlTarget) -> UrlTarget {
    let scheme = if url.scheme.is_encrypted() { Scheme::Https } else { Scheme::Http };
    let path = url.path.split('?').next().unwrap_or_default().trim_end_matches('/').to_owned();
    UrlTarget { scheme, authority: url.authority.to_ascii_lowercase(), path, ..url }
}

/// The token of a target that names a hub.
pub(crate) enum HubToken {
    /// The target's own token, which has precedence over the sign-in.
    Own(BearerToken),
    /// The sign-in, or else this token.
    SignIn(Option<BearerToken>),
}

/// Adds the address of its hub to a target, and the token or the sign-in for it.
pub(crate) fn add_sign_in(target: &mut HubTarget, token: HubToken, paths: &Paths) -> Result<(), Failure> {
    let named = target.hub.take().map(normalized);
    let wanted = named.as_ref().map(UrlTarget::to_text);
    let logins = paths.logins.as_deref().map_or_else(|| Ok(Logins::default()), Logins::load)?;
    let login = logins.find(wanted.as_deref());
    let mut url = match (named, login) {
        (Some(url), _) => url,
        (None, Some(login)) => login.address()?,
        (None, None) => return Ok(()),
    };
    url.tls.ca_file = url.tls.ca_file.or_else(|| login.and_then(|login| login.ca_file.clone()));
    match (token, login, &paths.logins) {
        (HubToken::Own(token), _, _) => url.token = Some(token),
        (HubToken::SignIn(_), Some(login), Some(file)) => {
            let source = StoredSignIn::new(file.clone(), url.clone(), login.clone());
            target.sign_in = Some(SharedTokenProvider(Arc::new(source)));
        }
        (HubToken::SignIn(token), _, _) => url.token = token,
    }
    target.hub = Some(url);
    Ok(())
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot store the sign-in in {}: {error}", file.display()))
        .hint("make its directory writable, or set XDG_CONFIG_HOME to another one")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn login(url: &str, token: &str) -> Login {
        Login {
            url: url.to_owned(),
            user: Some("ada".to_owned()),
            access_token: token.to_owned(),
            expires_at: None,
            refresh_token: Some("secret".to_owned()),
            ca_file: None,
        }
    }

    fn stored(logins: &[Login]) -> (tempfile::TempDir, Paths) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rexd/hubs.json");
        for one in logins {
            Logins::change(&file, |stored| stored.add(one.clone())).unwrap();
        }
        (dir, Paths { logins: Some(file), ..Paths::default() })
    }

    #[test]
    fn sign_ins_are_readable_by_the_user_only_and_the_last_one_is_the_default() {
        let (_dir, paths) = stored(&[login("http://a", "1"), login("http://b", "2"), login("http://a", "3")]);
        let file = logins_file(&paths).unwrap();
        let mode = || std::fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let token = |url| Logins::load(&file).unwrap().find(url).map(|login| login.access_token.clone());
        assert_eq!(token(None).as_deref(), Some("3"));
        assert_eq!(token(Some("http://b")).as_deref(), Some("2"));
        Logins::change(&file, |logins| logins.remove("http://a")).unwrap();
        assert_eq!(mode(), 0o600, "a mode that others can read is not kept");
        assert_eq!(token(None).as_deref(), Some("2"));
        assert!(!format!("{:?}", Logins::load(&file).unwrap()).contains("secret"));
    }

    #[test]
    fn a_broken_file_is_an_error_without_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hubs.json");
        std::fs::write(&file, "{\"hubs\": [{\"access_token\": \"SECRET\", \"url\": 7}]}").unwrap();
        let failure = Logins::load(&file).unwrap_err();
        assert!(failure.message.contains("invalid JSON in line 1"), "{failure}");
        assert!(!format!("{failure:?}").contains("SECRET"), "{failure:?}");
    }

    #[test]
    fn one_hub_has_one_address() {
        for text in ["https://Hub.example/x/", "wss://hub.example/x?token=1", "https://hub.example/x"] {
            assert_eq!(hub_address(text).unwrap(), "https://hub.example/x");
        }
        for text in ["hub.example", "ssh:hub", "https://", "https://a:b@hub.example"] {
            assert!(hub_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_target_uses_its_own_token_then_the_sign_in_then_the_fallback() {
        let (_dir, paths) = stored(&[login("http://a", "1"), login("http://b", "2")]);
        let sign_in =
            |token: Option<&str>| HubToken::SignIn(token.map(|token| BearerToken(token.to_owned())));
        let resolved = |url: Option<&str>, token: HubToken| {
            let hub = url.map(|url| parse_hub(url).unwrap());
            let mut target = HubTarget { hub, ..HubTarget::parse("h").unwrap() };
            add_sign_in(&mut target, token, &paths).unwrap();
            let url = target.hub.map(|url| (url.to_text(), url.token.map(|token| token.0)));
            (url, target.sign_in.is_some())
        };
        let at = |url: &str, token: Option<&str>| Some((url.to_owned(), token.map(str::to_owned)));
        assert_eq!(resolved(None, sign_in(None)), (at("http://b", None), true));
        assert_eq!(resolved(Some("ws://a/"), sign_in(Some("T"))), (at("http://a", None), true));
        assert_eq!(resolved(Some("http://c"), sign_in(Some("T"))), (at("http://c", Some("T")), false));
        let own = HubToken::Own(BearerToken("T".to_owned()));
        assert_eq!(resolved(None, own), (at("http://b", Some("T")), false));
    }
}
