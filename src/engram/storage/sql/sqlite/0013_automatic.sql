-- works with: 7
-- What passes that start by themselves need: why a pass ran, and which stages to try again later.

-- Why the pass ran: by hand, session end, idle server, loop, if due. NULL for passes of earlier releases.
ALTER TABLE dreams ADD COLUMN reason TEXT;
CREATE INDEX dreams_automatic ON dreams (workspace, id) WHERE reason <> 'by hand';

-- Stages that left work undone. An automatic pass does not begin for the same work before `retry_at`.
CREATE TABLE dream_retries (
  workspace TEXT NOT NULL,
  stage TEXT NOT NULL,
  -- How much work the last pass left, and how many passes in a row made no progress with it.
  left_over INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  -- What went wrong, without any quotation.
  problem TEXT NOT NULL,
  retry_at TEXT NOT NULL,
  PRIMARY KEY (workspace, stage)
) STRICT, WITHOUT ROWID;

-- The mark of the dream backlog is the highest id of a turn: a turn that is imported later may be of an earlier time.
CREATE INDEX exchanges_turns_by_id ON exchanges (workspace, id) WHERE role <> 'log';
