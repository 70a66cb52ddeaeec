"""docs/reference/errors.md: the classes of `engram.errors`, and the advice that goes with their codes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from docs.generators.tables import code, table

from engram import errors
from engram.errors import EngramError
from engram.operations import HINTS

_HEAD = """\
# Errors

`make docs` writes this page from `engram/errors.py`.

Every error that Engram raises is an `EngramError`. Its `code` never changes, so a program can rely on it. The HTTP
server answers with the *status*, and the command line ends with the *exit code*. The message says what was wrong and
what to do. `details()` returns data for programs. Over HTTP and MCP, and with `--json`, an error is `{"error":
{"code", "message", "details"}}`; HTTP and MCP add a `hint`.

All classes can be imported from `engram` if they stand in the column *from* as `engram`, otherwise from
`engram.errors`. An error below another one is a kind of it: `except NotFound` also catches `MemoryNotFound`.

"""


def page() -> str:
    public = set(__import__("engram").__all__)
    rows = [
        (
            f"{'↳ ' * depth}`{each.__name__}`",
            code(each.code),
            str(each.status),
            str(each.exit_code),
            (inspect.getdoc(each) or "").partition("\n")[0],
            code("engram" if each.__name__ in public else "engram.errors"),
        )
        for each, depth in _tree(EngramError, 0)
    ]
    text = _HEAD + table(("error", "code", "status", "exit code", "meaning", "from"), rows)
    text += "## Hints\n\nThe hint names operations. Over MCP it names the tools instead.\n\n"
    return text + table(("code", "hint"), ((code(name), hint) for name, hint in HINTS.items())).rstrip("\n") + "\n"


def _tree(error: type[EngramError], depth: int) -> Iterator[tuple[type[EngramError], int]]:
    yield error, depth
    # A program may have classes of its own; these are Engram's, in the order of the module.
    below = [each for each in vars(errors).values() if isinstance(each, type) and error in each.__bases__]
    for each in below:
        yield from _tree(each, depth + 1)
