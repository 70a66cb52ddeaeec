-- works with: 7
-- What the brief, the injections and the identity of a session need. Every new table goes with the row that it belongs to, so
-- that programs of an earlier release can still delete sessions and memories.

-- The version of a memory that a person has approved for the brief. A new version needs a new approval.
ALTER TABLE memories ADD COLUMN approved BIGINT;

-- What a memory was like from `at` on, apart from its text: `memory_versions` has that. One row for each change.
CREATE TABLE memory_states (
  memory_id BIGINT NOT NULL REFERENCES memories (id) ON DELETE CASCADE,
  number BIGINT NOT NULL,
  version BIGINT NOT NULL,
  importance DOUBLE PRECISION NOT NULL,
  pinned BIGINT NOT NULL CHECK (pinned IN (0, 1)),
  approved BIGINT,
  status TEXT COLLATE "C" NOT NULL CHECK (status IN ('active', 'superseded', 'archived')),
  superseded_by BIGINT,
  -- A JSON list.
  tags TEXT COLLATE "C" NOT NULL,
  actor TEXT COLLATE "C",
  at TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (memory_id, number)
);
CREATE INDEX memory_states_by_successor ON memory_states (superseded_by) WHERE superseded_by IS NOT NULL;

-- The harness's own id of the message that a turn records.
ALTER TABLE exchanges ADD COLUMN external_id TEXT COLLATE "C";
CREATE INDEX exchanges_by_external_id ON exchanges (workspace, session_id, external_id) WHERE external_id IS NOT NULL;

-- A message to the person whose workspace it is, and when that person read it.
ALTER TABLE messages ADD COLUMN to_person BIGINT NOT NULL DEFAULT 0 CHECK (to_person IN (0, 1));
ALTER TABLE messages ADD COLUMN person_read_at TEXT COLLATE "C";
CREATE INDEX messages_to_person ON messages (workspace, id) WHERE to_person = 1 AND person_read_at IS NULL;

-- The things that a session was given by its brief or with a prompt. They are not given again.
CREATE TABLE injections (
  workspace TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('exchange', 'memory')),
  ref BIGINT NOT NULL,
  at TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (workspace, session_id, kind, ref),
  FOREIGN KEY (workspace, session_id) REFERENCES sessions (workspace, id) ON DELETE CASCADE
);

-- The process of a harness, and the sessions that it started. The MCP server of the same harness finds its session here. Also
-- the process of an MCP server, and the session that it registered for its client.
CREATE TABLE harness_processes (
  workspace TEXT COLLATE "C" NOT NULL,
  -- The machine since its last boot, the process id and its start time.
  process TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  -- The process of the harness that started an MCP server; NULL where `process` is a harness.
  harness TEXT COLLATE "C",
  -- 1 if the start event shows that the process has left its earlier sessions.
  alone BIGINT NOT NULL DEFAULT 0 CHECK (alone IN (0, 1)),
  at TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (workspace, process, session_id),
  FOREIGN KEY (workspace, session_id) REFERENCES sessions (workspace, id) ON DELETE CASCADE
);
CREATE INDEX harness_processes_by_session ON harness_processes (workspace, session_id);
CREATE INDEX harness_processes_by_harness ON harness_processes (workspace, harness) WHERE harness IS NOT NULL;

-- What a session was told about a lease of another one: the holder was told of an edit, or the session was refused one.
CREATE TABLE lease_notices (
  token BIGINT NOT NULL REFERENCES leases (token) ON DELETE CASCADE,
  session_id TEXT COLLATE "C" NOT NULL,
  what TEXT COLLATE "C" NOT NULL CHECK (what IN ('told', 'refused')),
  at TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (token, session_id, what)
);
