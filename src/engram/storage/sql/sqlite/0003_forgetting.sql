-- What was forgotten and when, without a word of it; what has to be made anew because one of its sources is gone.

CREATE TABLE receipts (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  asked TEXT NOT NULL,
  -- Counts and ids by kind, as JSON.
  went TEXT NOT NULL,
  created_at TEXT NOT NULL
) STRICT;
CREATE INDEX receipts_by_workspace ON receipts (workspace, id);

CREATE TABLE rebuilds (
  workspace TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('memory', 'block')),
  ref INTEGER NOT NULL,
  receipt INTEGER NOT NULL REFERENCES receipts (id),
  PRIMARY KEY (workspace, kind, ref)
) STRICT, WITHOUT ROWID;

-- A version whose text was forgotten is blank and names its receipt.
ALTER TABLE block_versions ADD COLUMN receipt INTEGER;
ALTER TABLE memory_versions ADD COLUMN receipt INTEGER;

-- `turns` numbers them and never goes back; this many of them are gone.
ALTER TABLE sessions ADD COLUMN turns_gone INTEGER NOT NULL DEFAULT 0;
CREATE INDEX memories_by_session ON memories (workspace, session_id) WHERE session_id IS NOT NULL;
CREATE INDEX memories_superseded ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX messages_by_sender ON messages (workspace, from_session);
CREATE INDEX leases_by_session ON leases (workspace, session_id);
CREATE INDEX deliveries_by_session ON deliveries (workspace, session_id);
CREATE INDEX sessions_by_parent ON sessions (workspace, parent_id) WHERE parent_id IS NOT NULL;
