//! The description of the HTTP API in OpenAPI 3.1, from tables of operations.

mod web;

use serde_json::{Map, Value, json};

/// One operation of the API.
struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    /// The role that it needs; none without authentication.
    role: Option<&'static str>,
    /// Members of the request's body: `name: type`, with `?` for optional ones.
    request: &'static [&'static str],
    query: &'static [&'static str],
    response: ResponseBody,
    /// Statuses of errors beside 401, 403 and 503.
    errors: &'static [u16],
}

/// The successful response.
enum ResponseBody {
    /// 204, or 201 for something new.
    Empty(u16),
    /// 200 with an object of this schema.
    Object(&'static str),
    /// 201 with an object of this schema.
    Created(&'static str),
    /// 200 with text of this type.
    Text(&'static str),
    /// 200 with an array of objects of this schema.
    Array(&'static str),
    /// 101: the connection becomes a WebSocket.
    WebSocket,
}

const VIEWER: Option<&str> = Some("viewer");
const OPERATOR: Option<&str> = Some("operator");
const ADMIN: Option<&str> = Some("admin");

/// An operation that reads and has no parameters.
const fn read(
    path: &'static str,
    summary: &'static str,
    role: Option<&'static str>,
    response: ResponseBody,
) -> Operation {
    Operation { method: "get", path, summary, role, request: &[], query: &[], response, errors: &[] }
}

/// An operation that removes something.
const fn remove(path: &'static str, summary: &'static str) -> Operation {
    Operation { method: "delete", errors: &[404], ..read(path, summary, ADMIN, ResponseBody::Empty(204)) }
}

/// An operation that changes something.
const fn change(
    path: &'static str,
    summary: &'static str,
    role: Option<&'static str>,
    request: &'static [&'static str],
    response: ResponseBody,
) -> Operation {
    Operation { method: "post", request, errors: &[400, 415, 422], ..read(path, summary, role, response) }
}

use ResponseBody::{Array, Created, Empty, Object, Text, WebSocket};

const LOGIN: &[&str] = &["username: string", "password: string", "refresh: boolean?", "cookie: boolean?"];
const INPUT: &[&str] = &["input_id: string", "text: string", "actor: string?"];
const DECISION: &[&str] = &["decision: string", "reason: string?", "text: string?", "actor: string?"];
const MESSAGES: &[&str] = &["limit: integer?", "before_id: integer?", "include_output: boolean?"];

const OPERATIONS: &[Operation] = &[
    read("/health", "Name and version of the hub", None, Object("Health")),
    Operation {
        errors: &[400, 415, 422, 429],
        ..change("/auth/login", "Sign in with a password", None, LOGIN, Object("SignedIn"))
    },
    change(
        "/auth/link",
        "Sign in with the code of a one-time link",
        None,
        &["code: string", "refresh: boolean?", "cookie: boolean?"],
        Object("SignedIn"),
    ),
    change(
        "/auth/refresh",
        "Replace the access token of a sign-in",
        None,
        &["refresh_token: string"],
        Object("SignedIn"),
    ),
    change(
        "/auth/logout",
        "End this sign-in, or all of the user",
        VIEWER,
        &["everywhere: boolean?"],
        Empty(204),
    ),
    read("/me", "The user or client of the token", VIEWER, Object("Me")),
    Operation {
        query: web::RUNS,
        errors: &[400],
        ..read("/runs", "The most recently active runs", VIEWER, Array("Run"))
    },
    Operation {
        query: web::RUNS,
        errors: &[400],
        ..read("/sessions", "The same as /runs", VIEWER, Array("Run"))
    },
    Operation {
        query: &["limit: integer?"],
        errors: &[400],
        ..read("/sessions/recent", "The most recently active runs", VIEWER, Array("Run"))
    },
    Operation { errors: &[404], ..read("/runs/{id}", "One run", VIEWER, Object("Run")) },
    Operation { errors: &[404], ..read("/sessions/{id}", "The same as /runs/{id}", VIEWER, Object("Run")) },
    Operation {
        query: MESSAGES,
        errors: &[400],
        ..read("/runs/{id}/messages", "Events of a run as messages, oldest first", VIEWER, Array("Message"))
    },
    Operation {
        query: MESSAGES,
        errors: &[400],
        ..read("/sessions/{id}/messages", "The same as /runs/{id}/messages", VIEWER, Array("Message"))
    },
    Operation {
        errors: &[400, 404, 415, 422, 502],
        ..change("/runs/{id}/input", "Type text into a run, once per input_id", OPERATOR, INPUT, Empty(204))
    },
    read("/hosts", "The hosts by id", VIEWER, Array("Host")),
    remove("/hosts/{id}", "Remove a host, so that its id can be enrolled again"),
    change("/join-codes", "Create a code with which one host enrols", ADMIN, &[], Object("Code")),
    Operation {
        query: &["status: string?", "host_id: string?"],
        errors: &[400],
        ..read("/approvals", "Requests for permission of all hosts", VIEWER, Array("Approval"))
    },
    Operation {
        errors: &[404],
        ..read(
            "/approvals/{run}/{request}",
            "One request, with its true text from the host",
            OPERATOR,
            Object("Approval"),
        )
    },
    Operation {
        errors: &[400, 404, 409, 415, 422, 502],
        ..change("/approvals/{run}/{request}", "Decide a request", OPERATOR, DECISION, Empty(204))
    },
    read("/users", "The users by name", ADMIN, Array("User")),
    Operation {
        errors: &[400, 409, 415, 422],
        ..change(
            "/users",
            "Create a user",
            ADMIN,
            &["name: string", "role: string", "password: string?"],
            Empty(201),
        )
    },
    remove("/users/{name}", "Remove a user and end all sign-ins"),
    Operation {
        errors: &[404],
        ..change("/users/{name}/link", "Create a one-time link of a user", ADMIN, &[], Object("Code"))
    },
    read("/tokens", "The tokens by name", ADMIN, Array("Token")),
    Operation {
        errors: &[400, 409, 415, 422],
        ..change(
            "/tokens",
            "Create a token",
            ADMIN,
            &["name: string", "kind: string", "role: string?"],
            Object("NewToken"),
        )
    },
    remove("/tokens/{name}", "Remove a token and close its connections"),
    Operation {
        query: &["lines: integer?", "max_bytes: integer?"],
        errors: &[400, 404],
        ..read("/server/logs/tail", "The end of the hub's log", ADMIN, Object("LogTail"))
    },
    Operation {
        query: &["token: string?", "auth: string?"],
        errors: &[400],
        ..read("/ws/app", "The WebSocket of an app", VIEWER, WebSocket)
    },
    Operation {
        query: &["host_id: string", "host_token: string?"],
        errors: &[400],
        ..read("/ws/host", "The WebSocket of a host, authenticated by its own token", None, WebSocket)
    },
    Operation {
        query: &["host_id: string", "host_token: string?"],
        errors: &[400],
        ..read("/ws/host/rexd", "The WebSocket of a host for REXD", None, WebSocket)
    },
    Operation {
        errors: &[400, 404],
        ..read("/hosts/{id}/rexd", "REXD of a host, as frames of a relay", VIEWER, WebSocket)
    },
];

/// The objects of responses with their members.
const SCHEMAS: &[(&str, &[&str])] = &[
    ("Health", &["name: string", "version: string"]),
    (
        "SignedIn",
        &[
            "access_token: string",
            "expires_in: integer",
            "refresh_token: string?",
            "user: string?",
            "role: string?",
        ],
    ),
    ("Me", &["user: string", "role: string"]),
    (
        "Run",
        &[
            "id: string",
            "host_id: string",
            "tool: string|null",
            "cwd: string|null",
            "command: string|null",
            "status: string",
            "started_at: string",
            "last_active_at: string",
            "pending_request_id: string|null",
            "pending_reason: string|null",
            "pending_prompt: string|null",
            "pending_op_tool: string|null",
            "pending_op_args_summary: string|null",
            "ended_at: string|null",
            "exit_code: integer|null",
            "last_seq: integer",
        ],
    ),
    (
        "Message",
        &[
            "id: integer",
            "seq: integer",
            "ts: string",
            "role: string",
            "kind: string",
            "actor: string|null",
            "request_id: string|null",
            "text: string",
            "data: object?",
        ],
    ),
    (
        "Host",
        &[
            "id: string",
            "name: string|null",
            "version: string|null",
            "is_older: boolean",
            "last_seen_at: string",
            "online: boolean",
        ],
    ),
    ("Code", &["code: string", "expires_in: integer"]),
    (
        "Approval",
        &[
            "run_id: string",
            "request_id: string",
            "host_id: string",
            "status: string",
            "requested_at: string",
            "expires_at: string|null",
            "decision: string|null",
            "decided_by: string|null",
            "decided_reason: string|null",
            "decided_at: string|null",
            "request: object|null",
            "shown: object?",
            "shown_error: string?",
        ],
    ),
    ("User", &["name: string", "role: string", "created_at: string", "has_password: boolean"]),
    (
        "Token",
        &[
            "name: string",
            "kind: string",
            "role: string|null",
            "created_at: string",
            "last_used_at: string|null",
        ],
    ),
    ("LogTail", &["path: string", "text: string", "truncated: boolean"]),
];

/// The description of the API.
pub fn openapi() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for operation in OPERATIONS.iter().chain(web::OPERATIONS) {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation.describe();
    }
    let schemas: Map<String, Value> = SCHEMAS
        .iter()
        .chain(web::SCHEMAS)
        .map(|(name, members)| ((*name).to_owned(), object(members)))
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": { "title": "rexhub", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
    })
}

