"""The driver's errors: what they mean for a user of Engram, and which of them are worth another attempt.

A server that dies, starts, stops or becomes the primary refuses connections for a while. Such an error is *passing*:
the same call succeeds a little later. An error in the URL is not. When a connection fails, the driver has no error
code, only the server's text. A server that speaks another language than English is therefore tried for longer than
necessary; the error is the same.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg

from ..errors import EngramError, InvalidURL, StoreBusy, StoreError, StoreFull, StoreReadOnly, StoreUnavailable


class TookTooLong(psycopg.OperationalError):
    """A wait of Engram's own has ended: for a free connection, or for an answer."""


class OnStandby(psycopg.OperationalError):
    """A write transaction began on a server that only follows another one."""


#: Texts of servers, poolers and libpq about a state that ends by itself.
_PASSING = (
    "starting up",
    "shutting down",
    "in recovery mode",
    "not yet accepting connections",
    "hot standby mode is disabled",
    "server is in hot standby mode",
    "session is read-only",
    "too many clients",
    "too many connections",
    "connection slots are reserved",
    "server login has been failing",
    "server login failed",
    "server conn crashed",
    "server closed the connection unexpectedly",
    "terminating connection",
)
#: Texts about a wrong URL, or about a server that is set up in another way. Trying again gives the same.
_LASTING = (
    "authentication failed",
    "no password supplied",
    "does not exist",
    "no pg_hba.conf entry",
    "permission denied",
    "is not permitted to log in",
    "certificate",
    "does not support SSL",
    "unsupported startup parameter",
    "statement pooling mode",
)
_PASSING_CODES = frozenset({"57P01", "57P02", "57P03", "57P05", "53300"})
#: One host in the driver's report about several.
_ATTEMPT = re.compile(r"^- host: '?(?P<host>.*?)'?, port: '?(?P<port>.*?)'?, hostaddr: .*?: (?P<problem>.*)$", re.M)
#: What libpq puts before the problem itself, and which the reader knows from the list of hosts.
_PREAMBLE = re.compile(r'^(?:connection failed: )?(?:connection to server (?:at|on socket) "[^"]*".*? failed: )?')


def is_passing(error: Exception, *, known: bool) -> bool:
    """Whether an error of connecting, or of beginning a transaction, may be gone at the next attempt.

    `known` says that the address has worked before, or that the URL names several servers. Then a server that does not
    answer is one that is away for a while. Otherwise the address may be wrong, and the user should learn that at once.
    """
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return False
    if isinstance(error, OnStandby):
        return True
    if isinstance(error, TookTooLong | psycopg.errors.LockNotAvailable | psycopg.errors.DiskFull):
        return False
    if error.sqlstate is not None:
        return error.sqlstate in _PASSING_CODES or error.sqlstate.startswith("08")
    text = str(error)
    if any(lasting in text for lasting in _LASTING):
        return False
    return known or any(passing in text for passing in _PASSING)


def is_lost(error: BaseException, connection: psycopg.Connection[Any]) -> bool:
    """Whether the connection broke, so that the server's answer to the last statement is unknown."""
    return isinstance(error, psycopg.Error) and connection.closed


def lost(error: Exception, store: str) -> StoreUnavailable:
    """The connection broke before the commit was sent."""
    return StoreUnavailable(f"The connection to {store} was lost ({_problem(error)}); nothing was written. Try again.")


def lost_in_commit(error: Exception, store: str) -> StoreUnavailable:
    """The connection broke after the commit was sent, so that nobody but the server knows what came of it."""
    return StoreUnavailable(
        f"{store} did not confirm a write ({_problem(error)}). It may have been written, or not. Look before you "
        "write it again.",
        may_be_written=True,
    )


def translate(error: Exception, store: str) -> EngramError:
    """Turn a driver's error into one that tells the user what to do."""
    problem = _problem(error)
    match error:
        case OnStandby():
            return StoreUnavailable(
                f"{store} cannot be written now: the server that answers is a standby, and no primary took over in "
                "time. Try again."
            )
        case TookTooLong():
            return StoreUnavailable(f"{store} gave no connection in time ({problem}).")
        case psycopg.errors.LockNotAvailable() | psycopg.errors.DeadlockDetected():
            return StoreBusy(f"Other writers on {store} did not finish in time; try again.")
        case psycopg.errors.QueryCanceled():
            return StoreBusy(f"{store} cancelled a statement ({problem}); nothing was written. Try again.")
        case psycopg.errors.ReadOnlySqlTransaction() | psycopg.errors.InsufficientPrivilege():
            return StoreReadOnly(
                f"{store} cannot be written ({problem}). Connect to the primary server. If the store does not exist "
                "yet, run `engram init --store-only` as a user who may create its schema."
            )
        case psycopg.errors.DiskFull():
            return StoreFull(f"The disk that holds {store} is full; nothing was written. Free some space there.")
        case psycopg.OperationalError() if "unsupported startup parameter" in problem:
            return InvalidURL(
                f"The connection pooler of {store} refuses a parameter of this URL ({problem}). Remove it from the "
                "URL. To keep a server setting, set it for the role instead (ALTER ROLE ... SET ...)."
            )
        case psycopg.OperationalError() if "statement pooling mode" in problem:
            return StoreUnavailable(
                f"The connection pooler of {store} allows no transactions. Set its pool_mode to transaction or session."
            )
        case psycopg.OperationalError() | psycopg.errors.InterfaceError():
            return StoreUnavailable(
                f"{store} cannot be reached ({problem}). Check that the server runs and that the address, user, "
                "password and database name in the URL are right."
            )
        case psycopg.InternalError() if error.sqlstate is None:
            # Not from the server: the driver got two reports of a lost connection, from a pooler and from the system.
            return StoreUnavailable(f"The connection to {store} was lost ({problem}); nothing was written. Try again.")
        case psycopg.ProgrammingError() if error.sqlstate is None:
            return InvalidURL(f"{store} is not a valid PostgreSQL URL ({problem}).")
    return StoreError(f"{store}: {type(error).__name__}: {problem}")


def _problem(error: Exception) -> str:
    """The problem on one line. With several hosts, the problem of each."""
    text = str(error).strip()
    found = [(each["host"], each["port"], _PREAMBLE.sub("", each["problem"])) for each in _ATTEMPT.finditer(text)]
    if found:
        return "; ".join(f"{host}:{port}: {problem}" for host, port, problem in dict.fromkeys(found))
    return text.partition("\n")[0]
