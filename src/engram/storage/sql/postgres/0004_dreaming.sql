-- Dreaming: how far each session is summarised, what waits to be folded in, the drives, the passes and what they cost.

-- Summarised up to here: of all exchanges (`seq`), and of the turns.
ALTER TABLE sessions ADD COLUMN gist_seq BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN gist_turns BIGINT NOT NULL DEFAULT 0;
CREATE INDEX sessions_unsummarised ON sessions (workspace, id) WHERE turns > gist_turns;

-- What is known about a gist besides its text.
CREATE TABLE gists (
  memory_id BIGINT PRIMARY KEY REFERENCES memories (id),
  workspace TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  -- When the session's earliest turn was said, and its month in UTC: YYYY-MM.
  at TEXT COLLATE "C" NOT NULL,
  month TEXT COLLATE "C" NOT NULL,
  UNIQUE (workspace, session_id)
);
CREATE INDEX gists_by_month ON gists (workspace, month, memory_id);

-- Gists that are new to an era or to the portrait; `after` is the seq from which the session's turns are new to it.
CREATE TABLE folds (
  workspace TEXT COLLATE "C" NOT NULL,
  target TEXT COLLATE "C" NOT NULL CHECK (target IN ('era', 'profile', 'narrative')),
  gist BIGINT NOT NULL REFERENCES gists (memory_id),
  after BIGINT NOT NULL,
  PRIMARY KEY (workspace, target, gist)
);
CREATE INDEX folds_by_gist ON folds (gist);

CREATE TABLE drives (
  workspace TEXT COLLATE "C" PRIMARY KEY,
  continuity DOUBLE PRECISION NOT NULL,
  coherence DOUBLE PRECISION NOT NULL,
  curiosity DOUBLE PRECISION NOT NULL,
  stability DOUBLE PRECISION NOT NULL,
  -- The last exchange that was there when they were last sensed.
  mark BIGINT NOT NULL,
  updated_at TEXT COLLATE "C" NOT NULL
);

CREATE TABLE dreams (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  started_at TEXT COLLATE "C" NOT NULL,
  ended_at TEXT COLLATE "C",
  -- JSON: numbers, ids and names of stages; nothing that anybody said.
  report TEXT COLLATE "C" NOT NULL
);
CREATE INDEX dreams_by_workspace ON dreams (workspace, id);

-- What models were paid for, by day and stage.
CREATE TABLE usage (
  workspace TEXT COLLATE "C" NOT NULL,
  day TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  calls BIGINT NOT NULL,
  input_tokens BIGINT NOT NULL,
  output_tokens BIGINT NOT NULL,
  PRIMARY KEY (workspace, day, stage)
);

-- Pieces of thinking that wait for an agent, or whose answers wait for the next pass.
CREATE TABLE work (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  workspace TEXT COLLATE "C" NOT NULL,
  stage TEXT COLLATE "C" NOT NULL,
  subject TEXT COLLATE "C" NOT NULL,
  -- What of the subject it is about, for whoever uses the answer.
  covers TEXT COLLATE "C" NOT NULL,
  prompt TEXT COLLATE "C" NOT NULL,
  form TEXT COLLATE "C",
  taken_by TEXT COLLATE "C",
  deadline TEXT COLLATE "C",
  answer TEXT COLLATE "C",
  created_at TEXT COLLATE "C" NOT NULL,
  UNIQUE (workspace, stage, subject)
);
