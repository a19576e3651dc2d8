//! The routes: which method and path mean which request, exactly as the route table of the protocol.

use http::Method;

use super::convert::percent_decoded;

/// The names of the routes, in the audit and in metrics.
pub(super) mod name {
    pub(in crate::faces::stringd) const USERS_LIST: &str = "users.list";
    pub(in crate::faces::stringd) const USERS_REGISTER: &str = "users.register";
    pub(in crate::faces::stringd) const USERS_DELETE: &str = "users.delete";
    pub(in crate::faces::stringd) const SESSIONS_LIST: &str = "sessions.list";
    pub(in crate::faces::stringd) const SESSIONS_CREATE: &str = "sessions.create";
    pub(in crate::faces::stringd) const SESSIONS_DELETE: &str = "sessions.delete";
    pub(in crate::faces::stringd) const EXEC: &str = "exec";
    pub(in crate::faces::stringd) const HEALTH: &str = "health";
    pub(in crate::faces::stringd) const SHUTDOWN: &str = "shutdown";
}

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    Preflight,
    ListUsers,
    RegisterUser,
    DeleteUser(String),
    ListSessions { user: Option<String> },
    CreateSession,
    DeleteSession { user: String, topic: String },
    Exec,
    Health,
    Shutdown,
}

impl Route {
    /// Its name in the audit and in metrics; a preflight has none.
    pub(super) fn name(&self) -> Option<&'static str> {
        Some(match self {
            Route::Preflight => return None,
            Route::ListUsers => name::USERS_LIST,
            Route::RegisterUser => name::USERS_REGISTER,
            Route::DeleteUser(_) => name::USERS_DELETE,
            Route::ListSessions { .. } => name::SESSIONS_LIST,
            Route::CreateSession => name::SESSIONS_CREATE,
            Route::DeleteSession { .. } => name::SESSIONS_DELETE,
            Route::Exec => name::EXEC,
            Route::Health => name::HEALTH,
            Route::Shutdown => name::SHUTDOWN,
        })
    }
}

/// Why a request has no route.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RouteError {
    /// There is no such method and path.
    NotFound,
    /// A percent escape is malformed.
    BadEscape,
    /// The path of a session has no topic.
    NoTopic,
}

/// The route of a request.
pub(super) fn route(method: &Method, path: &str, query: Option<&str>) -> Result<Route, RouteError> {
    if method == Method::OPTIONS {
        return Ok(Route::Preflight);
    }
    let decoded = |text: &str| percent_decoded(text).ok_or(RouteError::BadEscape);
    match (method, path) {
        (&Method::GET, "/users") => Ok(Route::ListUsers),
        (&Method::POST, "/users") => Ok(Route::RegisterUser),
        (&Method::GET, "/sessions") => Ok(Route::ListSessions { user: user_of(query)? }),
        (&Method::POST, "/sessions") => Ok(Route::CreateSession),
        (&Method::POST, "/exec") => Ok(Route::Exec),
        (&Method::GET, "/health") => Ok(Route::Health),
        (&Method::POST, "/shutdown") => Ok(Route::Shutdown),
        (&Method::DELETE, path) => match (path.strip_prefix("/users/"), path.strip_prefix("/sessions/")) {
            (Some(id), _) => Ok(Route::DeleteUser(decoded(id)?)),
            (None, Some(rest)) => {
                let rest = decoded(rest)?;
                let (user, topic) = rest.split_once('/').ok_or(RouteError::NoTopic)?;
                match topic {
                    "" => Err(RouteError::NoTopic),
                    topic => Ok(Route::DeleteSession { user: user.to_owned(), topic: topic.to_owned() }),
                }
            }
            (None, None) => Err(RouteError::NotFound),
        },
        _ => Err(RouteError::NotFound),
    }
}

/// The `user_id` of a query; an empty one is none.
fn user_of(query: Option<&str>) -> Result<Option<String>, RouteError> {
    let mut pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let Some((_, value)) = pairs.find(|(name, _)| *name == "user_id") else { return Ok(None) };
    let user = percent_decoded(&value.replace('+', " ")).ok_or(RouteError::BadEscape)?;
    Ok(Some(user).filter(|user| !user.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_exact() {
        let route = |method: &str, target: &str| {
            let (path, query) =
                target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
            super::route(&method.parse().unwrap(), path, query)
        };
        assert_eq!(route("OPTIONS", "/any"), Ok(Route::Preflight));
        assert_eq!(route("GET", "/users/"), Err(RouteError::NotFound));
        assert_eq!(route("HEAD", "/health"), Err(RouteError::NotFound));
        assert_eq!(route("PUT", "/users"), Err(RouteError::NotFound));
        assert_eq!(route("DELETE", "/users/"), Ok(Route::DeleteUser(String::new())));
        assert_eq!(route("DELETE", "/users/a%20b"), Ok(Route::DeleteUser("a b".to_owned())));
        assert_eq!(route("DELETE", "/users/%zz"), Err(RouteError::BadEscape));
        assert_eq!(route("DELETE", "/sessions/u"), Err(RouteError::NoTopic));
        let session = Route::DeleteSession { user: "u".to_owned(), topic: "file:main".to_owned() };
        assert_eq!(route("DELETE", "/sessions/u/file%3Amain"), Ok(session));
        let user = Some("a b".to_owned());
        assert_eq!(route("GET", "/sessions?x=1&user_id=a+b"), Ok(Route::ListSessions { user }));
        assert_eq!(route("GET", "/sessions?user_id="), Ok(Route::ListSessions { user: None }));
    }
}
