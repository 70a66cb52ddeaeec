-- works with: 7
-- Any JSON beside the text of a block, such as a companion's own state. A program of an earlier release does not write it: the
-- block keeps the data that it has.
ALTER TABLE blocks ADD COLUMN data TEXT COLLATE "C";
ALTER TABLE block_versions ADD COLUMN data TEXT COLLATE "C";

-- A proposal may also be a text for a block that is a person's or a companion's.
ALTER TABLE proposals DROP CONSTRAINT proposals_what_check;
ALTER TABLE proposals ADD CONSTRAINT proposals_what_check
  CHECK (what IN ('remember', 'merge', 'supersede', 'archive', 'overflow', 'rewrite'));
