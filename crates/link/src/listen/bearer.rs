//! Bearer tokens in the `Authorization` header.

use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Why the `Authorization` header contains no usable token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BearerError {
    /// Several headers: the one that counts is unclear.
    #[error("the request has more than one Authorization header")]
    Several,
    /// Bytes outside of ASCII.
    #[error("the Authorization header is not ASCII")]
    NotAscii,
    /// Another scheme.
    #[error("the Authorization header is not a Bearer token")]
    NotBearer,
    /// The scheme without a token.
    #[error("the Bearer token is empty")]
    Empty,
}

/// The token of `Authorization: Bearer TOKEN`; `None` without that header.
pub fn bearer_token(headers: &HeaderMap) -> Result<Option<&str>, BearerError> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(BearerError::Several);
    }
    let text = value.to_str().map_err(|_| BearerError::NotAscii)?;
    let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(BearerError::NotBearer);
    }
    match token.trim_matches(' ') {
        "" => Err(BearerError::Empty),
        token => Ok(Some(token)),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_bearer_token_is_one_whole_header() {
        let found = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(AUTHORIZATION, HeaderValue::from_static(value));
            }
            bearer_token(&headers).map(|token| token.map(str::to_owned))
        };
        assert_eq!(found(&[]), Ok(None));
        assert_eq!(found(&["Bearer abc"]), Ok(Some("abc".to_owned())));
        assert_eq!(found(&["bearer  abc "]), Ok(Some("abc".to_owned())));
        assert_eq!(found(&["Basic abc"]), Err(BearerError::NotBearer));
        assert_eq!(found(&["Bearer"]), Err(BearerError::Empty));
        assert_eq!(found(&["Bearer "]), Err(BearerError::Empty));
        assert_eq!(found(&["Bearer a", "Bearer a"]), Err(BearerError::Several));
    }
}
