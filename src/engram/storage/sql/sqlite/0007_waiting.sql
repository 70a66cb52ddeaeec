-- What waits for a model only, its words being on a shelf, need not be looked at by those who have no model.
ALTER TABLE backlog ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0 CHECK (indexed IN (0, 1));
CREATE INDEX backlog_without_words ON backlog (workspace, id) WHERE indexed = 0;

-- Everything made up to this time was old enough to be compared, when the pass got that far.
ALTER TABLE dreams ADD COLUMN matured TEXT;
CREATE INDEX memories_by_age ON memories (workspace, created_at) WHERE status = 'active';

-- The session first: beginning with the workspace, SQLite took it for the live ones too, and read all that ever were.
DROP INDEX leases_by_session;
CREATE INDEX leases_by_session ON leases (session_id, workspace);

-- A gist also waits until what was said in its session is read for facts. SQLite cannot widen a check in place.
CREATE TABLE wider_folds (
  workspace TEXT NOT NULL,
  target TEXT NOT NULL CHECK (target IN ('era', 'profile', 'narrative', 'extract')),
  gist INTEGER NOT NULL REFERENCES gists (memory_id),
  after INTEGER NOT NULL,
  PRIMARY KEY (workspace, target, gist)
) STRICT, WITHOUT ROWID;
INSERT INTO wider_folds SELECT workspace, target, gist, after FROM folds;
DROP TABLE folds;
ALTER TABLE wider_folds RENAME TO folds;
CREATE INDEX folds_by_gist ON folds (gist);
