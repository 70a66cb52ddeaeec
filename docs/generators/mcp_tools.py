"""docs/reference/mcp-tools.md: the tools as an agent sees them."""

from __future__ import annotations

import json

from docs.generators.operations import argument
from docs.generators.tables import table

from engram.interfaces.mcp import tools

_HEAD = """\
# MCP tools

`make docs` writes this page from the tools that `engram mcp` and `engram serve` offer. [The MCP server](../mcp.md)
says how a session is found, what an answer looks like and how to connect a client.

There are {count} tools. *Scope* is what a token needs for the call over HTTP. `session` is always optional: without
it a call acts as your session.

"""


def page() -> str:
    definitions = tools.definitions()
    text = _HEAD.format(count=len(definitions))
    for (tool, actions), definition in zip(tools.offered(), definitions, strict=True):
        annotations = definition["annotations"]
        assert isinstance(annotations, dict)
        marks = ", ".join(f"`{name}: {json.dumps(value)}`" for name, value in annotations.items())
        text += f"## {tool.name}\n\n{tool.about}\n\n{marks}\n\n"
        several = len(actions) > 1
        if several:
            known = f" Without `action` it is `{tool.default}`." if tool.default else ""
            text += f"The argument `action` chooses what to do.{known}\n\n"
        for action, operation in actions.items():
            if several:
                text += f"### {tool.name} {action}\n\n"
            text += f"{operation.help} Operation `{operation.name}`, scope `{operation.scope}`.\n\n"
            if operation.inputs:
                rows = map(argument, operation.inputs)
                text += table(("argument", "type", "", "meaning"), rows)
    return text.rstrip("\n") + "\n"
