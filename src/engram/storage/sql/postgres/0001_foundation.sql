-- Sessions, exchanges (only logs so far), leases, messages, blocks and the change feed.
-- Times are UTC text of fixed width; every natural key starts with the workspace; what a caller names by number is
-- an identity column, so that no number is ever used twice. COLLATE "C" orders text as SQLite does, whatever the
-- database's own locale.

CREATE TABLE migrations (
  number BIGINT PRIMARY KEY,
  name TEXT COLLATE "C" NOT NULL,
  hash TEXT COLLATE "C" NOT NULL,
  works_with BIGINT NOT NULL,
  applied_at TEXT COLLATE "C" NOT NULL
);

CREATE TABLE changes (
  number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  what TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL
);
CREATE INDEX changes_by_workspace ON changes (workspace, number);

CREATE TABLE sessions (
  workspace TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  type TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C",
  summary TEXT COLLATE "C" NOT NULL,
  status TEXT COLLATE "C" NOT NULL CHECK (status IN ('active', 'idle', 'completed', 'abandoned')),
  project TEXT COLLATE "C",
  external_id TEXT COLLATE "C",
  parent_id TEXT COLLATE "C",
  metadata TEXT COLLATE "C" NOT NULL,
  last_seq BIGINT NOT NULL,
  created_at TEXT COLLATE "C" NOT NULL,
  heartbeat_at TEXT COLLATE "C" NOT NULL,
  ended_at TEXT COLLATE "C",
  PRIMARY KEY (workspace, id),
  FOREIGN KEY (workspace, parent_id) REFERENCES sessions (workspace, id)
);
CREATE INDEX sessions_by_status ON sessions (workspace, status, heartbeat_at);
CREATE UNIQUE INDEX sessions_by_external_id ON sessions (workspace, external_id, type) WHERE external_id IS NOT NULL;

-- No foreign key to sessions: neither index below could answer it, so removing a session would read all exchanges. Whoever
-- adds one updates the session's row first, and whoever removes a session removes these before it.
CREATE TABLE exchanges (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  seq BIGINT NOT NULL,
  role TEXT COLLATE "C" NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool', 'log')),
  content TEXT COLLATE "C" NOT NULL,
  created_at TEXT COLLATE "C" NOT NULL
);
-- Each row is in exactly one of the two, so that neither turns nor logs pay for the other's number.
CREATE UNIQUE INDEX exchanges_turns ON exchanges (workspace, session_id, seq) WHERE role <> 'log';
CREATE UNIQUE INDEX exchanges_logs ON exchanges (workspace, session_id, seq) WHERE role = 'log';

CREATE TABLE leases (
  token BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  resource TEXT COLLATE "C" NOT NULL,
  note TEXT COLLATE "C",
  exclusive BIGINT NOT NULL CHECK (exclusive IN (0, 1)),
  ttl DOUBLE PRECISION,
  claimed_at TEXT COLLATE "C" NOT NULL,
  expires_at TEXT COLLATE "C",
  fenced_at TEXT COLLATE "C",
  ended_at TEXT COLLATE "C",
  ended_because TEXT COLLATE "C" CHECK (ended_because IN ('released', 'completed', 'abandoned', 'expired', 'broken')),
  FOREIGN KEY (workspace, session_id) REFERENCES sessions (workspace, id)
);
CREATE UNIQUE INDEX leases_live ON leases (workspace, session_id, resource) WHERE ended_at IS NULL;

CREATE TABLE lease_waiters (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  resource TEXT COLLATE "C" NOT NULL,
  alive_until TEXT COLLATE "C" NOT NULL,
  FOREIGN KEY (workspace, session_id) REFERENCES sessions (workspace, id)
);
CREATE INDEX lease_waiters_by_workspace ON lease_waiters (workspace, id);

CREATE TABLE messages (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  from_session TEXT COLLATE "C",
  target TEXT COLLATE "C" NOT NULL,
  content TEXT COLLATE "C" NOT NULL,
  created_at TEXT COLLATE "C" NOT NULL,
  FOREIGN KEY (workspace, from_session) REFERENCES sessions (workspace, id)
);

CREATE TABLE deliveries (
  message_id BIGINT NOT NULL REFERENCES messages (id),
  workspace TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  read_at TEXT COLLATE "C",
  PRIMARY KEY (message_id, session_id),
  FOREIGN KEY (workspace, session_id) REFERENCES sessions (workspace, id)
);
CREATE INDEX deliveries_unread ON deliveries (workspace, session_id, message_id) WHERE read_at IS NULL;

CREATE TABLE blocks (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  content TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  max_tokens BIGINT NOT NULL,
  updated_by TEXT COLLATE "C",
  created_at TEXT COLLATE "C" NOT NULL,
  updated_at TEXT COLLATE "C" NOT NULL,
  UNIQUE (workspace, name)
);

-- One row per state a block ever had, the first included.
CREATE TABLE block_versions (
  block_id BIGINT NOT NULL REFERENCES blocks (id) ON DELETE CASCADE,
  version BIGINT NOT NULL,
  content TEXT COLLATE "C" NOT NULL,
  reason TEXT COLLATE "C" NOT NULL,
  actor TEXT COLLATE "C",
  created_at TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (block_id, version)
);
