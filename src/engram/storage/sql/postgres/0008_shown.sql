-- works with: 7
-- A message that was shown counts as read only once its reader has confirmed it; until then it may be shown once more.
ALTER TABLE deliveries ADD COLUMN shown_at TEXT COLLATE "C";

-- A turn that was stored before its words were indexed. Logs wait in the same table, many of them and for less urgent work.
ALTER TABLE backlog ADD COLUMN words_due BIGINT NOT NULL DEFAULT 0 CHECK (words_due IN (0, 1));
CREATE INDEX backlog_words_due ON backlog (workspace, id) WHERE words_due = 1;
