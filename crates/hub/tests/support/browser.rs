//! A browser as far as the hub can tell: it keeps the cookie, and sends the headers that pages cannot forge.

use std::io::Write as _;

use serde_json::{Value, json};
use testkit::http::{Answer, Http};

use super::Running;
use super::peers::Envelopes;

/// A request of any method with complete header lines.
pub(crate) fn request(
    hub: &Running,
    method: &str,
    path: &str,
    headers: &[String],
    body: Option<&Value>,
) -> Answer {
    let mut http = Http::connect(hub.address).unwrap();
    let body = body.map(Value::to_string);
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", hub.address);
    for header in headers {
        text += &format!("{header}\r\n");
    }
    if let Some(body) = &body {
        text += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
    }
    text += "\r\n";
    text += body.as_deref().unwrap_or_default();
    http.stream().write_all(text.as_bytes()).unwrap();
    let head = http.head().unwrap();
    let body = match method {
        "HEAD" => Vec::new(),
        _ if head.status == 304 || head.status == 204 => Vec::new(),
        _ => http.body(&head).unwrap(),
    };
    Answer { head, body: String::from_utf8_lossy(&body).into_owned() }
}

/// A browser with the page of a hub.
pub(crate) struct Browser<'a> {
    hub: &'a Running,
    /// `NAME=SECRET`.
    pub(crate) cookie: String,
}

impl<'a> Browser<'a> {
    /// Signs in with a password.
    pub(crate) fn sign_in(hub: &'a Running, name: &str, password: &str) -> Browser<'a> {
        let body = json!({ "username": name, "password": password, "cookie": true });
        let answer = request(hub, "POST", "/auth/login", &[], Some(&body));
        assert_eq!(answer.head.status, 200, "{}", answer.body);
        assert!(!answer.body.contains("token"), "{}", answer.body);
        Browser { hub, cookie: cookie_of(&answer) }
    }

    fn headers(&self) -> Vec<String> {
        vec![
            format!("Cookie: other=1; {}", self.cookie),
            format!("Origin: http://{}", self.hub.address),
            "Sec-Fetch-Site: same-origin".to_owned(),
        ]
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        request(self.hub, "GET", path, &self.headers(), None)
    }

    pub(crate) fn get_json(&self, path: &str) -> Value {
        let answer = self.get(path);
        assert_eq!(answer.head.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        request(self.hub, "POST", path, &self.headers(), Some(body))
    }

    pub(crate) fn post_json(&self, path: &str, body: &Value) -> Value {
        let answer = self.post(path, body);
        assert!(matches!(answer.head.status, 200 | 201), "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }

    pub(crate) fn delete(&self, path: &str) -> u16 {
        request(self.hub, "DELETE", path, &self.headers(), None).head.status
    }

    /// Opens the WebSocket of the app, as a page of this origin.
    pub(crate) fn socket(&self, origin: Option<&str>) -> Result<Envelopes, (u16, String)> {
        let mut headers = vec![("cookie", self.cookie.as_str())];
        headers.extend(origin.map(|origin| ("origin", origin)));
        Envelopes::dial(self.hub, "/ws/app", &headers)
    }
}

/// The cookie that a response sets, without its attributes.
pub(crate) fn cookie_of(answer: &Answer) -> String {
    let set = answer.head.header("set-cookie").expect("a cookie");
    set.split(';').next().unwrap().to_owned()
}
