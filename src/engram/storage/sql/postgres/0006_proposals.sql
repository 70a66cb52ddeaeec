-- What dreaming would change and somebody else is to decide, and how far a pass has compared.

CREATE TABLE proposals (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  -- The pass that made it.
  dream BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'accepted', 'edited', 'rejected', 'applied')),
  what TEXT COLLATE "C" NOT NULL CHECK (what IN ('remember', 'merge', 'supersede', 'archive', 'overflow')),
  why TEXT COLLATE "C" NOT NULL,
  confidence DOUBLE PRECISION NOT NULL,
  -- The text there would be; empty where nothing new is written.
  content TEXT COLLATE "C" NOT NULL,
  -- What else applying needs, as JSON: the kind of a new memory, the day it was said, which one wins.
  data TEXT COLLATE "C" NOT NULL,
  -- Of what it would do and of what it rests on: the same is never proposed twice.
  hash TEXT COLLATE "C" NOT NULL,
  -- The memory that applying made, or that stands for the others now.
  result BIGINT,
  -- The pass that applied it, when a pass did.
  applied_in BIGINT,
  created_at TEXT COLLATE "C" NOT NULL,
  decided_at TEXT COLLATE "C",
  UNIQUE (workspace, hash)
);
CREATE INDEX proposals_by_state ON proposals (workspace, state, id);

-- What a proposal rests on and what it would change; the latter with the version it was made for.
CREATE TABLE proposal_parts (
  workspace TEXT COLLATE "C" NOT NULL,
  proposal BIGINT NOT NULL REFERENCES proposals (id) ON DELETE CASCADE,
  part TEXT COLLATE "C" NOT NULL CHECK (part IN ('source', 'target')),
  kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('exchange', 'memory', 'block')),
  ref BIGINT NOT NULL,
  version BIGINT NOT NULL,
  PRIMARY KEY (proposal, part, kind, ref)
);
CREATE INDEX proposal_parts_back ON proposal_parts (workspace, kind, ref);

-- Everything up to this change was compared, when the pass got that far.
ALTER TABLE dreams ADD COLUMN compared BIGINT;
-- How many alarms the pass ended with, so that a situation report need not read the report.
ALTER TABLE dreams ADD COLUMN alarms BIGINT NOT NULL DEFAULT 0;

-- The same text under any kind.
CREATE INDEX memories_by_text ON memories (workspace, hash) WHERE status = 'active';
