"""pgvector: the server itself compares vectors, where it has the extension.

The store keeps vectors as bytes, on both engines alike. Where the extension can be had, opening a store makes a table
of its own for them in the extension's type (16 bits a dimension hold the 8 of the store exactly), which a trigger
keeps. So it is right in every transaction, also in those of a process that has never heard of it, and of a tier that
only knows `vectors`. Without the extension (none there, older than 0.8, no right to create it) nothing is made, and the
tiers compare by themselves as they do on SQLite.

A small set is compared whole. For a large one there is an HNSW index per workspace and model, so that only a large
workspace's writers pay for it, searched iteratively, because what the shelves filter out must not leave too few. It is
built outside of transactions and without stopping writers; until it is there, the whole set is compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, LiteralString

import psycopg
from psycopg import sql

from .engine import Closest

if TYPE_CHECKING:
    from .engine import Row

    Connection = psycopg.Connection[Row]

#: The first with iterative scans.
_OLDEST = (0, 8)
#: About how many vectors stand for all when a mean is needed and not all are looked at; with fewer than the second, all
#: are looked at.
_SAMPLE, _TOO_FEW = 2_000, 200
#: More dimensions than this cannot be indexed.
_MOST_DIMS = 4_000
#: How many the index looks at before it gives up filling what was asked for, and at once.
_MOST_SCANNED, _MOST_AT_ONCE = 100_000, 1_000
#: How often building is tried when another process gets in the way.
_ATTEMPTS = 3

_FOUND = """
SELECT a.default_version, e.extversion, n.nspname,
       CASE WHEN to_regclass(format('%%I.closeness', %(schema)s::text)) IS NULL THEN 'nothing'
            WHEN EXISTS (SELECT 1 FROM pg_attribute WHERE attname = 'embedding' AND NOT attisdropped
                         AND attrelid = to_regclass(format('%%I.closeness', %(schema)s::text))) THEN 'all'
            ELSE 'rest' END,
       has_table_privilege(to_regclass(format('%%I.closeness', %(schema)s::text)), 'SELECT')
FROM (SELECT 1) AS always
LEFT JOIN pg_available_extensions a ON a.name = 'vector'
LEFT JOIN pg_extension e ON e.extname = 'vector'
LEFT JOIN pg_namespace n ON n.oid = e.extnamespace
"""
_MAKE = """
CREATE TABLE closeness (
  item BIGINT NOT NULL,
  model TEXT COLLATE "C" NOT NULL,
  workspace TEXT COLLATE "C" NOT NULL,
  shelf TEXT COLLATE "C" NOT NULL,
  embedding HALFVEC NOT NULL,
  PRIMARY KEY (item, model)
);
CREATE INDEX closeness_of_shelf ON closeness (workspace, model, shelf, item);

CREATE FUNCTION halfvec_of(vector BYTEA) RETURNS HALFVEC
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
AS 'SELECT ARRAY(SELECT (get_byte(vector, place) # 128) - 128
                 FROM generate_series(0, length(vector) - 1) place)::halfvec';

-- With the owner's rights: a role that was once given the right to write vectors has none on this table.
CREATE FUNCTION keep_closeness() RETURNS TRIGGER
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS '
BEGIN
  IF TG_OP <> ''INSERT'' THEN
    DELETE FROM closeness WHERE item = OLD.item AND model = OLD.model;
  END IF;
  IF TG_OP <> ''DELETE'' THEN
    INSERT INTO closeness (item, model, workspace, shelf, embedding)
    SELECT i.id, NEW.model, i.workspace, i.shelf, made.embedding
    FROM items i, (SELECT halfvec_of(NEW.vector) AS embedding OFFSET 0) AS made
    WHERE i.id = NEW.item AND l2_norm(made.embedding) > 0;
  END IF;
  RETURN NULL;
END';
CREATE TRIGGER keep_closeness AFTER INSERT OR UPDATE OR DELETE ON vectors
FOR EACH ROW EXECUTE FUNCTION keep_closeness();

