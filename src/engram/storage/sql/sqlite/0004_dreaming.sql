-- Dreaming: how far each session is summarised, what waits to be folded in, the drives, the passes and what they cost.

-- Summarised up to here: of all exchanges (`seq`), and of the turns.
ALTER TABLE sessions ADD COLUMN gist_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN gist_turns INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sessions_unsummarised ON sessions (workspace, id) WHERE turns > gist_turns;

-- What is known about a gist besides its text.
CREATE TABLE gists (
  memory_id INTEGER PRIMARY KEY REFERENCES memories (id),
  workspace TEXT NOT NULL,
  session_id TEXT NOT NULL,
  -- When the session's earliest turn was said, and its month in UTC: YYYY-MM.
  at TEXT NOT NULL,
  month TEXT NOT NULL,
  UNIQUE (workspace, session_id)
) STRICT;
CREATE INDEX gists_by_month ON gists (workspace, month, memory_id);

-- Gists that are new to an era or to the portrait; `after` is the seq from which the session's turns are new to it.
CREATE TABLE folds (
  workspace TEXT NOT NULL,
  target TEXT NOT NULL CHECK (target IN ('era', 'profile', 'narrative')),
  gist INTEGER NOT NULL REFERENCES gists (memory_id),
  after INTEGER NOT NULL,
  PRIMARY KEY (workspace, target, gist)
) STRICT, WITHOUT ROWID;
CREATE INDEX folds_by_gist ON folds (gist);

CREATE TABLE drives (
  workspace TEXT PRIMARY KEY,
  continuity REAL NOT NULL,
  coherence REAL NOT NULL,
  curiosity REAL NOT NULL,
  stability REAL NOT NULL,
  -- The last exchange that was there when they were last sensed.
  mark INTEGER NOT NULL,
  updated_at TEXT NOT NULL
) STRICT;

CREATE TABLE dreams (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  session_id TEXT NOT NULL,
  started_at TEXT NOT NULL,
  ended_at TEXT,
  -- JSON: numbers, ids and names of stages; nothing that anybody said.
  report TEXT NOT NULL
) STRICT;
CREATE INDEX dreams_by_workspace ON dreams (workspace, id);

-- What models were paid for, by day and stage.
CREATE TABLE usage (
  workspace TEXT NOT NULL,
  day TEXT NOT NULL,
  stage TEXT NOT NULL,
  calls INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  PRIMARY KEY (workspace, day, stage)
) STRICT, WITHOUT ROWID;

-- Pieces of thinking that wait for an agent, or whose answers wait for the next pass.
CREATE TABLE work (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  workspace TEXT NOT NULL,
  stage TEXT NOT NULL,
  subject TEXT NOT NULL,
  -- What of the subject it is about, for whoever uses the answer.
  covers TEXT NOT NULL,
  prompt TEXT NOT NULL,
  form TEXT,
  taken_by TEXT,
  deadline TEXT,
  answer TEXT,
  created_at TEXT NOT NULL,
  UNIQUE (workspace, stage, subject)
) STRICT;
