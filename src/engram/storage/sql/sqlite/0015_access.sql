-- works with: 7
-- hooks work without it
-- Who may use a server: access tokens, logins of browsers, OAuth clients, limits, and the answers to repeated requests. These
-- tables are about the store, not about one workspace. Of a secret only its SHA-256 hash is stored.

CREATE TABLE access_tokens (
  -- The part of the secret that is not secret.
  id TEXT NOT NULL PRIMARY KEY,
  hash TEXT NOT NULL,
  name TEXT NOT NULL,
  scope TEXT NOT NULL,
  -- NULL: every workspace.
  workspace TEXT,
  -- An OAuth client's token: the client, the consent that it comes from, and the server that it is for.
  client_id TEXT,
  family TEXT,
  audience TEXT,
  created_at TEXT NOT NULL,
  expires_at TEXT,
  last_used_at TEXT,
  revoked_at TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX access_tokens_by_name ON access_tokens (name);
CREATE INDEX access_tokens_by_client ON access_tokens (client_id, expires_at) WHERE client_id IS NOT NULL;
CREATE INDEX access_tokens_by_family ON access_tokens (family) WHERE family IS NOT NULL;

-- A link that logs a browser in, once. It gives what its maker may do.
CREATE TABLE access_links (
  id TEXT NOT NULL PRIMARY KEY,
  hash TEXT NOT NULL,
  -- NULL: the user of this machine made it.
  token_id TEXT,
  name TEXT NOT NULL,
  scope TEXT NOT NULL,
  workspace TEXT,
  expires_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE access_logins (
  id TEXT NOT NULL PRIMARY KEY,
  hash TEXT NOT NULL,
  token_id TEXT,
  name TEXT NOT NULL,
  scope TEXT NOT NULL,
  workspace TEXT,
  created_at TEXT NOT NULL,
  expires_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE access_attempts (
  -- A digest of what is limited, such as an address.
  bucket TEXT NOT NULL PRIMARY KEY,
  count INTEGER NOT NULL,
  ends_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX access_attempts_by_end ON access_attempts (ends_at);

CREATE TABLE access_answers (
  workspace TEXT NOT NULL,
  -- Whose key it is: a token's id, or the user of this machine.
  grant_id TEXT NOT NULL,
  key TEXT NOT NULL,
  -- A digest of the request.
  digest TEXT NOT NULL,
  -- running, done, forgotten, or withheld because the answer has a secret. Of the last two, digest and answer are blank.
  state TEXT NOT NULL,
  answer TEXT NOT NULL,
  -- The workspace's newest receipt of forgetting when the request began.
  receipt INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  PRIMARY KEY (workspace, grant_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX access_answers_by_age ON access_answers (created_at);
-- A program of an earlier release forgets without knowing this table.
CREATE TRIGGER receipts_forget_answers AFTER INSERT ON receipts
BEGIN
  UPDATE access_answers SET digest = '', answer = '', state = 'forgotten'
  WHERE state = 'done' AND workspace = NEW.workspace;
END;

-- OAuth clients.
CREATE TABLE access_clients (
  id TEXT NOT NULL PRIMARY KEY,
  name TEXT NOT NULL,
  -- What the client said about itself, as JSON, without its secret.
  metadata TEXT NOT NULL,
  -- NULL: a public client.
  hash TEXT,
  created_at TEXT NOT NULL,
  -- When it got its latest token; NULL before the first.
  used_at TEXT
) STRICT, WITHOUT ROWID;

-- Requests of clients that wait for a person's consent.
CREATE TABLE access_requests (
  id TEXT NOT NULL PRIMARY KEY,
  hash TEXT NOT NULL,
  client_id TEXT NOT NULL,
  -- The parameters of the request, as JSON.
  asked TEXT NOT NULL,
  expires_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX access_requests_by_client ON access_requests (client_id);

-- A consent: a person lets a client in. What the client gets because of it carries the consent's id.
CREATE TABLE access_consents (
  id TEXT NOT NULL PRIMARY KEY,
  client_id TEXT NOT NULL,
  name TEXT NOT NULL,
  scope TEXT NOT NULL,
  workspace TEXT,
  given_by TEXT,
  audience TEXT,
  created_at TEXT NOT NULL,
  -- Not later than the token of the person who consented; NULL if that never expires.
  expires_at TEXT,
  ended_at TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX access_consents_by_client ON access_consents (client_id);
CREATE INDEX access_consents_by_giver ON access_consents (given_by) WHERE given_by IS NOT NULL;

-- Authorization codes and refresh tokens. Each works once. The row stays until it expires, so that a second use is noticed.
CREATE TABLE access_codes (
  id TEXT NOT NULL PRIMARY KEY,
  hash TEXT NOT NULL,
  -- code or refresh.
  kind TEXT NOT NULL,
  family TEXT NOT NULL,
  client_id TEXT NOT NULL,
  scope TEXT NOT NULL,
  -- The parameters of the request that a code answers, as JSON.
  asked TEXT,
  expires_at TEXT NOT NULL,
  used_at TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX access_codes_by_family ON access_codes (family);
CREATE INDEX access_codes_by_client ON access_codes (client_id);
CREATE INDEX access_codes_by_end ON access_codes (expires_at);
