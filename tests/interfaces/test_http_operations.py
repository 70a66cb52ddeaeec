"""Operations over HTTP: a path each, one shape for answers and errors, and the same results as in Python."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx
import pytest

from engram import Engram
from engram.interfaces.http import routes
from engram.operations import OPERATIONS
from tests._running import Running
from tests.test_operations import CASES, Scene


def in_query(arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments as a program writes them into a URL."""
    shown: dict[str, Any] = {}
    for name, value in arguments.items():
        shown[name] = json.dumps(value) if isinstance(value, bool | dict) else value
    return shown


def ask(client: httpx.Client, name: str, arguments: dict[str, Any], **headers: str) -> httpx.Response:
    """Call an operation by its first method."""
    operation = OPERATIONS[name]
    path = routes.path_of(operation)
    if routes.methods_of(operation)[0] == "GET":
        return client.get(path, params=in_query(arguments), headers=headers)
    return client.post(path, json=arguments, headers=headers)


@pytest.mark.requirement("SERVER-1")
def test_every_operation_has_a_path_and_does_there_what_it_does_in_python(server: Running, admin: httpx.Client) -> None:
    project = Engram.project_of(".")
    for place, (name, (arguments, worked)) in enumerate(CASES.items()):
        workspace = f"all-{place}"
        given = arguments(Scene(server.eng.workspace(workspace)))
        answer = ask(admin, name, given, **{"X-Engram-Workspace": workspace, "X-Engram-Project": str(project)})
        assert answer.status_code == 200, f"{name}: {answer.text}"
        assert answer.headers["content-type"] == "application/json"
        assert answer.json().keys() == ({"result", "next"} if OPERATIONS[name].page else {"result"})
        assert worked(answer.json()["result"]), f"{name}: {answer.text}"


@pytest.mark.requirement("SERVER-1")
def test_reads_are_get_the_rest_is_post_and_a_question_is_both(admin: httpx.Client) -> None:
    by_method = {name: routes.methods_of(operation) for name, operation in OPERATIONS.items()}
    assert by_method["sitrep"] == ("GET",)
    assert by_method["session.log"] == by_method["forget"] == ("POST",)
    assert [name for name, methods in by_method.items() if len(methods) == 2] == ["recall", "context"]
    asked = {"query": "tea"}
    for answer in (admin.get("/api/v1/recall", params=asked), admin.post("/api/v1/recall", json=asked)):
        assert (answer.status_code, answer.json()) == (200, {"result": []})
    assert admin.head("/api/v1/sitrep").status_code == 200
    assert admin.head("/api/v1/sitrep").content == b""


