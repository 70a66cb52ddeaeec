-- works with: 7
-- hooks work without it
-- Who may use a server: access tokens, logins of browsers, OAuth clients, limits, and the answers to repeated requests. These
-- tables are about the store, not about one workspace. Of a secret only its SHA-256 hash is stored.

CREATE TABLE access_tokens (
  -- The part of the secret that is not secret.
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  hash TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  scope TEXT COLLATE "C" NOT NULL,
  -- NULL: every workspace.
  workspace TEXT COLLATE "C",
  -- An OAuth client's token: the client, the consent that it comes from, and the server that it is for.
  client_id TEXT COLLATE "C",
  family TEXT COLLATE "C",
  audience TEXT COLLATE "C",
  created_at TEXT COLLATE "C" NOT NULL,
  expires_at TEXT COLLATE "C",
  last_used_at TEXT COLLATE "C",
  revoked_at TEXT COLLATE "C"
);
CREATE INDEX access_tokens_by_name ON access_tokens (name);
CREATE INDEX access_tokens_by_client ON access_tokens (client_id, expires_at) WHERE client_id IS NOT NULL;
CREATE INDEX access_tokens_by_family ON access_tokens (family) WHERE family IS NOT NULL;

-- A link that logs a browser in, once. It gives what its maker may do.
CREATE TABLE access_links (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  hash TEXT COLLATE "C" NOT NULL,
  -- NULL: the user of this machine made it.
  token_id TEXT COLLATE "C",
  name TEXT COLLATE "C" NOT NULL,
  scope TEXT COLLATE "C" NOT NULL,
  workspace TEXT COLLATE "C",
  expires_at TEXT COLLATE "C" NOT NULL
);

CREATE TABLE access_logins (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  hash TEXT COLLATE "C" NOT NULL,
  token_id TEXT COLLATE "C",
  name TEXT COLLATE "C" NOT NULL,
  scope TEXT COLLATE "C" NOT NULL,
  workspace TEXT COLLATE "C",
  created_at TEXT COLLATE "C" NOT NULL,
  expires_at TEXT COLLATE "C" NOT NULL
);

CREATE TABLE access_attempts (
  -- A digest of what is limited, such as an address.
  bucket TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  count BIGINT NOT NULL,
  ends_at TEXT COLLATE "C" NOT NULL
);
CREATE INDEX access_attempts_by_end ON access_attempts (ends_at);

CREATE TABLE access_answers (
  workspace TEXT COLLATE "C" NOT NULL,
  -- Whose key it is: a token's id, or the user of this machine.
  grant_id TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  -- A digest of the request.
  digest TEXT COLLATE "C" NOT NULL,
  -- running, done, forgotten, or withheld because the answer has a secret. Of the last two, digest and answer are blank.
  state TEXT COLLATE "C" NOT NULL,
  answer TEXT COLLATE "C" NOT NULL,
  -- The workspace's newest receipt of forgetting when the request began.
  receipt BIGINT NOT NULL,
  created_at TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (workspace, grant_id, key)
);
CREATE INDEX access_answers_by_age ON access_answers (created_at);
-- A program of an earlier release forgets without knowing this table.
CREATE FUNCTION forget_answers() RETURNS TRIGGER
LANGUAGE plpgsql SET search_path FROM CURRENT AS '
BEGIN
  UPDATE access_answers SET digest = '''', answer = '''', state = ''forgotten''
  WHERE state = ''done'' AND workspace = NEW.workspace;
  RETURN NULL;
END';
CREATE TRIGGER receipts_forget_answers AFTER INSERT ON receipts FOR EACH ROW EXECUTE FUNCTION forget_answers();

-- OAuth clients.
CREATE TABLE access_clients (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  name TEXT COLLATE "C" NOT NULL,
  -- What the client said about itself, as JSON, without its secret.
  metadata TEXT COLLATE "C" NOT NULL,
  -- NULL: a public client.
  hash TEXT COLLATE "C",
  created_at TEXT COLLATE "C" NOT NULL,
  -- When it got its latest token; NULL before the first.
  used_at TEXT COLLATE "C"
);

-- Requests of clients that wait for a person's consent.
CREATE TABLE access_requests (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  hash TEXT COLLATE "C" NOT NULL,
  client_id TEXT COLLATE "C" NOT NULL,
  -- The parameters of the request, as JSON.
  asked TEXT COLLATE "C" NOT NULL,
  expires_at TEXT COLLATE "C" NOT NULL
);
CREATE INDEX access_requests_by_client ON access_requests (client_id);

-- A consent: a person lets a client in. What the client gets because of it carries the consent's id.
CREATE TABLE access_consents (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  client_id TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  scope TEXT COLLATE "C" NOT NULL,
  workspace TEXT COLLATE "C",
  given_by TEXT COLLATE "C",
  audience TEXT COLLATE "C",
  created_at TEXT COLLATE "C" NOT NULL,
  -- Not later than the token of the person who consented; NULL if that never expires.
  expires_at TEXT COLLATE "C",
  ended_at TEXT COLLATE "C"
);
CREATE INDEX access_consents_by_client ON access_consents (client_id);
CREATE INDEX access_consents_by_giver ON access_consents (given_by) WHERE given_by IS NOT NULL;

-- Authorization codes and refresh tokens. Each works once. The row stays until it expires, so that a second use is noticed.
CREATE TABLE access_codes (
  id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  hash TEXT COLLATE "C" NOT NULL,
  -- code or refresh.
  kind TEXT COLLATE "C" NOT NULL,
  family TEXT COLLATE "C" NOT NULL,
  client_id TEXT COLLATE "C" NOT NULL,
  scope TEXT COLLATE "C" NOT NULL,
  -- The parameters of the request that a code answers, as JSON.
  asked TEXT COLLATE "C",
  expires_at TEXT COLLATE "C" NOT NULL,
  used_at TEXT COLLATE "C"
);
CREATE INDEX access_codes_by_family ON access_codes (family);
CREATE INDEX access_codes_by_client ON access_codes (client_id);
CREATE INDEX access_codes_by_end ON access_codes (expires_at);