impl Operation {
    fn describe(&self) -> Value {
        let mut described = json!({ "summary": self.summary, "responses": self.responses() });
        let in_path = self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path = in_path.map(
            |name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }),
        );
        let in_query = self.query.iter().map(|text| {
            let (name, schema, is_required) = member(text);
            json!({ "name": name, "in": "query", "required": is_required, "schema": schema })
        });
        let parameters: Vec<Value> = in_path.chain(in_query).collect();
        if !parameters.is_empty() {
            described["parameters"] = parameters.into();
        }
        if !self.request.is_empty() {
            described["requestBody"] = json!({ "required": true, "content": { "application/json": { "schema": object(self.request) } } });
        }
        if let Some(role) = self.role {
            described["security"] = json!([{ "bearer": [] }]);
            described["x-role"] = role.into();
        }
        described
    }

    fn responses(&self) -> Value {
        let content = |schema: Value| json!({ "application/json": { "schema": schema } });
        let named = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
        let (status, success) = match self.response {
            Empty(status) => (status, json!({ "description": "Done" })),
            Created(name) => (201, json!({ "description": "Done", "content": content(named(name)) })),
            Text(kind) => {
                let schema = json!({ kind: { "schema": { "type": "string" } } });
                (200, json!({ "description": "Done", "content": schema }))
            }
            Object(name) => (200, json!({ "description": "Done", "content": content(named(name)) })),
            Array(name) => {
                let schema = json!({ "type": "array", "items": named(name) });
                (200, json!({ "description": "Done", "content": content(schema) }))
            }
            WebSocket => (101, json!({ "description": "The connection becomes a WebSocket" })),
        };
        let mut responses = Map::from_iter([(status.to_string(), success)]);
        let access: &[u16] = if self.role == VIEWER { &[401, 503] } else { &[401, 403, 503] };
        let error = json!({ "description": "The reason as a line of text", "content": { "text/plain": { "schema": { "type": "string" } } } });
        let is_public = self.path == "/health";
        for status in self.errors.iter().chain(access.iter().filter(|_| !is_public)) {
            responses.insert(status.to_string(), error.clone());
        }
        Value::Object(responses)
    }
}

fn object(members: &[&str]) -> Value {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for text in members {
        let (name, schema, is_required) = member(text);
        properties.insert(name.to_owned(), schema);
        if is_required {
            required.push(name);
        }
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

/// A member's name, its schema, and whether it is always there.
fn member(text: &str) -> (&str, Value, bool) {
    let (name, kind) = text.split_once(": ").unwrap_or((text, "string"));
    let optional = kind.strip_suffix('?');
    let kind = optional.unwrap_or(kind);
    let schema = match kind.strip_suffix("|null") {
        Some(kind) => json!({ "type": [kind, "null"] }),
        None => json!({ "type": kind }),
    };
    (name, schema, optional.is_none())
}