@pytest.mark.requirement("SERVER-1")
def test_the_workspace_is_that_of_the_header_else_of_the_token_else_of_the_server(server: Running) -> None:
    def where(client: httpx.Client, **headers: str) -> str:
        text: str = client.get("/api/v1/sitrep", headers=headers).json()["result"]
        return text.partition("Situation in ")[2].partition(",")[0]

    with server.client() as everywhere, server.client(server.token("read", "mine")) as only_mine:
        assert where(everywhere) == "default"
        assert where(everywhere, **{"X-Engram-Workspace": "other"}) == "other"
        assert where(only_mine) == "mine"
        wrong = everywhere.get("/api/v1/sitrep", headers={"X-Engram-Workspace": "Not A Name"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (400, "invalid_input")


@pytest.mark.requirement("SERVER-32")
def test_what_a_token_writes_has_its_name_as_author(server: Running) -> None:
    with server.client(server.token("write", "authors", "laptop of the writer")) as client:
        made = client.post("/api/v1/remember", json={"text": "Tea is served at five"}).json()["result"]
        assert made["author"] == "laptop of the writer"
        client.post("/api/v1/block/create", json={"name": "plan"})
        client.post("/api/v1/block/append", json={"name": "plan", "content": "one"})
        history = client.get("/api/v1/block/history", params={"name": "plan"}).json()["result"]
        assert [edit["author"] for edit in history] == ["laptop of the writer"]


@pytest.mark.requirement("SERVER-1")
def test_the_server_s_own_folder_says_nothing_about_a_caller(server: Running, admin: httpx.Client) -> None:
    headers = {"X-Engram-Workspace": "elsewhere"}
    made = admin.post("/api/v1/session/register", json={"type": "codex", "summary": "x"}, headers=headers).json()
    session = made["result"]["id"]
    shown = admin.get("/api/v1/session/show", params={"id": session}, headers=headers).json()["result"]
    assert shown["project"] is None
    claim = {"session": session, "resource": "/etc/../etc/hostname"}
    lease = admin.post("/api/v1/lock/claim", json=claim, headers=headers).json()["result"]
    assert lease["resource"] == "/etc/hostname"


#: A path with its query, and what the error says about it.
WRONG_QUERIES = [
    ("recall?query=x&k=five", "k is 'five'; it must be a whole number from 1 to 100."),
    ("recall?query=x&k=0", "k is 0; it must be a whole number from 1 to 100."),
    ("recall?query=x&k=2.5", "k is '2.5'; it must be a whole number from 1 to 100."),
    ("recall?query=x&min_score=high", "min_score is 'high'; it must be a number."),
    ("recall?query=x&min_score=nan", "min_score is 'nan'; it must be a number."),
    ("recall?query=x&mode=best", "mode is 'best'; it must be one of hybrid, words, vectors."),
    ("session/list?all=perhaps", "all is 'perhaps'; it must be true or false."),
    ("recall?query=x&query=y", "'query' is given twice."),
    ("recall", "recall needs 'query' (a question or a few words)."),
    ("stats?all=true", "stats has no argument 'all'. It takes no arguments."),
    ("recall?query=%FF", "The query string is not valid: it must be percent-encoded UTF-8."),
    ("session/list?limit=-1", "limit is -1; it must be at least 0."),
    ("session/list?cursor=x", "cursor is not the `next` of an earlier answer of this operation."),
]


@pytest.mark.requirement("SERVER-6")
@pytest.mark.parametrize(("path", "said"), WRONG_QUERIES, ids=[path for path, _ in WRONG_QUERIES])
def test_a_wrong_query_is_refused_in_the_words_of_the_table(admin: httpx.Client, path: str, said: str) -> None:
    answer = admin.get(f"/api/v1/{path}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")
    assert answer.json()["error"]["message"].startswith(said)


@pytest.mark.requirement("SERVER-6")
def test_a_list_in_a_query_is_given_by_naming_it_again(server: Running, admin: httpx.Client) -> None:
    eng = server.eng.workspace("listed")
    eng.remember("Tea at five", kind="fact")
    eng.remember("Tea is never sweet", kind="preference")
    eng.remember("Tea was invented", kind="note")
    found = admin.get(
        "/api/v1/recall?query=tea&kinds=fact&kinds=preference&min_score=0", headers={"X-Engram-Workspace": "listed"}
    )
    assert {hit["label"] for hit in found.json()["result"]} == {"fact", "preference"}


#: A body that is not a request, and what the error says about it.
WRONG_BODIES = [
    (b"{", "The body is not valid JSON."),
    (b"[]", "The body must be a JSON object with the arguments by name."),
    (b'{"text": NaN}', "NaN is not a JSON number."),
    (b'{"importance": -Infinity, "text": "x"}', "-Infinity is not a JSON number."),
    (b'{"text": "a", "text": "b"}', "A JSON object names a member twice."),
    (b'{"text": "\xff"}', "The body is not UTF-8."),
    (b'{"text": "\\ud800"}', "text has a lone surrogate at position 0"),
    (b'{"text": "a\\u0000b"}', "text has a NUL character at position 1."),
    (b"[" * 100_000, "The body is nested too deeply."),
    (b'{"importance": ' + b"9" * 5_000 + b"}", "The body is not valid JSON."),
    (b'{"text": 5}', "text is 5; it must be text."),
    (b"\xef\xbb\xbf{}", "The body is not valid JSON."),
]


@pytest.mark.requirement("SERVER-5", "SERVER-6")
@pytest.mark.parametrize(("body", "said"), WRONG_BODIES, ids=[repr(body[:30]) for body, _ in WRONG_BODIES])
def test_a_body_that_is_no_request_is_refused(admin: httpx.Client, body: bytes, said: str) -> None:
    answer = admin.post("/api/v1/remember", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")
    assert answer.json()["error"]["message"].startswith(said)


@pytest.mark.requirement("SERVER-6")
def test_a_body_of_another_type_is_refused(admin: httpx.Client) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = admin.post("/api/v1/remember", content=b'{"text": "x"}', headers={"Content-Type": kind})
        assert answer.status_code == 400
        assert "Content-Type: application/json" in answer.json()["error"]["message"]
    kind = "application/json; charset=utf-8"
    answer = admin.post("/api/v1/session/list", content=b"", headers={"Content-Type": kind})
    assert answer.status_code == 405


@pytest.mark.requirement("SERVER-5")
def test_every_refusal_has_the_one_shape(server: Running, admin: httpx.Client) -> None:
    with server.client("") as nobody, server.client(server.token("read")) as reader:
        not_let_in = [
            (403, "forbidden", reader.post("/api/v1/remember", json={"text": "x"})),
            (401, "unauthorized", nobody.get("/api/v1/sitrep")),
        ]
    refused = [
        *not_let_in,
        (400, "invalid_input", admin.get("/api/v1/recall")),
        (404, "no_such_path", admin.get("/api/v1/nothing")),
        (404, "no_such_path", admin.get("/api/v1/sitrep/")),
        (404, "session_not_found", admin.get("/api/v1/session/show", params={"id": "x"})),
        (405, "method_not_allowed", admin.delete("/api/v1/sitrep")),
        (405, "method_not_allowed", admin.post("/health")),
        (405, "method_not_allowed", admin.get("/api/v1/session/log")),
    ]
    for status, code, answer in refused:
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
        assert answer.json().keys() == {"error"}
        assert answer.json()["error"].keys() == {"code", "message", "hint", "details"}
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-request-id"]
    assert admin.delete("/api/v1/sitrep").headers["allow"] == "GET, HEAD"
    assert admin.get("/api/v1/session/log").headers["allow"] == "POST"


@pytest.mark.requirement("SERVER-5")
def test_a_mistake_in_engram_is_told_without_what_it_was_about(
    server: Running, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> object:
        raise ValueError("the secret of the store is xyzzy")

    monkeypatch.setattr("engram.coordination.sitrep.sitrep", fail)
    answer = admin.get("/api/v1/sitrep")
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "error")
    assert "xyzzy" not in answer.text
    assert "xyzzy" not in caplog.text
    assert "ValueError at " in caplog.text
    assert "test_http_operations.py" in caplog.text


@pytest.mark.requirement("SERVER-14")
def test_a_large_answer_is_compressed_for_a_client_that_accepts_it(server: Running, admin: httpx.Client) -> None:
    server.eng.workspace("large").world.set("the world state has a line\n" * 100)

    def view(accepts: str) -> httpx.Response:
        headers = {"X-Engram-Workspace": "large", "Accept-Encoding": accepts}
        return admin.get("/api/v1/block/view", params={"name": "world"}, headers=headers)

    plain = view("identity")
    assert "content-encoding" not in plain.headers
    for accepts in ("gzip", "br, gzip;q=0.8", "deflate, gzip"):
        packed = view(accepts)
        assert packed.headers["content-encoding"] == "gzip"
        assert packed.headers["vary"] == "accept-encoding"
        assert packed.json() == plain.json()
        assert int(packed.headers["content-length"]) < len(plain.content) / 3
    assert "content-encoding" not in view("br, gzip;q=0").headers
    assert "content-encoding" not in admin.get("/api/v1/stats", headers={"Accept-Encoding": "gzip"}).headers
    with admin.stream("GET", "/api/v1/openapi.json", headers={"Accept-Encoding": "gzip"}) as answer:
        assert json.loads(gzip.decompress(b"".join(answer.iter_raw())))["openapi"].startswith("3.1")


@pytest.mark.requirement("SERVER-10")
def test_a_list_goes_on_at_its_cursor_while_others_write(server: Running, admin: httpx.Client) -> None:
    eng = server.eng.workspace("pages")
    made = [eng.remember(f"Fact number {number}").id for number in range(5)]
    sessions = [eng.sessions.register("test", f"session {number}") for number in range(5)]
    turns = [eng.exchanges.add(sessions[0], "user", f"turn {number}") for number in range(5)]

    def pages(path: str, *, others_write: bool = True, **given: Any) -> list[Any]:
        found, cursor = [], None
        while True:
            params = {"limit": 2, **given, **({"cursor": cursor} if cursor else {})}
            answer = admin.get(f"/api/v1/{path}", params=params, headers={"X-Engram-Workspace": "pages"}).json()
            found += answer["result"]
            if others_write:
                eng.remember(f"Stored meanwhile: {path} {len(found)}")
                eng.sessions.heartbeat(sessions[0])
            cursor = answer["next"]
            if cursor is None:
                return found

    assert [each["id"] for each in pages("memory/list") if each["id"] in made] == made[::-1]
    assert [each["id"] for each in pages("session/list", all="true")] == sessions[::-1]
    assert [each["id"] for each in pages("session/list")] == sessions[::-1]
    assert [each["id"] for each in pages("exchange/history", id=sessions[0])] == turns
    assert [each["id"] for each in pages("exchange/timeline")] == turns[::-1]
    numbers = [each["number"] for each in pages("changes", others_write=False)]
    assert numbers == sorted(set(numbers))
    whole = admin.get("/api/v1/memory/list?limit=0", headers={"X-Engram-Workspace": "pages"}).json()
    assert whole["next"] is None
    assert len(whole["result"]) > 5


@pytest.mark.requirement("SERVER-10")
def test_sessions_at_work_that_fit_on_a_page_come_by_their_heartbeat(server: Running, admin: httpx.Client) -> None:
    eng = server.eng.workspace("beats")
    first, second = (eng.sessions.register("test", "at work") for _ in range(2))
    eng.sessions.heartbeat(first)
    found = admin.get("/api/v1/session/list", headers={"X-Engram-Workspace": "beats"}).json()
    assert [each["id"] for each in found["result"]] == [first, second]
    assert found["next"] is None


@pytest.mark.requirement("SERVER-11")
def test_a_block_has_its_version_as_etag(server: Running, admin: httpx.Client) -> None:
    headers = {"X-Engram-Workspace": "versions"}

    def view(**more: str) -> httpx.Response:
        return admin.get("/api/v1/block/view", params={"name": "world"}, headers={**headers, **more})

    def update(content: str, **more: str) -> httpx.Response:
        body = {"name": "world", "content": content}
        return admin.post("/api/v1/block/update", json=body, headers={**headers, **more})

    assert update("one").headers["etag"] == '"1"'
    assert view().headers["etag"] == '"1"'
    for known in ('"1"', 'W/"1"', '"7", "1"', "*"):
        unchanged = view(**{"If-None-Match": known})
        assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", '"1"')
    assert update("two", **{"If-Match": '"1"'}).headers["etag"] == '"2"'
    assert view(**{"If-None-Match": '"1"'}).json()["result"]["content"] == "two"
    stale = update("three", **{"If-Match": '"1"'})
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "version_conflict")
    assert stale.json()["error"]["details"]["current"] == 2
    assert view().json()["result"]["content"] == "two"
    old = admin.get("/api/v1/block/view", params={"name": "world", "version": 1}, headers=headers)
    assert "etag" not in old.headers


@pytest.mark.requirement("SERVER-11")
def test_an_edit_of_a_memory_names_the_version_that_it_changes(server: Running, admin: httpx.Client) -> None:
    memory = server.eng.workspace("versions").remember("The staging port is 5432")

    def update(text: str, version: int | None = None, match: str | None = None) -> httpx.Response:
        body = {"id": memory.id, "text": text, "expected_version": version}
        headers = {"X-Engram-Workspace": "versions", **({"If-Match": match} if match else {})}
        return admin.post("/api/v1/memory/update", json=body, headers=headers)

    assert update("Port 6543", 1).headers["etag"] == '"2"'
    for stale in (update("Port 7654", 1), update("Port 7654", match='"1"')):
        assert (stale.status_code, stale.json()["error"]["code"]) == (409, "version_conflict")
    assert server.eng.workspace("versions").memories.get(memory.id).content == "Port 6543"
    assert update("Port 7654", match='"2"').json()["result"]["version"] == 3


@pytest.mark.requirement("SERVER-11")
def test_every_edit_of_a_block_takes_if_match(server: Running, admin: httpx.Client) -> None:
    eng = server.eng.workspace("edits")
    eng.blocks.create("plan", "one two")
    edits: dict[str, dict[str, object]] = {
        "update": {"content": "x"},
        "append": {"content": "x"},
        "replace": {"old": "one", "content": "x"},
        "restore": {"version": 1},
    }
    for name, arguments in edits.items():
        answer = admin.post(
            f"/api/v1/block/{name}",
            json={"name": "plan", **arguments},
            headers={"X-Engram-Workspace": "edits", "If-Match": '"9"'},
        )
        assert (answer.status_code, answer.json()["error"]["details"]["current"]) == (409, 1)
    for given, said in (("seven", "If-Match must be"), ('"2"', "name different versions")):
        answer = admin.post(
            "/api/v1/block/update",
            json={"name": "plan", "content": "x", "expected_version": 1},
            headers={"X-Engram-Workspace": "edits", "If-Match": given},
        )
        assert answer.status_code == 400
        assert said in answer.json()["error"]["message"]


@pytest.mark.requirement("SERVER-9")
def test_workspaces_recent_sessions_and_passes_are_those_that_the_token_may_see(server: Running) -> None:
    for name in ("seen", "hidden"):
        eng = server.eng.workspace(name)
        session = eng.sessions.register("test", f"in {name}")
        eng.exchanges.add(session, "user", "I never deploy on Fridays")
        eng.sessions.complete(session, "done")
        eng.dream(force=True)
        eng.dream(force=True)
    with server.client(server.token("read", "seen")) as some, server.client(server.token("read")) as everything:
        assert [each["name"] for each in some.get("/api/v1/workspaces").json()["result"]] == ["seen"]
        names = {each["name"] for each in everything.get("/api/v1/workspaces").json()["result"]}
        assert {"seen", "hidden"} <= names
        recent = some.get("/api/v1/sessions/recent", params={"hours": 1}).json()["result"]
        assert [each["summary"] for each in recent] == ["in seen"]
        assert some.get("/api/v1/sessions/recent", params={"hours": 0}).json()["result"] == []
        assert some.get("/api/v1/sessions/recent", params={"hours": "x"}).status_code == 400
        dreams = some.get("/api/v1/dreams").json()["result"]
        assert {each["workspace"] for each in dreams} == {"seen"}
        found, cursor = [], None
        while True:
            page = everything.get(
                "/api/v1/dreams", params={"limit": 1, **({"cursor": cursor} if cursor else {})}
            ).json()
            found += [(each["workspace"], each["id"]) for each in page["result"]]
            if (cursor := page["next"]) is None:
                break
        ids = [id for _, id in found]
        assert ids == sorted(set(ids), reverse=True)
        assert [name for name, _ in found[:4]] == ["hidden", "hidden", "seen", "seen"]
