-- The role of a client token; the others have none.
ALTER TABLE tokens ADD COLUMN role TEXT;

-- Incremented by every change that can end a connection: a removed token, user, sign-in or host.
CREATE TABLE changes (
    id INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT;
INSERT INTO changes (id, revision) VALUES (1, 1);

-- Times are seconds since 1970, except where the name ends in _ms.
CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    password TEXT,
    created INTEGER NOT NULL
) STRICT;

CREATE TABLE sign_ins (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    access BLOB NOT NULL UNIQUE,
    access_ends INTEGER NOT NULL,
    refresh BLOB UNIQUE,
    ends INTEGER NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX sign_ins_by_user ON sign_ins (user_id);

-- The addresses from which a user has signed in.
CREATE TABLE known_addresses (
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    address TEXT NOT NULL,
    last_used INTEGER NOT NULL,
    PRIMARY KEY (user_id, address)
) STRICT;
CREATE INDEX known_addresses_by_address ON known_addresses (address);

-- Failed sign-ins of a user name or an address; the names are hashed.
CREATE TABLE login_failures (
    subject TEXT PRIMARY KEY,
    failures INTEGER NOT NULL,
    since INTEGER NOT NULL
) STRICT;

CREATE TABLE sign_in_links (
    digest BLOB PRIMARY KEY,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    ends INTEGER NOT NULL
) STRICT;

CREATE TABLE join_codes (
    digest BLOB PRIMARY KEY,
    created_by TEXT NOT NULL,
    ends INTEGER NOT NULL
) STRICT;

-- Hosts: `generation` counts connections, and the node that serves the latest one holds it until `lease_ms`.
CREATE TABLE hosts (
    id TEXT PRIMARY KEY,
    token BLOB NOT NULL,
    name TEXT,
    version TEXT,
    generation INTEGER NOT NULL,
    node TEXT,
    lease_ms INTEGER NOT NULL,
    last_seen_ms INTEGER NOT NULL,
    created INTEGER NOT NULL
) STRICT;

-- Runs: `last_seq` is the last event before the first gap, `highest_seq` the last one, `state_seq` the one that set the status.
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    host_id TEXT NOT NULL,
    tool TEXT,
    cwd TEXT,
    command TEXT,
    status TEXT NOT NULL,
    started_ms INTEGER NOT NULL,
    active_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    exit_code INTEGER,
    pending_seq INTEGER,
    pending_request_id TEXT,
    pending_reason TEXT,
    pending_prompt TEXT,
    pending_op_tool TEXT,
    pending_op_args_summary TEXT,
    last_seq INTEGER NOT NULL,
    highest_seq INTEGER NOT NULL,
    state_seq INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_by_activity ON runs (active_ms);
CREATE INDEX runs_by_host ON runs (host_id);

-- Events: `text` is the output or the redacted input; `data` holds the other members, or all if `text` is not exact.
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    ts TEXT NOT NULL,
    type TEXT NOT NULL,
    stream TEXT,
    actor TEXT,
    input_id TEXT,
    request_id TEXT,
    text TEXT,
    data TEXT,
    stored_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX events_by_seq ON events (run_id, seq);

-- Requests for permission: pending, sent (a user decided, the host has not confirmed it yet), decided.
CREATE TABLE approvals (
    run_id TEXT NOT NULL,
    request_id TEXT NOT NULL,
    host_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    status TEXT NOT NULL,
    is_typed INTEGER NOT NULL,
    requested_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    decision TEXT,
    decided_by TEXT,
    reason TEXT,
    decided_ms INTEGER,
    command TEXT,
    PRIMARY KEY (run_id, request_id)
) STRICT;
CREATE INDEX approvals_by_status ON approvals (status, host_id);

-- The audit: each row contains the hash of the one before it.
CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    ts TEXT NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    detail TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT;
CREATE TABLE audit_head (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL
) STRICT;
INSERT INTO audit_head (id, hash) VALUES (1, '');
