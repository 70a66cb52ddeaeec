-- Turns and memories, and what finds them: words (terms, postings), vectors, and the queue of what is still to be indexed.

ALTER TABLE sessions ADD COLUMN turns INTEGER NOT NULL DEFAULT 0;

ALTER TABLE exchanges ADD COLUMN trust TEXT NOT NULL DEFAULT 'agent'
  CHECK (trust IN ('user', 'agent', 'tool', 'import'));
-- The place among the turns of the session; logs have none. Neighbours of a turn are the numbers beside it.
ALTER TABLE exchanges ADD COLUMN turn INTEGER;

CREATE INDEX exchanges_by_time ON exchanges (workspace, created_at) WHERE role <> 'log';

CREATE TABLE memories (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  kind TEXT NOT NULL,
  key TEXT,
  content TEXT NOT NULL,
  -- Of the normalised content: the same thing said again is found by it.
  hash TEXT NOT NULL,
  version INTEGER NOT NULL,
  importance REAL NOT NULL,
  pinned INTEGER NOT NULL CHECK (pinned IN (0, 1)),
  trust TEXT NOT NULL CHECK (trust IN ('user', 'agent', 'tool', 'import')),
  status TEXT NOT NULL CHECK (status IN ('active', 'superseded', 'archived')),
  superseded_by INTEGER REFERENCES memories (id),
  session_id TEXT,
  project TEXT,
  data TEXT,
  reinforced INTEGER NOT NULL,
  recalled INTEGER NOT NULL,
  recalled_at TEXT,
  expires_at TEXT,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  FOREIGN KEY (workspace, session_id) REFERENCES sessions (workspace, id)
) STRICT;
CREATE INDEX memories_by_hash ON memories (workspace, kind, hash, status) WHERE status = 'active';
CREATE UNIQUE INDEX memories_by_key ON memories (workspace, kind, key) WHERE status = 'active' AND key IS NOT NULL;
CREATE INDEX memories_by_status ON memories (workspace, status, kind, id);
CREATE INDEX memories_to_expire ON memories (workspace, expires_at) WHERE status = 'active' AND expires_at IS NOT NULL;

CREATE TABLE memory_versions (
  memory_id INTEGER NOT NULL REFERENCES memories (id),
  version INTEGER NOT NULL,
  content TEXT NOT NULL,
  reason TEXT NOT NULL,
  actor TEXT,
  created_at TEXT NOT NULL,
  PRIMARY KEY (memory_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory_tags (
  workspace TEXT NOT NULL,
  tag TEXT NOT NULL,
  memory_id INTEGER NOT NULL REFERENCES memories (id),
  PRIMARY KEY (memory_id, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_tags_by_tag ON memory_tags (workspace, tag, memory_id);

CREATE TABLE memory_links (
  workspace TEXT NOT NULL,
  from_id INTEGER NOT NULL REFERENCES memories (id),
  to_id INTEGER NOT NULL REFERENCES memories (id),
  relation TEXT NOT NULL,
  created_at TEXT NOT NULL,
  PRIMARY KEY (from_id, to_id, relation)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_links_back ON memory_links (to_id);

-- Where every derived thing came from: what makes forgetting, undo and trust possible.
CREATE TABLE sources (
  workspace TEXT NOT NULL,
  derived_kind TEXT NOT NULL,
  derived_id INTEGER NOT NULL,
  derived_version INTEGER NOT NULL,
  source_kind TEXT NOT NULL,
  source_id INTEGER NOT NULL,
  PRIMARY KEY (workspace, derived_kind, derived_id, derived_version, source_kind, source_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX sources_back ON sources (workspace, source_kind, source_id);

-- One thing that can be found: a turn, a log entry, a memory, or a piece of a long one. What recall filters by is
-- repeated here, so that a filter needs no other table.
CREATE TABLE items (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  -- What is looked for together: turns, logs, memories, gists, eras, digests, archive.
  shelf TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('exchange', 'memory')),
  ref INTEGER NOT NULL,
  piece INTEGER NOT NULL,
  -- The exchange's role or the memory's kind.
  label TEXT NOT NULL,
  session_id TEXT,
  project TEXT,
  turn INTEGER,
  at TEXT NOT NULL,
  length INTEGER NOT NULL,
  -- The numbers of its terms, packed, so that its postings can be removed without reading its text.
  terms BLOB NOT NULL,
  UNIQUE (kind, ref, piece)
) STRICT;
CREATE INDEX items_turns ON items (workspace, session_id, turn) WHERE turn IS NOT NULL;

CREATE TABLE terms (
  id INTEGER PRIMARY KEY,
  workspace TEXT NOT NULL,
  shelf TEXT NOT NULL,
  term TEXT NOT NULL,
  UNIQUE (workspace, shelf, term)
) STRICT;

CREATE TABLE postings (
  term INTEGER NOT NULL,
  item INTEGER NOT NULL,
  tf INTEGER NOT NULL,
  length INTEGER NOT NULL,
  PRIMARY KEY (term, item)
) STRICT, WITHOUT ROWID;

-- How many items a shelf has and how long they are together, for BM25. The generation changes when terms were removed,
-- so that no process uses the number of one that is gone.
CREATE TABLE shelves (
  workspace TEXT NOT NULL,
  shelf TEXT NOT NULL,
  items INTEGER NOT NULL,
  length INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  PRIMARY KEY (workspace, shelf)
) STRICT, WITHOUT ROWID;

CREATE TABLE backlog (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  kind TEXT NOT NULL,
  ref INTEGER NOT NULL,
  -- A worker that died loses what it took after this.
  taken_until TEXT NOT NULL,
  UNIQUE (kind, ref)
) STRICT;
CREATE INDEX backlog_by_workspace ON backlog (workspace, id);

-- Eight bits a dimension; a model's vectors are never compared with another's.
CREATE TABLE vectors (
  item INTEGER NOT NULL REFERENCES items (id) ON DELETE CASCADE,
  model TEXT NOT NULL,
  vector BLOB NOT NULL,
  PRIMARY KEY (item, model)
) STRICT;

-- The model whose vectors a workspace is searched with, and the one that is to take its place: while vectors of that
-- one are being made, the old ones go on serving.
CREATE TABLE models (
  workspace TEXT PRIMARY KEY,
  model TEXT NOT NULL,
  next TEXT
) STRICT;
