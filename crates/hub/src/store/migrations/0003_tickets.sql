-- Tickets of executors that are not redeemed yet: any node can redeem one.
CREATE TABLE tickets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB NOT NULL UNIQUE,
    executor TEXT NOT NULL,
    token INTEGER NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    ends_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX tickets_by_executor ON tickets (executor);
CREATE INDEX tickets_by_token ON tickets (token);
CREATE INDEX tickets_by_end ON tickets (ends_ms);

-- A connecting app reads the runs that wait, which are few.
CREATE INDEX runs_waiting ON runs (active_ms) WHERE pending_seq IS NOT NULL;
