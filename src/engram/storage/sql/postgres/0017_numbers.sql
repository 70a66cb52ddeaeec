-- Earlier releases cannot use the result: their readers of the feed take its numbers to be in the order of commits.
-- Processes of an earlier release are refused at their next call. Restart them with this release.

-- The last number of each sequence is read and the lock taken by these functions with the rights of the store's owner,
-- because a role that may write the tables may have no rights on their sequences. They change nothing.

-- Whoever calls this before taking numbers keeps readers from going past them, until the transaction ends. The lock is
-- shared by all. Its key is the table, and the last number that was given before.
CREATE FUNCTION number_changes() RETURNS VOID LANGUAGE sql VOLATILE SECURITY DEFINER
BEGIN ATOMIC
  SELECT pg_advisory_xact_lock_shared(
    (('changes'::regclass::oid::bigint + 2147483648) % 4294967296 - 2147483648)::integer,
    ((last_value - CASE WHEN is_called THEN 0 ELSE 1 END + 2147483648) % 4294967296 - 2147483648)::integer)
  FROM changes_number_seq;
END;
CREATE FUNCTION number_items() RETURNS VOID LANGUAGE sql VOLATILE SECURITY DEFINER
BEGIN ATOMIC
  SELECT pg_advisory_xact_lock_shared(
    (('items'::regclass::oid::bigint + 2147483648) % 4294967296 - 2147483648)::integer,
    ((last_value - CASE WHEN is_called THEN 0 ELSE 1 END + 2147483648) % 4294967296 - 2147483648)::integer)
  FROM items_id_seq;
END;

-- The numbers up to which every change and every item is decided: a snapshot that is taken later sees all that will ever
-- be. First the last numbers that were given are read, then who is still at work: `decided` needs what `last_numbers`
-- returns. A lock's key has 32 bits of the number, which is near the last one. A key that seems to be ahead belongs to a
-- writer that began after the first look.
CREATE FUNCTION last_numbers(OUT change BIGINT, OUT item BIGINT) LANGUAGE sql VOLATILE SECURITY DEFINER
BEGIN ATOMIC
  SELECT c.last_value - CASE WHEN c.is_called THEN 0 ELSE 1 END, i.last_value - CASE WHEN i.is_called THEN 0 ELSE 1 END
  FROM changes_number_seq c CROSS JOIN items_id_seq i;
END;
CREATE FUNCTION decided(change BIGINT, item BIGINT, OUT changes BIGINT, OUT items BIGINT)
LANGUAGE sql VOLATILE SECURITY DEFINER
BEGIN ATOMIC
  SELECT COALESCE(MIN(change - (change - l.objid::bigint & 4294967295)) FILTER (
           WHERE l.classid = 'changes'::regclass AND (change - l.objid::bigint & 4294967295) < 2147483648), change),
         COALESCE(MIN(item - (item - l.objid::bigint & 4294967295)) FILTER (
           WHERE l.classid = 'items'::regclass AND (item - l.objid::bigint & 4294967295) < 2147483648), item)
  FROM pg_locks l
  WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND l.classid IN ('changes'::regclass, 'items'::regclass);
END;
CREATE FUNCTION ends(OUT changes BIGINT, OUT items BIGINT) LANGUAGE sql VOLATILE SECURITY DEFINER
BEGIN ATOMIC
  SELECT d.changes, d.items FROM last_numbers() n CROSS JOIN LATERAL decided(n.change, n.item) d;
END;
