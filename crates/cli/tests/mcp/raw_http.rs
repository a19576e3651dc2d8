//! MCP over HTTP by hand: requests as bytes, and clients of 2026-07-28, whose requests have no session.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::Http;

/// One POST on a connection of its own: status, headers, body.
pub(crate) fn post(server: &Http, headers: &[(&str, &str)], body: &Value) -> (u16, String, String) {
    request(server, "POST", headers, &body.to_string())
}

/// One request on a connection of its own: status, headers, body.
pub(crate) fn request(
    server: &Http,
    method: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String, String) {
    let address = server.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let mut request =
        format!("{method} /mcp HTTP/1.1\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
    let usual = [
        ("Host", address),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    for (name, value) in usual.iter().filter(|(name, _)| !headers.iter().any(|(given, _)| given == name)) {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), body.to_owned())
}

/// A client of 2026-07-28.
pub(crate) struct StatelessClient<'a> {
    pub(crate) server: &'a Http,
    pub(crate) token: &'a str,
    pub(crate) version: &'a str,
    pub(crate) capabilities: Value,
}

impl StatelessClient<'_> {
    pub(crate) fn new<'a>(server: &'a Http, token: &'a str, capabilities: Value) -> StatelessClient<'a> {
        StatelessClient { server, token, version: "2026-07-28", capabilities }
    }

    /// The whole response to a request: its HTTP status and its JSON.
    pub(crate) fn ask(&self, method: &str, params: Value) -> (u16, Value) {
        let (status, body) = self.send(method, params);
        let mut events = body.lines().filter_map(|line| line.strip_prefix("data:"));
        let json = events.find(|data| data.contains("\"id\":7")).unwrap_or(&body);
        (status, serde_json::from_str(json).unwrap_or_else(|_| panic!("{method}: {status} {body}")))
    }

    /// The HTTP status of a request without parameters.
    pub(crate) fn status(&self, method: &str) -> u16 {
        self.send(method, json!({})).0
    }

    fn send(&self, method: &str, mut params: Value) -> (u16, String) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": self.version,
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
        });
        let bearer = format!("Bearer {}", self.token);
        let mut headers =
            vec![("Authorization", &*bearer), ("MCP-Protocol-Version", self.version), ("Mcp-Method", method)];
        let name = ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str().map(str::to_owned));
        headers.extend(name.as_deref().map(|name| ("Mcp-Name", name)));
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let (status, head, body) = post(self.server, &headers, &body);
        assert!(!head.contains("mcp-session-id"), "{head}");
        (status, body)
    }

    /// The result of a request.
    pub(crate) fn result(&self, method: &str, params: Value) -> Value {
        let (status, response) = self.ask(method, params);
        assert_eq!((status, &response["error"]), (200, &Value::Null), "{response}");
        response["result"].clone()
    }

    /// The result of a tool.
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({ "name": tool, "arguments": arguments }))
    }
}
