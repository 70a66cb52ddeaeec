"""docs/reference/operations.md: the operations of the table as paths of the HTTP API."""

from __future__ import annotations

import inspect
from typing import Any

from docs.generators.tables import code, table

from engram.interfaces.http.routes import methods_of, path_of
from engram.operations import OPERATIONS, Input, Operation
from engram.operations.inputs import _KINDS
from engram.operations.results import RESULTS, ListOf, With

_HEAD = """\
# HTTP operations

`make docs` writes this page from the table of operations. [The server](../server.md) says how a request is made: the
token, the workspace, pages, idempotency keys, live events. `GET /api/v1/openapi.json` describes the same for programs.

`GET` takes the arguments as a query, `POST` takes a JSON object. Every answer is `{"result": …}`; a list in pages
also has `next`, the `cursor` of the following page. An error is `{"error": {"code", "message", "hint", "details"}}`
with the [status of its class](errors.md). The records are on [the library's page](library.md#records).

`session` names the session that acts. Over HTTP it is given with each request; the MCP server fills it in.

The types of arguments:

"""


def page() -> str:
    text = _HEAD + table(("type", "what it is"), ((kind, what) for kind, what in _KINDS.items()))
    groups: dict[str, list[Operation]] = {"The workspace": []}
    for operation in OPERATIONS.values():
        group, dot, _ = operation.name.partition(".")
        groups.setdefault(group if dot and group != "brief" else "The workspace", []).append(operation)
    for group, members in groups.items():
        text += f"## {group}\n\n" + "".join(_operation(each) for each in members)
    return text.rstrip("\n") + "\n"


def _operation(operation: Operation) -> str:
    ways = " and ".join(f"`{method} {path_of(operation)}`" for method in methods_of(operation))
    notes = [f"Scope `{operation.scope}`.", f"Returns {shown(RESULTS[operation.name])}."]
    if operation.page is not None:
        notes.append("The list comes in pages.")
    if operation.store_wide:
        notes.append("It is about all workspaces, so a token for one workspace does not allow it.")
    text = f"### {operation.name}\n\n{ways}\n\n{operation.help} {' '.join(notes)}\n\n"
    if not operation.inputs:
        return text
    return text + table(("argument", "type", "", "meaning"), map(argument, operation.inputs))


def argument(wanted: Input) -> tuple[str, str, str, str]:
    """Name, type, whether it is required, and meaning."""
    meaning = [wanted.help]
    if wanted.choices:
        meaning.append("one of " + ", ".join(map(code, wanted.choices)))
    if wanted.bounds is not None:
        meaning.append("from {:g} to {:g}".format(*wanted.bounds))
    if wanted.formerly:
        meaning.append(f"earlier name: `{wanted.formerly}`")
    return code(wanted.name), wanted.kind, "required" if wanted.required else "", "; ".join(filter(None, meaning))


def shown(result: Any) -> str:
    """What an operation returns, in words and names of records."""
    if isinstance(result, ListOf):
        return f"a list: {shown(result.each)}"
    if isinstance(result, With):
        return f"`{result.record.__name__}` with " + ", ".join(map(code, result.fields))
    if hasattr(result, "__total__"):
        fields = ", ".join(f'"{name}"' for name in result.__annotations__)
        return f"`{{{fields}}}`"
    if hasattr(result, "__args__"):
        parts = [shown(each) for each in result.__args__]
        return f"a list of {parts[0]}" if getattr(result, "__origin__", None) is list else " or ".join(parts)
    if result is str:
        return "text"
    return "null" if result is type(None) else code(inspect.formatannotation(result).rpartition(".")[2])
