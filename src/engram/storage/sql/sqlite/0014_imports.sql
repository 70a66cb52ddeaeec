-- works with: 7
-- What was imported from other systems, so that the same file adds nothing a second time.

-- A row outlives what it stands for: what a person has forgotten is not imported again.
CREATE TABLE imports (
  workspace TEXT NOT NULL,
  -- The format, such as claude-code; `forgotten` for what was forgotten, whoever had recorded it.
  source TEXT NOT NULL,
  -- A digest of the id that the thing has in its system.
  ref TEXT NOT NULL,
  -- session, memory, block, or turn: a turn of that session was forgotten.
  what TEXT NOT NULL,
  -- The id or name of the thing in this store.
  id TEXT NOT NULL,
  -- How many records of it were read, the latest of their times, and the session's last number after them.
  seen INTEGER NOT NULL,
  seen_at TEXT,
  seen_seq INTEGER NOT NULL,
  -- 1 if the import made the thing, 0 if it was here before.
  made INTEGER NOT NULL,
  PRIMARY KEY (workspace, source, what, ref)
) STRICT, WITHOUT ROWID;
