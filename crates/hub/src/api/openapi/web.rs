//! The operations that the web application uses: sessions of browsers, share links, notices and the audit.

use super::{ADMIN, Array, Created, Empty, OPERATOR, Object, Operation, Text, VIEWER, change, read, remove};

/// The parameters of a list of runs.
pub(super) const RUNS: &[&str] =
    &["limit: integer?", "host_id: string?", "status: string?", "q: string?", "before: string?"];
const AUDIT: &[&str] = &[
    "before_id: integer?",
    "limit: integer?",
    "actor: string?",
    "action: string?",
    "target: string?",
    "since: string?",
    "until: string?",
];
const AUDIT_EXPORT: &[&str] = &[
    "format: string?",
    "before_id: integer?",
    "actor: string?",
    "action: string?",
    "target: string?",
    "since: string?",
    "until: string?",
];
const SUBSCRIPTION: &[&str] = &["endpoint: string", "keys: object", "waits: boolean?", "ends: boolean?"];
const WEBHOOK: &[&str] = &[
    "name: string",
    "form: string",
    "url: string",
    "chat_id: string?",
    "token: string?",
    "waits: boolean?",
    "ends: boolean?",
];

pub(super) const OPERATIONS: &[Operation] = &[
    read("/auth/me", "The user of a sign-in; prolongs the one of a cookie", VIEWER, Object("Session")),
    read("/auth/config", "What a browser needs before anyone has signed in", None, Object("SiteConfig")),
    read("/hosts/{id}/directories", "Recent working directories of a host", VIEWER, Object("Directories")),
    Operation {
        errors: &[400, 404, 409, 415, 422],
        ..change(
            "/runs/{id}/share",
            "Create a read-only link to a run",
            OPERATOR,
            &["expires_in: integer?"],
            Object("NewShare"),
        )
    },
    read("/runs/{id}/shares", "The links to a run", OPERATOR, Array("Share")),
    Operation { role: OPERATOR, ..remove("/shares/{id}", "Remove a link and close its connections") },
    read("/push/key", "The key with which browsers subscribe to notices", VIEWER, Object("PushKey")),
    read(
        "/push/subscriptions",
        "The browsers of the user that receive notices",
        VIEWER,
        Array("Subscription"),
    ),
    Operation {
        errors: &[400, 409, 415, 422],
        ..change(
            "/push/subscriptions",
            "Send notices to a browser, or change which",
            VIEWER,
            SUBSCRIPTION,
            Created("Id"),
        )
    },
    Operation {
        role: VIEWER,
        errors: &[400, 404],
        ..remove("/push/subscriptions/{id}", "Send no more notices to a browser")
    },
    Operation {
        errors: &[400, 429],
        ..change("/push/test", "Send a test to the browsers of the user", VIEWER, &[], Empty(202))
    },
    read("/webhooks", "The webhooks by name, without their URLs", ADMIN, Array("Webhook")),
    Operation {
        errors: &[400, 409, 415, 422],
        ..change("/webhooks", "Send notices to a server", ADMIN, WEBHOOK, Empty(201))
    },
    remove("/webhooks/{name}", "Remove a webhook"),
    Operation {
        errors: &[404, 429],
        ..change("/webhooks/{name}/test", "Send a test to a webhook", ADMIN, &[], Empty(202))
    },
    Operation {
        query: AUDIT,
        errors: &[400],
        ..read("/audit", "Who did what, newest first", ADMIN, Array("AuditEntry"))
    },
    Operation {
        query: AUDIT_EXPORT,
        errors: &[400],
        ..read("/audit/export", "The audit as a file", ADMIN, Text("text/csv"))
    },
];

pub(super) const SCHEMAS: &[(&str, &[&str])] = &[
    (
        "Session",
        &[
            "user: string",
            "role: string",
            "kind: string",
            "hub_version: string",
            "bundle_version: string",
            "expires_at: string|null",
            "run_id: string?",
        ],
    ),
    ("SiteConfig", &["hub_version: string", "bundle_version: string", "secure: boolean", "ca: boolean"]),
    ("Directories", &["directories: array"]),
    ("NewShare", &["id: integer", "token: string", "url: string", "expires_at: string"]),
    (
        "Share",
        &["id: integer", "run_id: string", "created_by: string", "created_at: string", "expires_at: string"],
    ),
    ("PushKey", &["public_key: string"]),
    ("Id", &["id: integer"]),
    (
        "Subscription",
        &["id: integer", "endpoint_host: string", "waits: boolean", "ends: boolean", "created_at: string"],
    ),
    (
        "Webhook",
        &[
            "name: string",
            "form: string",
            "url_host: string",
            "waits: boolean",
            "ends: boolean",
            "created_at: string",
        ],
    ),
    (
        "AuditEntry",
        &["id: integer", "ts: string", "actor: string", "action: string", "target: string", "detail: string"],
    ),
    ("NewToken", &["token: string"]),
];
