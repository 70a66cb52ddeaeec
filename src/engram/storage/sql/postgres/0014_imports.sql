-- works with: 7
-- What was imported from other systems, so that the same file adds nothing a second time.

-- A row outlives what it stands for: what a person has forgotten is not imported again.
CREATE TABLE imports (
  workspace TEXT COLLATE "C" NOT NULL,
  -- The format, such as claude-code; `forgotten` for what was forgotten, whoever had recorded it.
  source TEXT COLLATE "C" NOT NULL,
  -- A digest of the id that the thing has in its system.
  ref TEXT COLLATE "C" NOT NULL,
  -- session, memory, block, or turn: a turn of that session was forgotten.
  what TEXT COLLATE "C" NOT NULL,
  -- The id or name of the thing in this store.
  id TEXT COLLATE "C" NOT NULL,
  -- How many records of it were read, the latest of their times, and the session's last number after them.
  seen BIGINT NOT NULL,
  seen_at TEXT COLLATE "C",
  seen_seq BIGINT NOT NULL,
  -- 1 if the import made the thing, 0 if it was here before.
  made BIGINT NOT NULL,
  PRIMARY KEY (workspace, source, what, ref)
);
