-- Turns and memories, and what finds them: words (terms, postings), vectors, and the queue of what is still to be indexed.

ALTER TABLE sessions ADD COLUMN turns BIGINT NOT NULL DEFAULT 0;

ALTER TABLE exchanges ADD COLUMN trust TEXT COLLATE "C" NOT NULL DEFAULT 'agent'
  CHECK (trust IN ('user', 'agent', 'tool', 'import'));
-- The place among the turns of the session; logs have none. Neighbours of a turn are the numbers beside it.
ALTER TABLE exchanges ADD COLUMN turn BIGINT;

CREATE INDEX exchanges_by_time ON exchanges (workspace, created_at) WHERE role <> 'log';

CREATE TABLE memories (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C",
  content TEXT COLLATE "C" NOT NULL,
  -- Of the normalised content: the same thing said again is found by it.
  hash TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  importance DOUBLE PRECISION NOT NULL,
  pinned BIGINT NOT NULL CHECK (pinned IN (0, 1)),
  trust TEXT COLLATE "C" NOT NULL CHECK (trust IN ('user', 'agent', 'tool', 'import')),
  status TEXT COLLATE "C" NOT NULL CHECK (status IN ('active', 'superseded', 'archived')),
  superseded_by BIGINT REFERENCES memories (id),
  session_id TEXT COLLATE "C",
  project TEXT COLLATE "C",
  data TEXT COLLATE "C",
  reinforced BIGINT NOT NULL,
  recalled BIGINT NOT NULL,
  recalled_at TEXT COLLATE "C",
  expires_at TEXT COLLATE "C",
  created_at TEXT COLLATE "C" NOT NULL,
  updated_at TEXT COLLATE "C" NOT NULL,
  FOREIGN KEY (workspace, session_id) REFERENCES sessions (workspace, id)
);
CREATE INDEX memories_by_hash ON memories (workspace, kind, hash, status) WHERE status = 'active';
CREATE UNIQUE INDEX memories_by_key ON memories (workspace, kind, key) WHERE status = 'active' AND key IS NOT NULL;
CREATE INDEX memories_by_status ON memories (workspace, status, kind, id);
CREATE INDEX memories_to_expire ON memories (workspace, expires_at) WHERE status = 'active' AND expires_at IS NOT NULL;

CREATE TABLE memory_versions (
  memory_id BIGINT NOT NULL REFERENCES memories (id),
  version BIGINT NOT NULL,
  content TEXT COLLATE "C" NOT NULL,
  reason TEXT COLLATE "C" NOT NULL,
  actor TEXT COLLATE "C",
  created_at TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (memory_id, version)
);

CREATE TABLE memory_tags (
  workspace TEXT COLLATE "C" NOT NULL,
  tag TEXT COLLATE "C" NOT NULL,
  memory_id BIGINT NOT NULL REFERENCES memories (id),
  PRIMARY KEY (memory_id, tag)
);
CREATE INDEX memory_tags_by_tag ON memory_tags (workspace, tag, memory_id);

CREATE TABLE memory_links (
  workspace TEXT COLLATE "C" NOT NULL,
  from_id BIGINT NOT NULL REFERENCES memories (id),
  to_id BIGINT NOT NULL REFERENCES memories (id),
  relation TEXT COLLATE "C" NOT NULL,
  created_at TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (from_id, to_id, relation)
);
CREATE INDEX memory_links_back ON memory_links (to_id);

-- Where every derived thing came from: what makes forgetting, undo and trust possible.
CREATE TABLE sources (
  workspace TEXT COLLATE "C" NOT NULL,
  derived_kind TEXT COLLATE "C" NOT NULL,
  derived_id BIGINT NOT NULL,
  derived_version BIGINT NOT NULL,
  source_kind TEXT COLLATE "C" NOT NULL,
  source_id BIGINT NOT NULL,
  PRIMARY KEY (workspace, derived_kind, derived_id, derived_version, source_kind, source_id)
);
CREATE INDEX sources_back ON sources (workspace, source_kind, source_id);

-- One thing that can be found: a turn, a log entry, a memory, or a piece of a long one. What recall filters by is
-- repeated here, so that a filter needs no other table.
CREATE TABLE items (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  -- What is looked for together: turns, logs, memories, gists, eras, digests, archive.
  shelf TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('exchange', 'memory')),
  ref BIGINT NOT NULL,
  piece BIGINT NOT NULL,
  -- The exchange's role or the memory's kind.
  label TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C",
  project TEXT COLLATE "C",
  turn BIGINT,
  at TEXT COLLATE "C" NOT NULL,
  length BIGINT NOT NULL,
  -- The numbers of its terms, packed, so that its postings can be removed without reading its text.
  terms BYTEA NOT NULL,
  UNIQUE (kind, ref, piece)
);
CREATE INDEX items_turns ON items (workspace, session_id, turn) WHERE turn IS NOT NULL;

CREATE TABLE terms (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  shelf TEXT COLLATE "C" NOT NULL,
  term TEXT COLLATE "C" NOT NULL,
  UNIQUE (workspace, shelf, term)
);

CREATE TABLE postings (
  term BIGINT NOT NULL,
  item BIGINT NOT NULL,
  tf BIGINT NOT NULL,
  length BIGINT NOT NULL,
  PRIMARY KEY (term, item)
);

-- How many items a shelf has and how long they are together, for BM25. The generation changes when terms were removed,
-- so that no process uses the number of one that is gone.
CREATE TABLE shelves (
  workspace TEXT COLLATE "C" NOT NULL,
  shelf TEXT COLLATE "C" NOT NULL,
  items BIGINT NOT NULL,
  length BIGINT NOT NULL,
  generation BIGINT NOT NULL,
  PRIMARY KEY (workspace, shelf)
);

CREATE TABLE backlog (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  ref BIGINT NOT NULL,
  -- A worker that died loses what it took after this.
  taken_until TEXT COLLATE "C" NOT NULL,
  UNIQUE (kind, ref)
);
CREATE INDEX backlog_by_workspace ON backlog (workspace, id);

-- Eight bits a dimension; a model's vectors are never compared with another's.
CREATE TABLE vectors (
  item BIGINT NOT NULL REFERENCES items (id) ON DELETE CASCADE,
  model TEXT COLLATE "C" NOT NULL,
  vector BYTEA NOT NULL,
  PRIMARY KEY (item, model)
);

-- The model whose vectors a workspace is searched with, and the one that is to take its place: while vectors of that
-- one are being made, the old ones go on serving.
CREATE TABLE models (
  workspace TEXT COLLATE "C" PRIMARY KEY,
  model TEXT COLLATE "C" NOT NULL,
  next TEXT COLLATE "C"
);
