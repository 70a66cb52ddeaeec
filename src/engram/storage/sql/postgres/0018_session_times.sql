-- works with: 7
-- hooks work without it
-- Sessions by their beginning: lists of sessions in pages, and what happened on which day.
CREATE INDEX sessions_by_time ON sessions (workspace, created_at, id);
