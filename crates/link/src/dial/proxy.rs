//! Proxies of outbound HTTP requests, as the usual environment variables name them.

use std::net::IpAddr;

use http::HeaderValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::endpoint::Endpoint;
use super::{DialError, Duplex, Tls, tls, websocket};
use crate::listen::Network;

/// The limit on the head of a proxy's response.
const MAX_HEAD_BYTES: usize = 16 * 1024;

/// The proxies for `http://` and `https://`, and the hosts that are reached directly.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<HttpProxy>,
    https: Option<HttpProxy>,
    direct: Vec<DirectHosts>,
}

/// The address of a proxy and the credentials for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HttpProxy {
    endpoint: Endpoint,
    /// The value of `Proxy-Authorization`.
    pub(super) credentials: Option<HeaderValue>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum DirectHosts {
    All,
    Network(Network),
    /// A name and all names below it.
    Domain(String),
}

impl Proxies {
    /// The proxies in `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, or the same in lower case. A variable with an
    /// invalid address is skipped. `HTTP_PROXY` is ignored in a CGI program, where a client can set it with a header.
    pub fn from_variables(find: impl Fn(&str) -> Option<String>) -> Proxies {
        let text = |name: &str| {
            let found = find(name).or_else(|| find(&name.to_ascii_lowercase()));
            found.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let proxy = |name: &str| text(name).and_then(|value| HttpProxy::parse(&value));
        let http = if find("REQUEST_METHOD").is_some() { None } else { proxy("HTTP_PROXY") };
        let direct = text("NO_PROXY").unwrap_or_default();
        Proxies {
            http: http.or_else(|| proxy("ALL_PROXY")),
            https: proxy("HTTPS_PROXY").or_else(|| proxy("ALL_PROXY")),
            direct: direct.split(',').filter_map(DirectHosts::parse).collect(),
        }
    }

    /// The proxy for an endpoint, unless it is reached directly.
    pub(super) fn of(&self, endpoint: &Endpoint) -> Option<&HttpProxy> {
        let is_direct = self.direct.iter().any(|hosts| hosts.contain(&endpoint.host));
        let proxy = if endpoint.is_encrypted { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| !is_direct)
    }
}

impl DirectHosts {
    fn parse(text: &str) -> Option<DirectHosts> {
        let text = text.trim();
        match (text, text.parse()) {
            ("", _) => None,
            ("*", _) => Some(DirectHosts::All),
            (_, Ok(network)) => Some(DirectHosts::Network(network)),
            _ => Some(DirectHosts::Domain(text.trim_start_matches('.').to_ascii_lowercase())),
        }
    }