INSERT INTO closeness (item, model, workspace, shelf, embedding)
SELECT * FROM (
  SELECT i.id, v.model, i.workspace, i.shelf, halfvec_of(v.vector) AS embedding
  FROM vectors v JOIN items i ON i.id = v.item OFFSET 0
) AS made
WHERE l2_norm(made.embedding) > 0;
"""
_REMOVE = """
DROP TRIGGER IF EXISTS keep_closeness ON vectors;
DROP FUNCTION IF EXISTS keep_closeness();
DROP FUNCTION IF EXISTS halfvec_of(BYTEA);
DROP TABLE IF EXISTS closeness;
"""
_EXACT = """
WITH compared AS MATERIALIZED (
  SELECT item, 1 - (embedding::vector <=> %(query)s::vector) AS cosine FROM closeness
  WHERE workspace = %(workspace)s AND model = %(model)s AND shelf = ANY(%(shelves)s)
)
SELECT item, cosine, (SELECT avg(cosine) FROM compared), (SELECT stddev_pop(cosine) FROM compared)
FROM compared ORDER BY cosine DESC, item LIMIT %(most)s
"""
_NEAREST = """
WITH nearest AS MATERIALIZED (
  SELECT item, embedding FROM closeness
  WHERE workspace = {workspace} AND model = {model} AND shelf = ANY(%(shelves)s)
  ORDER BY embedding::halfvec({dims}) <=> %(query)s::halfvec({dims}) LIMIT %(most)s
)
SELECT item, 1 - (embedding::vector <=> %(query)s::vector) AS cosine FROM nearest ORDER BY cosine DESC, item
"""
#: Always the same pages of the table, so that every process that asks the same question gets the same answer.
_SPREAD = """
SELECT COUNT(*), avg(cosine), stddev_pop(cosine)
FROM (
  SELECT 1 - (embedding::vector <=> %(query)s::vector) AS cosine
  FROM closeness TABLESAMPLE SYSTEM (%(percent)s) REPEATABLE (1)
  WHERE workspace = %(workspace)s AND model = %(model)s AND shelf = ANY(%(shelves)s)
) AS sample
"""
_SET = """
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.max_scan_tuples', %s, true),
       set_config('hnsw.ef_search', %s, true)
