-- works with: 7
-- The author of what is written: the name of the token under which it came in. NULL for local use, and for what dreaming
-- writes. A program of an earlier release writes no author. Where a row is the last of several, as in `blocks`, the author is
-- that of the last one; a memory and a session keep their first.
ALTER TABLE sessions ADD COLUMN author TEXT;
ALTER TABLE exchanges ADD COLUMN author TEXT;
ALTER TABLE messages ADD COLUMN author TEXT;
ALTER TABLE blocks ADD COLUMN author TEXT;
ALTER TABLE block_versions ADD COLUMN author TEXT;
ALTER TABLE memories ADD COLUMN author TEXT;
ALTER TABLE memory_versions ADD COLUMN author TEXT;
ALTER TABLE memory_states ADD COLUMN author TEXT;
ALTER TABLE receipts ADD COLUMN author TEXT;

-- Recall filters by it.
ALTER TABLE items ADD COLUMN author TEXT;
