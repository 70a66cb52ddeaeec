"""Requests made from the description of the interface, right and wrong ones, with Schemathesis."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from engram.interfaces.http import overview
from tests._running import Running
from tests.test_operations import Scene

#: A stream does not end.
ENDLESS = "/api/v1/events"
#: No 5xx, and every answer as declared: its status, its type, its headers and its shape. What is wrong is refused.
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
]


def operations() -> list[Any]:
    """Every operation of the description."""
    description = overview.description()
    # Every request carries a token. Otherwise all that could be learnt is 401.
    del description["security"]
    schema = schemathesis.openapi.from_dict(description)
    found: list[Any] = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]
    return [operation for operation in found if operation.path != ENDLESS]


def things(scene: Scene) -> dict[str, object]:
    """Arguments that name what there is. With random ones alone, most answers would be 404."""
    numbers = {"id": scene.memory, "to": scene.second, "memory": scene.second, "exchange": scene.turn, "version": 1}
    return {**numbers, "a": 1, "b": 2, "session": scene.me, "of": scene.me, "name": "plan", "old": "one"}


def fuzz(server: Running, operation: Any, examples: int, known: Mapping[str, object]) -> list[int]:
    """Send so many right and so many wrong requests to an operation; the statuses of the answers."""
    with requests.Session() as session, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {server.token('admin')}"
        sent = {"base_url": server.url, "session": session, "timeout": 60}
        right = _ask(operation, GenerationMode.POSITIVE, examples, known, sent)
        try:
            return right + _ask(operation, GenerationMode.NEGATIVE, examples, {}, sent)
        except Unsatisfiable:
            # A request without arguments cannot be wrong.
            assert not operation.query and not operation.body
            return right


def _ask(
    operation: Any, mode: GenerationMode, examples: int, known: Mapping[str, object], sent: Mapping[str, Any]
) -> list[int]:
    answered: list[int] = []

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if known and len(answered) % 2:
            _name_what_there_is(case, known)
        answered.append(case.call_and_validate(checks=CHECKS, **sent).status_code)

    ask()
    return answered


def _name_what_there_is(case: Any, known: Mapping[str, object]) -> None:
    if case.headers:
        case.headers.pop("X-Engram-Workspace", None)
    for arguments in (case.query, case.body):
        if isinstance(arguments, dict):
            for name in arguments.keys() & known.keys():
                # Some ids are those of sessions.
                of_session = name == "id" and isinstance(arguments[name], str)
                arguments[name] = known["session"] if of_session else known[name]
