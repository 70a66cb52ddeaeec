-- What waits for a model only, its words being on a shelf, need not be looked at by those who have no model.
ALTER TABLE backlog ADD COLUMN indexed BIGINT NOT NULL DEFAULT 0 CHECK (indexed IN (0, 1));
CREATE INDEX backlog_without_words ON backlog (workspace, id) WHERE indexed = 0;
