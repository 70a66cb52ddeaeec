-- works with: 7
-- hooks work without it
-- The messages of one workspace, the newest first, whatever other workspaces hold.
CREATE INDEX messages_by_workspace ON messages (workspace, id);
