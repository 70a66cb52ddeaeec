"""Compares vectors on a PostgreSQL server that has the pgvector extension.

Both engines store vectors as bytes. If pgvector is available, opening a store also creates the table `closeness`, which
holds the vectors in the extension's type. Its 16 bits per dimension represent the store's 8 bits exactly. A trigger on
`vectors` keeps the table up to date, so it is correct in every transaction, even if the writer does not know it. If
pgvector is missing, older than 0.8, or this role may not create it, no table is made, and the tiers compare vectors as
they do on SQLite.

A query compares all vectors of a small set. A large set has an HNSW index per workspace and model, so that only writers
of large workspaces have to maintain one. The search is iterative, because the filter by shelf could otherwise leave too
few results. The index is built outside transactions, without blocking writers. Until it is ready, queries compare all
vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, LiteralString

import psycopg
from psycopg import sql

from .engine import Closest
from .postgres_sql import numbered
from .postgres_wire import Request

if TYPE_CHECKING:
    from .engine import Answer, Row
    from .postgres_transaction import PostgresTransaction

    Connection = psycopg.Connection[Row]

#: The first version with iterative scans.
_OLDEST = (0, 8)
#: Approximate number of vectors in the sample that estimates the mean. If the sample has fewer than `_TOO_FEW`, all
#: vectors are compared.
_SAMPLE, _TOO_FEW = 2_000, 200
#: pgvector cannot index vectors with more dimensions.
_MOST_DIMS = 4_000
#: Maximum number of vectors that one search reads from the index, in total and at once.
_MOST_SCANNED, _MOST_AT_ONCE = 100_000, 1_000
#: How often building an index is tried if another process interferes.
_ATTEMPTS = 3

_STATE = """
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
_CREATE_TABLE = """
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

-- Runs with the owner's rights, because a role that may write `vectors` may have no rights on this table.
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
_DROP_TABLE = """
DROP TRIGGER IF EXISTS keep_closeness ON vectors;
DROP FUNCTION IF EXISTS keep_closeness();
DROP FUNCTION IF EXISTS halfvec_of(BYTEA);
DROP TABLE IF EXISTS closeness;
"""
#: An import may have brought vectors of another length, which cannot be compared.
_ALL = """
WITH compared AS MATERIALIZED (
  SELECT item, 1 - (embedding::vector <=> %(query)s::vector) AS cosine FROM closeness
  WHERE workspace = %(workspace)s AND model = %(model)s AND shelf = ANY(%(shelves)s)
    AND vector_dims(embedding) = vector_dims(%(query)s::vector)
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
#: Always samples the same pages of the table, so that the same query gives the same answer in every process.
_SPREAD = """
SELECT COUNT(*), avg(cosine), stddev_pop(cosine)
FROM (
  SELECT 1 - (embedding::vector <=> %(query)s::vector) AS cosine
  FROM closeness TABLESAMPLE SYSTEM (%(percent)s) REPEATABLE (1)
  WHERE workspace = %(workspace)s AND model = %(model)s AND shelf = ANY(%(shelves)s)
) AS sample
"""
_SEARCH_SETTINGS = """
SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.max_scan_tuples', %(scanned)s, true),
       set_config('hnsw.ef_search', %(at_once)s, true)
"""
_IS_INDEXED = """
SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(format('%%I.%%I', current_schema, %(index)s::text)) AND indisvalid
"""
_INDEXES = """
SELECT c.relname, i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = to_regclass(format('%%I.closeness', %(schema)s::text)) AND starts_with(c.relname, %(prefix)s)
"""
#: A process that builds or drops an index concurrently holds this lock. Autovacuum, which has no user, also takes it
#: but releases it on request.
_IS_BUILDING = """
SELECT 1 FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.relation = to_regclass(format('%%I.closeness', %(schema)s::text)) AND l.mode = 'ShareUpdateExclusiveLock'
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND a.usesysid IS NOT NULL
LIMIT 1
"""
_DIMS = """
SELECT {home}.vector_dims(embedding) FROM {schema}.closeness WHERE workspace = {workspace} AND model = {model} LIMIT 1
"""
_CREATE_INDEX = """
CREATE INDEX CONCURRENTLY {name} ON {schema}.closeness
USING hnsw ((embedding::{home}.halfvec({dims})) {home}.halfvec_cosine_ops)
WHERE workspace = {workspace} AND model = {model}
"""
#: For statements that find their tables through the search path.
_NO_NAMES: Mapping[str, sql.Identifier] = {}


#: What `judged` returns if the server could compare vectors after `prepare`.
UNPREPARED = ""


def ask_state(schema: str) -> Request:
    """The question whose answer `judged` judges."""
    form = numbered(_STATE)
    return Request(form.sql, [schema] * len(form.names))


def judged(state: Row) -> str | None:
    """The extension's schema; None if the server cannot compare vectors; `UNPREPARED` if only `prepare` can tell."""
    available, version, home, there, readable = state
    if there == "nothing" and not _new_enough(version or available):
        _log_unavailable(f"its pgvector is {version or available or 'missing'}")
        return None
    if there != "all" or not _new_enough(version):
        return UNPREPARED
    if not readable:
        _log_unavailable("this role has no right to read the table closeness")
        return None
    return str(home)


def prepare(connection: Connection, schema: str) -> str | None:
    """Create the table if possible. Returns the extension's schema, or None if the server cannot compare vectors.

    Expects a transaction whose search path begins with the store's schema. A failure leaves the transaction usable.
    """
    try:
        home = judged(_read_state(connection, schema))
        return _create_table(connection, schema) if home is UNPREPARED else home
    except (
        psycopg.errors.InsufficientPrivilege,
        psycopg.errors.FeatureNotSupported,
        psycopg.errors.InvalidSchemaName,
        psycopg.errors.LockNotAvailable,
        psycopg.errors.ReadOnlySqlTransaction,
        psycopg.errors.UndefinedFile,
    ) as error:
        _log_unavailable(str(error).partition("\n")[0])
        return None


def _create_table(connection: Connection, schema: str) -> str | None:
    with connection.transaction():
        # One process at a time in the whole database, because an extension belongs to the database.
        connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('engram/pgvector', 0))")
        available, version, home, there, _ = _read_state(connection, schema)
        if there == "rest" or not _new_enough(version or available):
            # The extension was dropped, and the column of its type with it.
            connection.execute(_DROP_TABLE.encode())
        if not _new_enough(version or available):
            _log_unavailable("its pgvector was dropped")
            return None
        if version is None:
            # Not in the store's schema: dropping that schema would drop the extension for other stores too.
            connection.execute("CREATE EXTENSION vector WITH SCHEMA public")
            home = "public"
        if there != "all":
            path = sql.SQL(", ").join([sql.Identifier(schema), sql.Identifier(home)])
            # The trigger keeps this path. Temporary tables come last, so that they do not hide the store's tables.
            connection.execute(sql.SQL("SET LOCAL search_path TO {}, pg_temp").format(path))
            connection.execute("LOCK TABLE vectors IN SHARE ROW EXCLUSIVE MODE")
            connection.execute(_CREATE_TABLE.encode())
    return str(home)


