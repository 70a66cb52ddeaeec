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
-- be. First the last numbers that were given are read, then who is still at work. A lock's key has 32 bits of the number,
-- which is near the last one. A key that seems to be ahead belongs to a writer that began after the first look.
CREATE FUNCTION ends(OUT changes BIGINT, OUT items BIGINT) LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path FROM CURRENT AS '
BEGIN
  SELECT s.last_value - CASE WHEN s.is_called THEN 0 ELSE 1 END INTO changes FROM changes_number_seq s;
  SELECT s.last_value - CASE WHEN s.is_called THEN 0 ELSE 1 END INTO items FROM items_id_seq s;
  SELECT COALESCE(MIN(changes - away.from_change) FILTER (WHERE away.class = ''changes''::regclass), changes),
         COALESCE(MIN(items - away.from_item) FILTER (WHERE away.class = ''items''::regclass), items)
  INTO changes, items
  FROM (
    SELECT l.classid AS class, (changes - l.objid::bigint) & 4294967295 AS from_change,
           (items - l.objid::bigint) & 4294967295 AS from_item
    FROM pg_locks l
    WHERE l.locktype = ''advisory'' AND l.objsubid = 2 AND l.granted
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND l.classid IN (''changes''::regclass, ''items''::regclass)
  ) AS away
  WHERE CASE WHEN away.class = ''changes''::regclass THEN away.from_change ELSE away.from_item END < 2147483648;
END';
