-- works with: 7
-- hooks work without it
-- Nothing changes here: SQLite has one writer at a time, so its numbers are in the order of commits. On PostgreSQL this
-- migration changes how they are given.
SELECT 1;
