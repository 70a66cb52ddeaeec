-- What a run of dreaming changed, so that it can be undone.

-- The run that this one undid, and the run that undid this one.
ALTER TABLE dreams ADD COLUMN undoes INTEGER REFERENCES dreams (id);
ALTER TABLE dreams ADD COLUMN undone_by INTEGER REFERENCES dreams (id);

-- One row for each thing that an action of a run changed. `before` is the whole thing as JSON, `null` when the action
-- made it; `after` is what is compared with it before it is undone. Both are NULL once something of it was forgotten.
CREATE TABLE journal (
  workspace TEXT NOT NULL,
  dream INTEGER NOT NULL REFERENCES dreams (id),
  kind TEXT NOT NULL CHECK (kind IN ('memory', 'block', 'session')),
  ref TEXT NOT NULL,
  action INTEGER NOT NULL,
  before TEXT,
  after TEXT,
  PRIMARY KEY (workspace, dream, kind, ref, action)
) STRICT, WITHOUT ROWID;
CREATE INDEX journal_by_thing ON journal (workspace, kind, ref, dream);