    fn contain(&self, host: &str) -> bool {
        match self {
            DirectHosts::All => true,
            DirectHosts::Network(network) => {
                host.parse().is_ok_and(|address: IpAddr| network.contains(address))
            }
            DirectHosts::Domain(domain) => {
                let host = host.to_ascii_lowercase();
                let above = host.strip_suffix(domain.as_str());
                above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
            }
        }
    }
}

impl HttpProxy {
    /// A proxy `[http://][USER:PASSWORD@]HOST[:PORT]`, or the same with `https://`.
    fn parse(text: &str) -> Option<HttpProxy> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let (user, address) = rest.rsplit_once('@').map_or((None, rest), |(user, host)| (Some(user), host));
        let endpoint = Endpoint::parse(&format!("{scheme}://{address}"), ("http", "https")).ok()?;
        let credentials = match user {
            None => None,
            Some(user) => {
                let user = wire::exec_server::uri::percent_decoded(user)?;
                let user = if user.contains(&b':') { user } else { [user, b":".to_vec()].concat() };
                let value = format!("Basic {}", wire::base64::encode(&user));
                let mut value = HeaderValue::try_from(value).ok()?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Some(HttpProxy { endpoint, credentials })
    }

    /// A stream to `target`: to the proxy itself for plain HTTP, through a tunnel with TLS inside otherwise.
    pub(super) async fn connect(&self, target: &Endpoint, tls: &Tls) -> Result<Box<dyn Duplex>, DialError> {
        let mut stream = self.endpoint.connect(&Tls::default()).await?;
        if !target.is_encrypted {
            return Ok(stream);
        }
        let address = target.address();
        let failed = |problem: String| DialError::Broken(format!("the proxy failed: {problem}"));
        let mut request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n").into_bytes();
        if let Some(credentials) = &self.credentials {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(credentials.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request).await.map_err(|error| failed(error.to_string()))?;
        let mut head = Vec::new();
        // Byte by byte: what follows the head belongs to the tunnel.
        while !head.ends_with(b"\r\n\r\n") {
            let byte = stream.read_u8().await.map_err(|error| failed(error.to_string()))?;
            head.push(byte);
            if head.len() > MAX_HEAD_BYTES {
                return Err(failed("its response is too long".to_owned()));
            }
        }
        match websocket::status(&head)? {
            Some(status) if status.is_success() => {}
            status => {
                let status = status.map(|status| status.to_string()).unwrap_or_default();
                return Err(failed(format!("it refuses a tunnel to {address}: {status}")));
            }
        }
        let encrypted = tls::wrap(stream, &target.host, tls).await;
        Ok(Box::new(encrypted.map_err(|source| DialError::Tls { address, source })?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies(variables: &[(&str, &str)]) -> Proxies {
        let find = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Proxies::from_variables(find)
    }

    fn chosen(proxies: &Proxies, url: &str) -> Option<(String, bool)> {
        let endpoint = Endpoint::parse(url, ("http", "https")).unwrap();
        let proxy = proxies.of(&endpoint)?;
        Some((proxy.endpoint.address(), proxy.credentials.is_some()))
    }

    #[test]
    fn the_proxy_of_the_scheme_is_used_and_upper_case_comes_first() {
        let found =
            proxies(&[("HTTP_PROXY", "one:81"), ("http_proxy", "two"), ("https_proxy", "http://u:p@three")]);
        assert_eq!(chosen(&found, "http://h/"), Some(("one:81".to_owned(), false)));
        assert_eq!(chosen(&found, "https://h/"), Some(("three:80".to_owned(), true)));
        let all = proxies(&[("ALL_PROXY", "https://four"), ("HTTP_PROXY", " ")]);
        assert_eq!(chosen(&all, "http://h/"), Some(("four:443".to_owned(), false)));
        assert_eq!(chosen(&proxies(&[("HTTP_PROXY", "one"), ("REQUEST_METHOD", "GET")]), "http://h/"), None);
        assert_eq!(chosen(&proxies(&[("HTTP_PROXY", "socks5://one")]), "http://h/"), None);
    }

    #[test]
    fn hosts_in_no_proxy_are_reached_directly() {
        let found =
            proxies(&[("all_proxy", "p"), ("no_proxy", "127.0.0.0/8, ::1,.a.example, B.example,10.0.0.1")]);
        for direct in [
            "http://127.3.2.1/",
            "http://[::1]:9/",
            "https://a.example/",
            "http://X.A.example/",
            "http://b.example:1/",
            "http://10.0.0.1/",
        ] {
            assert_eq!(chosen(&found, direct), None, "{direct}");
        }
        for other in ["http://xa.example/", "http://10.0.0.2/", "http://example/"] {
            assert!(chosen(&found, other).is_some(), "{other}");
        }
        assert_eq!(chosen(&proxies(&[("ALL_PROXY", "p"), ("NO_PROXY", "*")]), "http://h/"), None);
    }

    #[test]
    fn a_password_is_decoded_and_not_printed() {
        let found = proxies(&[("HTTP_PROXY", "http://me:a%3Ab@p")]);
        let endpoint = Endpoint::parse("http://h/", ("http", "https")).unwrap();
        let value = found.of(&endpoint).unwrap().credentials.clone().unwrap();
        assert_eq!(value.to_str().unwrap(), "Basic bWU6YTpi");
        assert!(!format!("{found:?}").contains("bWU6"), "{found:?}");
    }
}
