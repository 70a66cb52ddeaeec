-- works with: 7
-- hooks work without it
-- Memories by their number, so that a page of the newest ones reads only those.
CREATE INDEX memories_by_number ON memories (workspace, status, id);
-- Those that wait for a person's approval: every page of the dashboard counts them.
CREATE INDEX memories_waiting ON memories (workspace, status, id)
  WHERE status = 'active' AND (approved IS NULL OR approved <> version)
    AND (pinned = 1 OR (trust IN ('tool', 'import') AND kind NOT IN ('gist', 'era', 'digest')));
