"""The description of the interface (OpenAPI 3.1), made from the table of operations.

`GET /api/v1/openapi.json` answers with it. Parts that are not in the table describe their own paths (`Path`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..._version import VERSION
from ...operations import OPERATIONS, Input, Operation
from ...operations.results import RESULTS
from . import routes, versions
from .examples import REQUESTS
from .schemas import Schema, Schemas, example

#: What each status means. Every operation may answer with `_ALWAYS`, and some with more.
_STATUS = {
    400: "An argument is wrong.",
    401: "There is no token, or it is not valid.",
    403: "The token does not allow this.",
    404: "What the request names does not exist.",
    405: "The path does not answer this method.",
    408: "The body took too long to arrive.",
    409: "It does not fit the present state: a version, a lease, an idempotency key. `details` say what is there now.",
    413: "The body is too large.",
    421: "The server has another address than the one in Host.",
    429: "There were too many requests, or a limit on model calls is reached.",
    500: "A mistake in Engram.",
    502: "The language model gave no usable answer.",
    503: "The store is busy or cannot be used now. Try again.",
    507: "The disk that holds the store is full.",
}
_ALWAYS = (400, 401, 403, 404, 405, 408, 409, 413, 421, 429, 500, 503)
_THINKING = ("dream.run", "backlog.work")

_TAGS = {
    "": "The situation and the whole workspace",
    "session": "Sessions: agents at work",
    "message": "Messages between sessions",
    "lock": "Claims on resources",
    "memory": "Memories",
    "exchange": "What was said and done",
    "block": "Shared texts with versions; `world` is the world state",
    "dream": "Passes of dreaming, and what they propose",
    "backlog": "The embedding queue",
}

_KINDS: dict[str, Schema] = {
    "text": {"type": "string"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "whole": {"type": "integer"},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "object": {"type": "object"},
    "json": {},
    "duration": {"type": ["number", "string"], "description": "seconds, or a time such as 30s, 15m or 1h30m"},
}
_ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "description": "stable, for programs"},
                "message": {"type": "string", "description": "what was wrong, and with which value"},
                "hint": {"type": "string", "description": "what to do; may be empty"},
                "details": {"type": "object", "description": "data to act on, by code"},
            },
            "required": ["code", "message", "hint", "details"],
        }
    },
    "required": ["error"],
}
_ERROR_EXAMPLE = {
    "error": {
        "code": "session_not_found",
        "message": "There is no session 'x' in workspace 'default'.",
        "hint": "session.register starts one; session.list shows the existing ones.",
        "details": {},
    }
}
_WORKSPACE = {
    "name": "X-Engram-Workspace",
    "in": "header",
    "description": "The workspace; without it the token's, else the server's default.",
    "schema": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,63}$"},
}
_PROJECT = {
    "name": "X-Engram-Project",
    "in": "header",
    "description": "The project that the caller works in, such as acme/shop. Relative paths count from it.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200},
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Any text, new for each request. A repeated request with the same key gets the same answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[ -~]+$"},
}


WORKSPACE_HEADER: Schema = {"$ref": "#/components/parameters/workspace"}
ANY_JSON: Schema = {"description": "JSON.", "content": {"application/json": {"schema": {"type": "object"}}}}


class Path(NamedTuple):
    """A path outside the table of operations."""

    path: str
    method: str
    summary: str
    tag: str
    #: The type of the result; None: `responses` describe the answers.
    result: Any = None
    parameters: tuple[Schema, ...] = ()
    responses: Mapping[str, Schema] | None = None
    has_pages: bool = False


def describe(paths: Iterable[Path] = ()) -> dict[str, Any]:
    """The whole description."""
    schemas = Schemas()
    described: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS.values():
        for method in routes.methods_of(operation):
            described.setdefault(routes.path_of(operation), {})[method.lower()] = _operation(schemas, operation, method)
    for each in paths:
        described.setdefault(each.path, {})[each.method.lower()] = _path(schemas, each)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Engram",
            "version": VERSION,
            "description": "One memory for all of a person's agents. Every request carries a token.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": name or "workspace", "description": text} for name, text in _TAGS.items()],
        "paths": described,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token: `engram token create NAME`."}
            },
            "parameters": {"workspace": _WORKSPACE, "project": _PROJECT, "key": _KEY},
            "schemas": {"Error": _ERROR, **schemas.components},
            "responses": {
                str(status): {
                    "description": text,
                    "content": {
                        "application/json": {
                            "schema": {"$ref": "#/components/schemas/Error"},
                            "examples": {"error": {"value": _ERROR_EXAMPLE}},
                        }
                    },
                }
                for status, text in _STATUS.items()
            },
        },
    }


def _operation(schemas: Schemas, operation: Operation, method: str) -> dict[str, Any]:
    group = operation.name.partition(".")[0]
    made: dict[str, Any] = {
        "operationId": operation.name if method == routes.methods_of(operation)[0] else f"{operation.name}.post",
        "summary": operation.help,
        "description": f"Needs a token with scope {operation.scope}.",
        "tags": [group if group in _TAGS else "workspace"],
        "parameters": [{"$ref": "#/components/parameters/workspace"}, {"$ref": "#/components/parameters/project"}],
        "responses": _responses(schemas, operation),
    }
    if method == "GET":
        made["parameters"] += [parameter(each, REQUESTS[operation.name]) for each in operation.inputs]
        made["parameters"] += versions.describe(operation)
        return made
    if operation.scope != "read":
        made["parameters"].append({"$ref": "#/components/parameters/key"})
    made["parameters"] += versions.describe(operation)
    required = [each.name for each in operation.inputs if each.required]
    optional = {each.name: _or_null(_schema(each)) for each in operation.inputs if not each.required}
    body: Schema = {
        "type": "object",
        "properties": {each.name: optional.get(each.name, _schema(each)) for each in operation.inputs},
        "additionalProperties": False,
        # An earlier name of an argument is still accepted, but not described.
        **({"required": required} if required else {}),
    }
    made["requestBody"] = {
        "required": bool(required),
        "content": {"application/json": {"schema": body, "examples": {"request": {"value": REQUESTS[operation.name]}}}},
    }
    return made


def _responses(schemas: Schemas, operation: Operation) -> dict[str, Any]:
    kind = RESULTS[operation.name]
    statuses = [
        *_ALWAYS,
        *([502] if operation.name in _THINKING else []),
        *([507] if operation.scope != "read" else []),
    ]
    made = {"200": _answer(schemas, kind, has_pages=operation.page is not None)}
    headers = versions.describe_answer(operation)
    if headers:
        made["200"]["headers"] = headers
    if operation.name == "block.view":
        made["304"] = {"description": "The version is the one in If-None-Match.", "headers": headers}
    return {**made, **_problems(statuses)}


def _path(schemas: Schemas, path: Path) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": path.path.removeprefix("/api/v1/").strip("/").replace("/", "."),
        "summary": path.summary,
        "tags": [path.tag],
        "parameters": list(path.parameters),
    }
    answers = path.responses or {"200": _answer(schemas, path.result, has_pages=path.has_pages)}
    made["responses"] = {**answers, **_problems(_ALWAYS)}
    return made


def _answer(schemas: Schemas, kind: Any, *, has_pages: bool) -> dict[str, Any]:
    properties: Schema = {"result": schemas.of(kind)}
    value: dict[str, Any] = {"result": example(kind)}
    if has_pages:
        properties["next"] = {"type": ["string", "null"], "description": "the cursor of the next page; null at the end"}
        value["next"] = None
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {
        "description": "The result.",
        "content": {"application/json": {"schema": schema, "examples": {"answer": {"value": value}}}},
    }


def _problems(statuses: Iterable[int]) -> dict[str, Any]:
    return {str(status): {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _schema(wanted: Input) -> Schema:
    """The schema of an argument."""
    made = dict(_KINDS[wanted.kind])
    if wanted.choices:
        made["enum"] = list(wanted.choices)
    if wanted.bounds is not None and wanted.kind != "duration":
        made["minimum"], made["maximum"] = wanted.bounds
    if wanted.help:
        made["description"] = wanted.help
    return made


def _or_null(schema: Schema) -> Schema:
    """In a body, null counts as not given."""
    if "type" not in schema:
        return schema
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    choices = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [*kinds, "null"], **choices}


def parameter(wanted: Input, request: Mapping[str, object]) -> Schema:
    """An argument in a query string."""
    schema = _schema(wanted)
    made: Schema = {"name": wanted.name, "in": "query", "required": wanted.required}
    description = schema.pop("description", None)
    if description:
        made["description"] = description
    if wanted.kind in ("object", "json"):
        made["content"] = {"application/json": {"schema": schema}}
        return made
    made["schema"] = schema
    if wanted.name in request:
        made["example"] = request[wanted.name]
    return made
