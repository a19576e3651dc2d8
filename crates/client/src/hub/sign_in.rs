//! Signing in to a hub: the tokens of a user, their renewal, and signing out.

use serde::{Deserialize, Serialize};

use super::api::HubClient;
use super::error::HubError;

/// What the hub returns for a password or a refresh token.
#[derive(Clone, Deserialize)]
pub struct SignIn {
    /// The token of requests.
    pub access_token: String,
    /// The token that is exchanged for the next access token; a hub that keeps it sends none.
    #[serde(default)]
    pub refresh_token: Option<String>,
    /// The seconds after which the access token expires.
    #[serde(default)]
    pub expires_in: Option<u64>,
    /// `admin`, `operator` or `viewer`.
    #[serde(default)]
    pub role: Option<String>,
}

impl std::fmt::Debug for SignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignIn").field("expires_in", &self.expires_in).field("role", &self.role).finish()
    }
}

#[derive(Serialize)]
struct LoginParams<'a> {
    username: &'a str,
    password: &'a str,
    refresh: bool,
}

#[derive(Serialize)]
struct RefreshParams<'a> {
    refresh_token: &'a str,
}

#[derive(Serialize)]
struct LogoutParams {
    everywhere: bool,
}

impl HubClient {
    /// Signs in with a password; asks for a refresh token.
    pub async fn sign_in(&self, username: &str, password: &str) -> Result<SignIn, HubError> {
        self.post("/auth/login", &LoginParams { username, password, refresh: true }).await
    }

    /// Exchanges a refresh token for new tokens.
    pub async fn refresh(&self, refresh_token: &str) -> Result<SignIn, HubError> {
        self.post("/auth/refresh", &RefreshParams { refresh_token }).await
    }

    /// Ends the sign-in of this client; `everywhere` ends all sign-ins of the user.
    pub async fn sign_out(&self, everywhere: bool) -> Result<(), HubError> {
        self.send("/auth/logout", &LogoutParams { everywhere }).await
    }
}
