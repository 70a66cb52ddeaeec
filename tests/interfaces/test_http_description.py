"""The description of the interface: complete, with examples, and true."""

from __future__ import annotations

from typing import Any

import httpx
import jsonschema
import pytest

from engram import Engram
from engram.interfaces.http import examples, openapi, overview, routes, schemas
from engram.operations import OPERATIONS, check_arguments, require_arguments, run
from engram.operations.results import RESULTS
from tests._running import Running
from tests.interfaces._fuzzing import fuzz, operations, things
from tests.test_operations import CASES, Scene


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return overview.description()


def schema_of(described: dict[str, Any], place: dict[str, Any]) -> dict[str, Any]:
    """A schema that stands for itself, with all components that it may refer to."""
    return {"components": described["components"], **place}


def validate(described: dict[str, Any], schema: dict[str, Any], value: object) -> None:
    jsonschema.validate(value, schema_of(described, schema), cls=jsonschema.Draft202012Validator)


@pytest.mark.requirement("SERVER-7")
def test_the_description_is_valid_openapi_and_needs_a_token(server: Running, admin: httpx.Client) -> None:
    answer = admin.get("/api/v1/openapi.json")
    assert answer.status_code == 200
    assert answer.json()["openapi"] == "3.1.0"
    with server.client("") as nobody:
        assert nobody.get("/api/v1/openapi.json").status_code == 401


@pytest.mark.requirement("SERVER-7")
def test_every_operation_is_described_with_its_arguments_and_examples(described: dict[str, Any]) -> None:
    assert examples.REQUESTS.keys() == OPERATIONS.keys() == RESULTS.keys()
    for name, operation in OPERATIONS.items():
        for method in routes.methods_of(operation):
            found = described["paths"][routes.path_of(operation)][method.lower()]
            assert found["summary"] == operation.help
            assert operation.scope in found["description"]
            answer = found["responses"]["200"]["content"]["application/json"]
            validate(described, answer["schema"], answer["examples"]["answer"]["value"])
            assert {"400", "401", "403", "404", "405", "409", "413", "429", "500", "503"} <= found["responses"].keys()
            if method == "POST":
                body = found["requestBody"]["content"]["application/json"]
                assert body["schema"]["properties"].keys() == {each.name for each in operation.inputs}
                validate(described, body["schema"], body["examples"]["request"]["value"])
            else:
                parameters = [each for each in found["parameters"] if each.get("in") == "query"]
                assert [each["name"] for each in parameters] == [each.name for each in operation.inputs]
                assert [each["required"] for each in parameters] == [each.required for each in operation.inputs]
        values = check_arguments(operation, examples.REQUESTS[name])
        require_arguments(operation, values)


@pytest.mark.requirement("SERVER-7")
def test_bounds_and_choices_are_those_of_the_table(described: dict[str, Any]) -> None:
    body = described["paths"]["/api/v1/recall"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert (body["properties"]["k"]["minimum"], body["properties"]["k"]["maximum"]) == (1, 100)
    assert body["properties"]["mode"]["enum"] == ["hybrid", "words", "vectors", None]
    assert body["required"] == ["query"]
    assert body["additionalProperties"] is False


@pytest.mark.requirement("SERVER-7")
def test_every_path_of_the_interface_is_described(server: Running, described: dict[str, Any]) -> None:
    paths = {routes.path_of(operation) for operation in OPERATIONS.values()}
    more = {"/api/v1/workspaces", "/api/v1/sessions/recent", "/api/v1/dreams", "/api/v1/events", "/metrics"}
    assert described["paths"].keys() == paths | more | {"/api/v1/openapi.json"}
    names = [each["operationId"] for path in described["paths"].values() for each in path.values()]
    assert len(set(names)) == len(names)
    tags = {tag for path in described["paths"].values() for each in path.values() for tag in each["tags"]}
    assert tags == {tag["name"] for tag in described["tags"]}


@pytest.mark.requirement("SERVER-7")
def test_what_each_operation_returns_is_as_declared(eng: Engram) -> None:
    made = schemas.Schemas()
    kinds = {name: made.of(kind) for name, kind in RESULTS.items()}
    for place, (name, (arguments, _)) in enumerate(CASES.items()):
        view = eng.workspace(f"w{place}")
        result = run(view, OPERATIONS[name], arguments(Scene(view)))["result"]
        whole = {"components": {"schemas": made.components}, **kinds[name]}
        jsonschema.validate(result, whole, cls=jsonschema.Draft202012Validator)


@pytest.mark.requirement("SERVER-7")
def test_a_type_without_a_schema_is_a_mistake() -> None:
    with pytest.raises(TypeError, match="no schema"):
        schemas.Schemas().of(complex)
    assert openapi.describe()["paths"].keys() == {routes.path_of(operation) for operation in OPERATIONS.values()}


@pytest.mark.requirement("SERVER-8")
@pytest.mark.parametrize("server", ["sqlite"], indirect=True)
def test_every_answer_to_random_requests_is_as_declared(server: Running) -> None:
    # With many more examples, and on both engines, in tests/stress.
    known = things(Scene(server.eng))
    for operation in operations():
        assert fuzz(server, operation, 2, known)
