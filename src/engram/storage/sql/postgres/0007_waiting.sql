-- What waits for a model only, its words being on a shelf, need not be looked at by those who have no model.
ALTER TABLE backlog ADD COLUMN indexed BIGINT NOT NULL DEFAULT 0 CHECK (indexed IN (0, 1));
CREATE INDEX backlog_without_words ON backlog (workspace, id) WHERE indexed = 0;

-- Everything made up to this time was old enough to be compared, when the pass got that far.
ALTER TABLE dreams ADD COLUMN matured TEXT COLLATE "C";
CREATE INDEX memories_by_age ON memories (workspace, created_at) WHERE status = 'active';

-- The session first: beginning with the workspace, SQLite took it for the live ones too, and read all that ever were.
DROP INDEX leases_by_session;
CREATE INDEX leases_by_session ON leases (session_id, workspace);

-- A gist also waits until what was said in its session is read for facts.
ALTER TABLE folds DROP CONSTRAINT folds_target_check;
ALTER TABLE folds ADD CONSTRAINT folds_target_check CHECK (target IN ('era', 'profile', 'narrative', 'extract'));
