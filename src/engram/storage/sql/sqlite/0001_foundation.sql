-- Sessions, exchanges (only logs so far), leases, messages, blocks and the change feed.
-- Times are UTC text of fixed width; every natural key starts with the workspace; what a caller names by number is
-- AUTOINCREMENT, so that no number is ever used twice.

PRAGMA application_id = 0x456E6772;

CREATE TABLE migrations (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  hash TEXT NOT NULL,
  works_with INTEGER NOT NULL,
  applied_at TEXT NOT NULL
) STRICT;

CREATE TABLE changes (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  what TEXT NOT NULL,
  id TEXT NOT NULL
) STRICT;
CREATE INDEX changes_by_workspace ON changes (workspace, number);

CREATE TABLE sessions (
  workspace TEXT NOT NULL,
  id TEXT NOT NULL,
  type TEXT NOT NULL,
  name TEXT,
  summary TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('active', 'idle', 'completed', 'abandoned')),
  project TEXT,
  external_id TEXT,
  parent_id TEXT,
  metadata TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  heartbeat_at TEXT NOT NULL,
  ended_at TEXT,
  PRIMARY KEY (workspace, id),
  FOREIGN KEY (workspace, parent_id) REFERENCES sessions (workspace, id)
) STRICT;
CREATE INDEX sessions_by_status ON sessions (workspace, status, heartbeat_at);
CREATE UNIQUE INDEX sessions_by_external_id ON sessions (workspace, external_id, type) WHERE external_id IS NOT NULL;

-- No foreign key to sessions: neither index below could answer it, so removing a session would read all exchanges. Whoever
-- adds one updates the session's row first, and whoever removes a session removes these before it.
CREATE TABLE exchanges (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  session_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool', 'log')),
  content TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
-- Each row is in exactly one of the two, so that neither turns nor logs pay for the other's number.
CREATE UNIQUE INDEX exchanges_turns ON exchanges (workspace, session_id, seq) WHERE role <> 'log';
CREATE UNIQUE INDEX exchanges_logs ON exchanges (workspace, session_id, seq) WHERE role = 'log';

CREATE TABLE leases (
  token INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  session_id TEXT NOT NULL,
  resource TEXT NOT NULL,
  note TEXT,
  exclusive INTEGER NOT NULL CHECK (exclusive IN (0, 1)),
  ttl REAL,
  claimed_at TEXT NOT NULL,
  expires_at TEXT,
  fenced_at TEXT,
  ended_at TEXT,
  ended_because TEXT CHECK (ended_because IN ('released', 'completed', 'abandoned', 'expired', 'broken')),
  FOREIGN KEY (workspace, session_id) REFERENCES sessions (workspace, id)
) STRICT;
CREATE UNIQUE INDEX leases_live ON leases (workspace, session_id, resource) WHERE ended_at IS NULL;

CREATE TABLE lease_waiters (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  session_id TEXT NOT NULL,
  resource TEXT NOT NULL,
  alive_until TEXT NOT NULL,
  FOREIGN KEY (workspace, session_id) REFERENCES sessions (workspace, id)
) STRICT;
CREATE INDEX lease_waiters_by_workspace ON lease_waiters (workspace, id);

CREATE TABLE messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  from_session TEXT,
  target TEXT NOT NULL,
  content TEXT NOT NULL,
  created_at TEXT NOT NULL,
  FOREIGN KEY (workspace, from_session) REFERENCES sessions (workspace, id)
) STRICT;

CREATE TABLE deliveries (
  message_id INTEGER NOT NULL REFERENCES messages (id),
  workspace TEXT NOT NULL,
  session_id TEXT NOT NULL,
  read_at TEXT,
  PRIMARY KEY (message_id, session_id),
  FOREIGN KEY (workspace, session_id) REFERENCES sessions (workspace, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_unread ON deliveries (workspace, session_id, message_id) WHERE read_at IS NULL;

CREATE TABLE blocks (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  name TEXT NOT NULL,
  content TEXT NOT NULL,
  version INTEGER NOT NULL,
  max_tokens INTEGER NOT NULL,
  updated_by TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  UNIQUE (workspace, name)
) STRICT;

-- One row per state a block ever had, the first included.
CREATE TABLE block_versions (
  block_id INTEGER NOT NULL REFERENCES blocks (id) ON DELETE CASCADE,
  version INTEGER NOT NULL,
  content TEXT NOT NULL,
  reason TEXT NOT NULL,
  actor TEXT,
  created_at TEXT NOT NULL,
  PRIMARY KEY (block_id, version)
) STRICT;
