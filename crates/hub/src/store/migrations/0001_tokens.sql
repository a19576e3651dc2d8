-- Tokens: only their hashes are kept. AUTOINCREMENT, so that the number of a removed token never comes back.
CREATE TABLE tokens (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE,
    created INTEGER NOT NULL,
    last_used INTEGER
) STRICT;

-- Executors: each belongs to the token that registered it first, for as long as there is that token.
CREATE TABLE executors (
    id TEXT PRIMARY KEY,
    token INTEGER NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    created INTEGER NOT NULL
) STRICT;

CREATE INDEX executors_by_token ON executors (token);