"""
_IS_INDEXED = """
SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(format('%%I.%%I', current_schema, %s::text)) AND indisvalid
"""
_INDEXES = """
SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass(format('%%I.closeness', %(schema)s::text)) AND starts_with(c.relname, %(prefix)s)
"""
#: A process that builds or drops an index concurrently holds this lock. Autovacuum, which has no user, holds it too,
#: but gives way.
_AT_IT = """
SELECT 1 FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.relation = to_regclass(format('%%I.closeness', %(schema)s::text)) AND l.mode = 'ShareUpdateExclusiveLock'
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND a.usesysid IS NOT NULL
LIMIT 1
"""
_DIMS = """
SELECT {home}.vector_dims(embedding) FROM {schema}.closeness WHERE workspace = {workspace} AND model = {model} LIMIT 1
"""
_INDEX = """
CREATE INDEX CONCURRENTLY {name} ON {schema}.closeness
USING hnsw ((embedding::{home}.halfvec({dims})) {home}.halfvec_cosine_ops)
WHERE workspace = {workspace} AND model = {model}
"""
#: The search path knows where to look.
_NO_NAMES: Mapping[str, sql.Identifier] = {}


def prepare(connection: Connection, schema: str) -> str | None:
    """Have the table wherever that is possible; the extension's schema, None when the server cannot compare vectors.

    Expects a transaction whose search path begins with the store's schema; leaves it usable, whatever fails.
    """
    try:
        available, version, home, there, readable = _found(connection, schema)
        if there == "nothing" and not _new_enough(version or available):
            _say_without(f"its pgvector is {version or available or 'not there'}")
            return None
        if there != "all" or not _new_enough(version):
            home = _make(connection, schema)
        elif not readable:
            _say_without("this role may not read the table closeness")
            return None
        return None if home is None else str(home)
    except (
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.FeatureNotSupported,
        psycopg.errors.InvalidSchemaName,
        psycopg.errors.LockNotAvailable,
        psycopg.errors.ReadOnlySqlTransaction,
        psycopg.errors.UndefinedFile,
    ) as error:
        _say_without(str(error).partition("\n")[0])
        return None


def _make(connection: Connection, schema: str) -> str | None:
    with connection.transaction():
        # One at a time in the whole database, which is where extensions live.
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('engram/pgvector', 0))")
        available, version, home, there, _ = _found(connection, schema)
        if there == "rest" or not _new_enough(version or available):
            # The extension was taken away, and the column of its type with it.
            connection.execute(_REMOVE.encode())
        if not _new_enough(version or available):
            _say_without("its pgvector was taken away")
            return None
        if version is None:
            # Not into the store's own schema: with that it would vanish under other stores.
            connection.execute("CREATE EXTENSION vector WITH SCHEMA public")
            home = "public"
        if there != "all":
            path = sql.SQL(", ").join([sql.Identifier(schema), sql.Identifier(home)])
            # The trigger keeps this path. Temporary tables come last, or they would hide the store's own tables.
            connection.execute(sql.SQL("SET LOCAL search_path TO {}, pg_temp").format(path))
            connection.execute("LOCK TABLE vectors IN SHARE ROW EXCLUSIVE MODE")
            connection.execute(_MAKE.encode())
    return str(home)


def closest(
    connection: Connection,
    workspace: str,
    model: str,
    query: Sequence[float],
    shelves: Sequence[str],
    most: int,
    size: int | None,
) -> Closest:
    """The most similar of some shelves, with mean and spread of them all; approximately when their `size` is given."""
    values: dict[str, object] = {
        "workspace": workspace,
        "model": model,
        "query": f"[{','.join(map(repr, query))}]",
        "shelves": list(shelves),
        "most": most,
    }
    if size is None or not connection.execute(_IS_INDEXED, (_name(workspace, model),)).fetchone():
        return _exactly(connection, values)
    percent = min(100.0, 100 * _SAMPLE / size)
    ((count, mean, spread),) = connection.execute(_SPREAD, {**values, "percent": percent}).fetchall()
    if count < _TOO_FEW:
        return _exactly(connection, values)
    connection.execute(_SET, (str(_MOST_SCANNED), str(min(_MOST_AT_ONCE, 2 * most))))
    # The workspace and the model stand in the statement itself, as they do in the index's condition.
    rows = connection.execute(_about(_NEAREST, workspace, model, len(query)), values, prepare=False).fetchall()
    return Closest(rows, mean, spread)


def _exactly(connection: Connection, values: dict[str, object]) -> Closest:
    rows = connection.execute(_EXACT, values).fetchall()
    # Every row repeats the mean and the spread.
    _, _, mean, spread = rows[0] if rows else (0, 0.0, 0.0, 0.0)
    return Closest([(item, cosine) for item, cosine, _, _ in rows], mean, spread)


def index(connection: Connection, schema: str, home: str, workspace: str, models: Sequence[str]) -> None:
    """Have an index of the workspace's vectors by each of these models, and by no other.

    Expects a connection in autocommit; does nothing while another process builds one. The table's own lock shows that:
    an advisory lock would have to be held for several statements, which a pooler may send to different connections.
    """
    for _ in range(_ATTEMPTS):
        if connection.execute(_AT_IT, {"schema": schema}).fetchone():
            return
        try:
            _index(connection, schema, home, workspace, models)
            return
        except (psycopg.errors.DuplicateTable, psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected):
            # Another process began at the same moment. The next round sees whether it still builds.
            continue


def _index(connection: Connection, schema: str, home: str, workspace: str, models: Sequence[str]) -> None:
    names = {"schema": sql.Identifier(schema), "home": sql.Identifier(home)}
    wanted = {_name(workspace, model): model for model in models}
    rows = connection.execute(_INDEXES, {"schema": schema, "prefix": _prefix(workspace)}).fetchall()
    there: dict[str, bool] = dict(rows)
    for name, valid in there.items():
        # Nobody is at work on the table, so whoever was building an invalid one is gone.
        if name not in wanted or not valid:
            connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(schema, name)))
    for name, model in wanted.items():
        for (dims,) in connection.execute(_about(_DIMS, workspace, model, 0, names)).fetchall():
            if not there.get(name) and dims <= _MOST_DIMS:
                connection.execute(_about(_INDEX, workspace, model, dims, names))


def _found(connection: Connection, schema: str) -> Row:
    row = connection.execute(_FOUND, {"schema": schema}).fetchone()
    assert row is not None
    return row


def _new_enough(version: str | None) -> bool:
    return version is not None and tuple(int(part) for part in version.split(".")[:2]) >= _OLDEST


def _say_without(reason: str) -> None:
    import logging

    logging.getLogger("engram.storage").info("vectors are compared by each process, not by the server: %s", reason)


def _prefix(workspace: str) -> str:
    return f"closeness_{_digest(workspace)}_"


def _name(workspace: str, model: str) -> str:
    return _prefix(workspace) + _digest(model)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _about(
    statement: LiteralString, workspace: str, model: str, dims: int, names: Mapping[str, sql.Identifier] = _NO_NAMES
) -> sql.Composed:
    return sql.SQL(statement).format(
        name=sql.Identifier(_name(workspace, model)),
        workspace=sql.Literal(workspace),
        model=sql.Literal(model),
        dims=sql.Literal(dims),
        **names,
    )
