-- works with: 7
-- A session's summary says what it set out to do, its outcome what came of it. Until now a completion replaced the summary.
-- `outcome_from` names the exchange that the outcome repeats, as `summary_from` does for the summary.
ALTER TABLE sessions ADD COLUMN outcome TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN outcome_from BIGINT;

-- The summary of a completed session is taken as its outcome, and the user's first turn as its summary. The same goes for a
-- session that was resumed after a completion: its summary repeats a turn of the assistant or a log entry.
UPDATE sessions SET
  outcome = summary,
  outcome_from = summary_from,
  summary_from = (
    SELECT e.id FROM exchanges e
    WHERE e.workspace = sessions.workspace AND e.session_id = sessions.id AND e.role <> 'log' AND e.role = 'user'
    ORDER BY e.seq LIMIT 1
  )
WHERE status = 'completed'
  OR EXISTS (SELECT 1 FROM exchanges e WHERE e.id = sessions.summary_from AND e.role <> 'user');

-- The first turn on one line, shortened to 200 characters. A run of up to 16 blanks becomes a single one.
UPDATE sessions SET summary = CASE WHEN LENGTH(said.line) > 200 OR said.more = 1
                                   THEN SUBSTR(said.line, 1, 200) || '…' ELSE said.line END
FROM (
  SELECT e.id,
    TRIM(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(
      SUBSTR(e.content, 1, 1000), CHR(13), ' '), CHR(10), ' '), CHR(9), ' '),
      '        ', ' '), '    ', ' '), '  ', ' '), '  ', ' ')) AS line,
    CASE WHEN LENGTH(e.content) > 1000 THEN 1 ELSE 0 END AS more
  FROM exchanges e WHERE e.id IN (SELECT summary_from FROM sessions WHERE (outcome <> '' OR summary = '') AND summary_from IS NOT NULL)
) AS said
WHERE said.id = sessions.summary_from AND (sessions.outcome <> '' OR sessions.summary = '');

-- A session that was completed with nothing but the user's first turn has no outcome. One that repeats somebody else's words,
-- and in which the user said nothing, has no summary. Where neither is known, the text stays in both places.
UPDATE sessions SET outcome = '', outcome_from = NULL
WHERE outcome <> '' AND summary_from IS NOT NULL AND (outcome_from = summary_from OR outcome = summary);
UPDATE sessions SET summary = '' WHERE outcome_from IS NOT NULL AND summary_from IS NULL;

-- Programs of an earlier release that are still running do not know these columns. What they delete takes its copies along,
-- also a text that an agent gave and that reads like the turn.
CREATE FUNCTION take_copies() RETURNS TRIGGER
LANGUAGE plpgsql SET search_path FROM CURRENT AS '
BEGIN
  UPDATE sessions SET summary = '''', summary_from = NULL FROM gone
  WHERE sessions.workspace = gone.workspace AND sessions.id = gone.session_id AND (summary_from = gone.id OR summary = gone.content);
  UPDATE sessions SET outcome = '''', outcome_from = NULL FROM gone
  WHERE sessions.workspace = gone.workspace AND sessions.id = gone.session_id AND (outcome_from = gone.id OR outcome = gone.content);
  RETURN NULL;
END';
CREATE TRIGGER exchanges_take_copies AFTER DELETE ON exchanges
REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION take_copies();
