-- Read-only links to one run. Times are seconds since 1970.
CREATE TABLE shares (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL UNIQUE,
    run_id TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created INTEGER NOT NULL,
    ends INTEGER NOT NULL
) STRICT;
CREATE INDEX shares_by_run ON shares (run_id);

-- The key with which the hub identifies itself to push services.
CREATE TABLE push_key (
    id INTEGER PRIMARY KEY,
    private BLOB NOT NULL
) STRICT;

-- Browsers that receive notices, by the address that their push service gave them.
CREATE TABLE push_subscriptions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    endpoint TEXT NOT NULL UNIQUE,
    p256dh BLOB NOT NULL,
    auth BLOB NOT NULL,
    waits INTEGER NOT NULL,
    ends INTEGER NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX push_subscriptions_by_user ON push_subscriptions (user_id);

-- Servers that receive notices; the URL may contain a secret.
CREATE TABLE webhooks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    form TEXT NOT NULL,
    url TEXT NOT NULL,
    chat_id TEXT,
    token TEXT,
    waits INTEGER NOT NULL,
    ends INTEGER NOT NULL,
    created INTEGER NOT NULL
) STRICT;