def closest(
    tx: PostgresTransaction,
    workspace: str,
    model: str,
    query: Sequence[float],
    shelves: Sequence[str],
    most: int,
    size: int | None,
) -> Callable[[], Closest]:
    """See `Transaction.closest`."""
    values: dict[str, object] = {
        "workspace": workspace,
        "model": model,
        "query": f"[{','.join(map(repr, query))}]",
        "shelves": list(shelves),
        "most": most,
    }
    if size is None:
        return _compare_all(tx, values)
    index = {"index": _name(workspace, model)}
    spread = {**values, "percent": min(100.0, 100 * _SAMPLE / size)}
    is_indexed, sample = _ask(tx, _IS_INDEXED, index), _ask(tx, _SPREAD, spread)

    def answer() -> Closest:
        if not is_indexed.one():
            return _compare_all(tx, values)()
        ((count, mean, spread),) = sample.all()
        if count < _TOO_FEW:
            return _compare_all(tx, values)()
        settings = {"scanned": str(_MOST_SCANNED), "at_once": str(min(_MOST_AT_ONCE, 2 * most))}
        _ask(tx, _SEARCH_SETTINGS, settings)
        # The workspace and the model are literals, as in the index's condition. Otherwise the index is not used.
        nearest = _fill_in(_NEAREST, workspace, model, len(query)).as_string(tx.connection)
        found = _ask(tx, nearest, {name: values[name] for name in ("query", "shelves", "most")})
        return Closest([(item, cosine) for item, cosine in found.all()], mean, spread)

    return answer


