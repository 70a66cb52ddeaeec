-- works with: 7
-- A session's summary may repeat one of its own exchanges. This column names that exchange, so that forgetting it takes the
-- repetition along. It is NULL for a summary that somebody wrote, and for every summary from before this column.
ALTER TABLE sessions ADD COLUMN summary_from BIGINT;
