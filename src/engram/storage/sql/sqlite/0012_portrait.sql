-- works with: 7
-- Any JSON beside the text of a block, such as a companion's own state. A program of an earlier release does not write it: the
-- block keeps the data that it has.
ALTER TABLE blocks ADD COLUMN data TEXT;
ALTER TABLE block_versions ADD COLUMN data TEXT;

-- A proposal may also be a text for a block that is a person's or a companion's. SQLite cannot change a check, so the rows are
-- copied, with the parts that refer to them, and the numbers go on where they were.
CREATE TABLE proposals_new (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  dream INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('pending', 'accepted', 'edited', 'rejected', 'applied')),
  what TEXT NOT NULL CHECK (what IN ('remember', 'merge', 'supersede', 'archive', 'overflow', 'rewrite')),
  why TEXT NOT NULL,
  confidence REAL NOT NULL,
  content TEXT NOT NULL,
  data TEXT NOT NULL,
  hash TEXT NOT NULL,
  result INTEGER,
  applied_in INTEGER,
  created_at TEXT NOT NULL,
  decided_at TEXT,
  UNIQUE (workspace, hash)
) STRICT;
INSERT INTO proposals_new (id, workspace, dream, state, what, why, confidence, content, data, hash, result, applied_in,
                           created_at, decided_at)
SELECT id, workspace, dream, state, what, why, confidence, content, data, hash, result, applied_in, created_at, decided_at
FROM proposals;
CREATE TABLE proposal_parts_new (
  workspace TEXT NOT NULL,
  proposal INTEGER NOT NULL REFERENCES proposals_new (id) ON DELETE CASCADE,
  part TEXT NOT NULL CHECK (part IN ('source', 'target')),
  kind TEXT NOT NULL CHECK (kind IN ('exchange', 'memory', 'block')),
  ref INTEGER NOT NULL,
  version INTEGER NOT NULL,
  PRIMARY KEY (proposal, part, kind, ref)
) STRICT, WITHOUT ROWID;
INSERT INTO proposal_parts_new (workspace, proposal, part, kind, ref, version)
SELECT workspace, proposal, part, kind, ref, version FROM proposal_parts;
DELETE FROM sqlite_sequence WHERE name = 'proposals_new';
INSERT INTO sqlite_sequence (name, seq) SELECT 'proposals_new', seq FROM sqlite_sequence WHERE name = 'proposals';
DROP TABLE proposal_parts;
DROP TABLE proposals;
ALTER TABLE proposals_new RENAME TO proposals;
ALTER TABLE proposal_parts_new RENAME TO proposal_parts;
CREATE INDEX proposals_by_state ON proposals (workspace, state, id);
CREATE INDEX proposal_parts_back ON proposal_parts (workspace, kind, ref);
