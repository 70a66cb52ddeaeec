-- What dreaming would change and somebody else is to decide, and how far a pass has compared.

CREATE TABLE proposals (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  -- The pass that made it.
  dream INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'accepted', 'edited', 'rejected', 'applied')),
  what TEXT NOT NULL CHECK (what IN ('remember', 'merge', 'supersede', 'archive', 'overflow')),
  why TEXT NOT NULL,
  confidence REAL NOT NULL,
  -- The text there would be; empty where nothing new is written.
  content TEXT NOT NULL,
  -- What else applying needs, as JSON: the kind of a new memory, the day it was said, which one wins.
  data TEXT NOT NULL,
  -- Of what it would do and of what it rests on: the same is never proposed twice.
  hash TEXT NOT NULL,
  -- The memory that applying made, or that stands for the others now.
  result INTEGER,
  -- The pass that applied it, when a pass did.
  applied_in INTEGER,
  created_at TEXT NOT NULL,
  decided_at TEXT,
  UNIQUE (workspace, hash)
) STRICT;
CREATE INDEX proposals_by_state ON proposals (workspace, state, id);

-- What a proposal rests on and what it would change; the latter with the version it was made for.
CREATE TABLE proposal_parts (
  workspace TEXT NOT NULL,
  proposal INTEGER NOT NULL REFERENCES proposals (id) ON DELETE CASCADE,
  part TEXT NOT NULL CHECK (part IN ('source', 'target')),
  kind TEXT NOT NULL CHECK (kind IN ('exchange', 'memory', 'block')),
  ref INTEGER NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (proposal, part, kind, ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX proposal_parts_back ON proposal_parts (workspace, kind, ref);

-- Everything up to this change was compared, when the pass got that far.
ALTER TABLE dreams ADD COLUMN compared INTEGER;
-- How many alarms the pass ended with, so that a situation report need not read the report.
ALTER TABLE dreams ADD COLUMN alarms INTEGER NOT NULL DEFAULT 0;

-- The same text under any kind.
CREATE INDEX memories_by_text ON memories (workspace, hash) WHERE status = 'active';