def _compare_all(tx: PostgresTransaction, values: dict[str, object]) -> Callable[[], Closest]:
    asked = _ask(tx, _ALL, values)

    def answer() -> Closest:
        rows = asked.all()
        # Every row repeats the mean and the spread.
        _, _, mean, spread = rows[0] if rows else (0, 0.0, 0.0, 0.0)
        return Closest([(item, cosine) for item, cosine, _, _ in rows], mean, spread)

    return answer


def _ask(tx: PostgresTransaction, sql: str, values: Mapping[str, object]) -> Answer:
    """Ask with a statement in the driver's form."""
    form = numbered(sql)
    return tx.put(form.sql, [values[name] for name in form.names])


def index(connection: Connection, schema: str, home: str, workspace: str, models: Sequence[str]) -> None:
    """Make an index of the workspace's vectors for each of these models, and drop those for other models.

    Expects a connection in autocommit mode. Does nothing while another process builds an index, which the lock on the
    table shows. An advisory lock would span several statements, which a pooler may send to different connections.
    """
    for _ in range(_ATTEMPTS):
        if connection.execute(_IS_BUILDING, {"schema": schema}).fetchone():
            return
        try:
            _update_indexes(connection, schema, home, workspace, models)
            return
        except (psycopg.errors.DuplicateTable, psycopg.errors.UniqueViolation, psycopg.errors.DeadlockDetected):
            # Another process began at the same moment. The next attempt checks whether it is still building.
            continue


def _update_indexes(connection: Connection, schema: str, home: str, workspace: str, models: Sequence[str]) -> None:
    names = {"schema": sql.Identifier(schema), "home": sql.Identifier(home)}
    wanted = {_name(workspace, model): model for model in models}
    rows = connection.execute(_INDEXES, {"schema": schema, "prefix": _prefix(workspace)}).fetchall()
    there: dict[str, bool] = dict(rows)
    for name, valid in there.items():
        # No process is building an index, so an invalid one is the rest of an interrupted build.
        if name not in wanted or not valid:
            connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(schema, name)))
    for name, model in wanted.items():
        for (dims,) in connection.execute(_fill_in(_DIMS, workspace, model, 0, names)).fetchall():
            if not there.get(name) and dims <= _MOST_DIMS:
                connection.execute(_fill_in(_CREATE_INDEX, workspace, model, dims, names))


def _read_state(connection: Connection, schema: str) -> Row:
    row = connection.execute(_STATE, {"schema": schema}).fetchone()
    assert row is not None
    return row


def _new_enough(version: str | None) -> bool:
    return version is not None and tuple(int(part) for part in version.split(".")[:2]) >= _OLDEST


def _log_unavailable(reason: str) -> None:
    import logging

    logging.getLogger("engram.storage").info("this process compares vectors, because the server cannot: %s", reason)


def _prefix(workspace: str) -> str:
    return f"closeness_{_digest(workspace)}_"


def _name(workspace: str, model: str) -> str:
    return _prefix(workspace) + _digest(model)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _fill_in(
    statement: LiteralString, workspace: str, model: str, dims: int, names: Mapping[str, sql.Identifier] = _NO_NAMES
) -> sql.Composed:
    return sql.SQL(statement).format(
        name=sql.Identifier(_name(workspace, model)),
        workspace=sql.Literal(workspace),
        model=sql.Literal(model),
        dims=sql.Literal(dims),
        **names,
    )
