-- Run it once after pg_restore or point-in-time recovery, before the first process opens the store:
--
--   psql -v ON_ERROR_STOP=1 -v team=alpha -f deployment/after-restore.sql postgresql://postgres@db.example.org/engram
--
-- The backup does not know the numbers that were given out after it was made: fencing tokens, ids, places in the change
-- feed. Agents may still hold them. So every counter of the store goes on far beyond what can have been given out since.
SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, COALESCE(last_value, start_value) + 10000000)
FROM pg_sequences WHERE schemaname = :'team';
