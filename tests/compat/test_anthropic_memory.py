"""The files of Anthropic's memory tool are blocks, and the tool answers with the texts that models know."""

from __future__ import annotations

import importlib
import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.tools import BetaLocalFilesystemMemoryTool, ToolError
from anthropic.types.beta import BetaMemoryTool20250818ViewCommand, BetaMessageParam

from engram import Engram, InvalidInput, MissingExtra
from engram.compat import memory_files
from engram.compat.anthropic_memory import AsyncEngramMemoryTool, EngramMemoryTool
from tests._tables import holds
from tests.llm._server import Response, Server

pytestmark = pytest.mark.requirement("COMPAT-8")

HEADER = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:"
TOKEN = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"


@pytest.fixture
def memory(eng: Engram) -> EngramMemoryTool:
    return EngramMemoryTool(eng)


def create(memory: EngramMemoryTool, path: str, text: str = "x") -> str:
    return memory.handle({"command": "create", "path": path, "file_text": text})


def view(memory: EngramMemoryTool, path: str = "/memories", *lines: int) -> str:
    return memory.handle({"command": "view", "path": path, **({"view_range": list(lines)} if lines else {})})


def replace(memory: EngramMemoryTool, path: str, old: str, new: str) -> str:
    return memory.handle({"command": "str_replace", "path": path, "old_str": old, "new_str": new})


def insert(memory: EngramMemoryTool, path: str, line: object, text: str) -> str:
    return memory.handle({"command": "insert", "path": path, "insert_line": line, "insert_text": text})


def delete(memory: EngramMemoryTool, path: str) -> str:
    return memory.handle({"command": "delete", "path": path})


def rename(memory: EngramMemoryTool, old: str, new: str) -> str:
    return memory.handle({"command": "rename", "old_path": old, "new_path": new})


def names(eng: Engram) -> list[str]:
    return [block.name for block in eng.blocks.list()]


def content(eng: Engram, name: str) -> str:
    block = eng.blocks.get(name)
    assert block is not None
    return block.content


def test_the_documented_commands_give_the_documented_results(memory: EngramMemoryTool, eng: Engram) -> None:
    assert view(memory) == f"{HEADER}\n0B\t/memories"
    notes = "Meeting notes:\n- Discussed project timeline\n- Next steps defined\n"
    assert create(memory, "/memories/notes.txt", notes) == "File created successfully at: /memories/notes.txt"
    assert view(memory, "/memories/notes.txt") == (
        "Here's the content of /memories/notes.txt with line numbers:\n"
        "     1\tMeeting notes:\n     2\t- Discussed project timeline\n     3\t- Next steps defined\n     4\t"
    )
    assert replace(memory, "/memories/notes.txt", "timeline", "dates") == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\tMeeting notes:\n     2\t- Discussed project dates\n     3\t- Next steps defined\n     4\t"
    )
    inserted = insert(memory, "/memories/notes.txt", 2, "- Review memory tool documentation\n")
    assert inserted == "The file /memories/notes.txt has been edited."
    assert content(eng, "memories/notes.txt") == (
        "Meeting notes:\n- Discussed project dates\n- Review memory tool documentation\n- Next steps defined\n"
    )
    renamed = rename(memory, "/memories/notes.txt", "/memories/final.txt")
    assert renamed == "Successfully renamed /memories/notes.txt to /memories/final.txt"
    assert delete(memory, "/memories/final.txt") == "Successfully deleted /memories/final.txt"
    assert names(eng) == []


def test_the_documented_mistakes_give_the_documented_errors(memory: EngramMemoryTool, eng: Engram) -> None:
    create(memory, "/memories/a.txt", "one\ntwo\none two\n")
    create(memory, "/memories/d/b.txt")
    gone = "/memories/none.txt"
    assert view(memory, gone) == f"The path {gone} does not exist. Please provide a valid path."
    assert create(memory, "/memories/a.txt") == "Error: File /memories/a.txt already exists"
    assert create(memory, "/memories/d") == "Error: File /memories/d already exists"
    assert create(memory, "/memories") == "Error: File /memories already exists"
    for path in (gone, "/memories/d"):
        assert replace(memory, path, "a", "b") == f"Error: The path {path} does not exist. Please provide a valid path."
        assert insert(memory, path, 0, "a") == f"Error: The path {path} does not exist"
    assert replace(memory, "/memories/a.txt", "three", "b") == (
        "No replacement was performed, old_str `three` did not appear verbatim in /memories/a.txt."
    )
    assert replace(memory, "/memories/a.txt", "two", "b") == (
        "No replacement was performed. Multiple occurrences of old_str `two` in lines: 2, 3. Please ensure it is unique"
    )
    for line in (-1, 4):
        assert insert(memory, "/memories/a.txt", line, "x") == (
            f"Error: Invalid `insert_line` parameter: {line}. "
            "It should be within the range of lines of the file: [0, 3]"
        )
    assert delete(memory, gone) == f"Error: The path {gone} does not exist"
    assert rename(memory, gone, "/memories/x") == f"Error: The path {gone} does not exist"
    for taken in ("/memories/d/b.txt", "/memories/d", "/memories/a.txt"):
        moved = rename(memory, "/memories/a.txt", taken)
        assert moved == f"Error: The destination {taken} already exists"
    eng.blocks.create("memories/long.txt", "\n" * 999_999, 250_000)
    assert view(memory, "/memories/long.txt") == (
        "File /memories/long.txt exceeds maximum line limit of 999,999 lines."
    )
    assert [(block.name, block.version) for block in eng.blocks.list()] == [
        ("memories/a.txt", 1),
        ("memories/d/b.txt", 1),
        ("memories/long.txt", 1),
    ]


def test_the_sdks_own_tool_leaves_the_same_files(memory: EngramMemoryTool, eng: Engram, tmp_path: Path) -> None:
    own = BetaLocalFilesystemMemoryTool(str(tmp_path))
    commands: list[dict[str, Any]] = [
        {"command": "create", "path": "/memories/a/b.md", "file_text": "one\ntwo\r\nthree"},
        {"command": "insert", "path": "/memories/a/b.md", "insert_line": 0, "insert_text": "zero\n"},
        {"command": "insert", "path": "/memories/a/b.md", "insert_line": 4, "insert_text": "four"},
        {"command": "str_replace", "path": "/memories/a/b.md", "old_str": "two", "new_str": "2\n2.5"},
        {"command": "create", "path": "/memories/empty.md", "file_text": ""},
        {"command": "insert", "path": "/memories/empty.md", "insert_line": 0, "insert_text": "first"},
        {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/c/d"},
        {"command": "create", "path": "/memories/gone/x.md", "file_text": "x"},
        {"command": "delete", "path": "/memories/gone"},
        {"command": "view", "path": "/memories/c/d/b.md"},
        {"command": "view", "path": "/memories/c/d/b.md", "view_range": [2, 3]},
        {"command": "view", "path": "/memories/c/d/b.md", "view_range": [5, -1]},
    ]
    for command in commands:
        assert own.call(command) == memory.call(command) or command["command"] == "str_replace"
    root = tmp_path / "memories"
    files = {str(file.relative_to(tmp_path)): file.read_bytes().decode() for file in root.rglob("*.md")}
    assert {block.name: block.content for block in eng.blocks.list()} == files


def test_a_listing_shows_two_levels_with_sizes_and_without_hidden_items(memory: EngramMemoryTool, eng: Engram) -> None:
    eng.blocks.create("world", "not a file")
    eng.blocks.create("memories.txt", "not below the directory")
    for path, size in {
        "a.md": 3,
        "b/c.md": 1_536,
        "b/d/e/f.md": 3 * 1_024 * 1_024 // 10,
        "b/d/g.md": 0,
        ".hidden": 1,
        "b/.git/x": 1,
        "node_modules/y": 1,
        "a-dir/h.md": 5,
    }.items():
        create(memory, f"/memories/{path}", "x" * size)
    assert view(memory) == view(memory, "/memories/")
    assert view(memory).splitlines() == [
        HEADER,
        "308.7K\t/memories",
        "5B\t/memories/a-dir/",
        "5B\t/memories/a-dir/h.md",
        "3B\t/memories/a.md",
        "308.7K\t/memories/b/",
        "1.5K\t/memories/b/c.md",
        "307.2K\t/memories/b/d/",
    ]
    assert view(memory, "/memories/b/d/").splitlines() == [
        HEADER.replace("/memories", "/memories/b/d"),
        "307.2K\t/memories/b/d",
        "307.2K\t/memories/b/d/e/",
        "307.2K\t/memories/b/d/e/f.md",
        "0B\t/memories/b/d/g.md",
    ]
    assert view(memory, "/memories/.hidden").endswith("     1\tx")


def test_a_range_of_lines_is_shown_and_a_wrong_one_explained(memory: EngramMemoryTool) -> None:
    create(memory, "/memories/a.md", "\n".join(f"line {n}" for n in range(1, 13)))
    shown = "Here's the content of /memories/a.md with line numbers:\n"
    assert view(memory, "/memories/a.md", 2, 3) == shown + "     2\tline 2\n     3\tline 3"
    assert view(memory, "/memories/a.md", 11, -1) == shown + "    11\tline 11\n    12\tline 12"
    assert view(memory, "/memories/a.md", 12, 99) == shown + "    12\tline 12"
    assert view(memory, "/memories/a.md", 0, 1) == shown + "     1\tline 1"
    for wrong in ([13, 14], [3, 2], [5, -2]):
        assert view(memory, "/memories/a.md", *wrong) == (
            f"Error: Invalid `view_range` parameter: {wrong}. "
            "It should be within the range of lines of the file: [1, 12]"
        )
    wrong_forms: list[object] = [[1], [1, 2, 3], ["1", 2], [True, 2], "1-2", {}]
    for broken in wrong_forms:
        command = {"command": "view", "path": "/memories/a.md", "view_range": broken}
        assert memory.handle(command).startswith(
            f"Error: Invalid `view_range` parameter: {broken}. It should be [first"
        )


def test_a_long_file_is_cut_and_the_rest_can_be_viewed(memory: EngramMemoryTool) -> None:
    lines = [f"{n} " + "x" * 90 for n in range(1, 301)]
    create(memory, "/memories/long.md", "\n".join(lines))
    _, *shown, note = view(memory, "/memories/long.md").split("\n")
    assert len("\n".join(shown)) <= 16_000
    rest = len(shown) + 1
    assert note == f"[Cut after 16,000 characters. View the rest with view_range [{rest}, 300].]"
    _, *more = view(memory, "/memories/long.md", rest, 300).split("\n")
    assert [line.partition("\t")[2] for line in shown + more] == lines
    create(memory, "/memories/wide.md", "y" * 20_000)
    *_, wide, note = view(memory, "/memories/wide.md").split("\n")
    assert wide == f"     1\t{'y' * 15_993}"
    assert note == "[Line 1 has 20,000 characters. Only its beginning is shown.]"


def test_every_edit_is_a_version_that_can_be_restored(eng: Engram) -> None:
    memory = EngramMemoryTool(eng, actor="claude")
    create(memory, "/memories/a.md", "one")
    replace(memory, "/memories/a.md", "one", "two")
    insert(memory, "/memories/a.md", 1, "three")
    rename(memory, "/memories/a.md", "/memories/b.md")
    edits = [(edit.new, edit.reason, edit.actor) for edit in eng.blocks.versions("memories/b.md")]
    assert edits == [
        ("two\nthree\n", "renamed from memories/a.md", "claude"),
        ("two\nthree\n", "insert", "claude"),
        ("two", "str_replace", "claude"),
        ("one", "", "claude"),
    ]
    eng.blocks.restore("memories/b.md", 1)
    assert view(memory, "/memories/b.md").endswith("     1\tone")


def test_a_replacement_may_be_left_out_and_spans_lines(memory: EngramMemoryTool, eng: Engram) -> None:
    create(memory, "/memories/a.md", "".join(f"{n}\n" for n in range(1, 10)))
    assert memory.handle({"command": "str_replace", "path": "/memories/a.md", "old_str": "4\n5\n"}).endswith(
        ":\n     2\t2\n     3\t3\n     4\t6\n     5\t7\n     6\t8"
    )
    assert replace(memory, "/memories/a.md", "6", "a\nb\nc").endswith(
        ":\n     2\t2\n     3\t3\n     4\ta\n     5\tb\n     6\tc\n     7\t7\n     8\t8"
    )
    assert (
        replace(memory, "/memories/a.md", "", "x") == "Error: Parameter `old_str` is empty. Give the text to replace."
    )
    create(memory, "/memories/b.md", "aaa")
    assert "Multiple occurrences of old_str `aa` in lines: 1. " in replace(memory, "/memories/b.md", "aa", "b")
    create(memory, "/memories/c.md", "\n" * 500_000)
    assert "in lines: 1, 2, 3" in replace(memory, "/memories/c.md", "\n", "b")


OUTSIDE = (
    *("/memories/../world", "/memories/a/../../world", "/memories/..", "/memories/a/..", "/memories/./a"),
    *("/memories/%2e%2e/world", "/memories/%2E%2e%2fworld", "/memories/%252e%252e/world", "/memories/a%2fb"),
    *("/memories/..%5cworld", "/memories\\..\\world", "/memories/..\\world", "/memories/a\\b", "/memories/%00a"),
    *("/memories/．．/world", "/memories/‥/world", "/memories/a／b", "/memories/%EF%BC%8E%EF%BC%8E/world"),
    *("/etc/passwd", "memories/a", "/memoriesx/a", "/Memories/a", "", "/", "//memories/a", "/memories//a"),
    *("C:\\memories\\a", "file:///memories/a", "~/memories/a", "/memories/a//", "/memories/ /a", "/memories/..."),
    *("/memories/a\x00b", "/memories/a\nb", "/memories/a\x1b[31m", "/memories/\u202ea", "/memories/\ud800"),
    "/memories/" + "x" * 192,
    f"/memories/{TOKEN}",
)


def test_no_path_leaves_the_directory(memory: EngramMemoryTool, eng: Engram) -> None:
    eng.blocks.create("world", "The world state.")
    create(memory, "/memories/a.md", "one")
    for path in OUTSIDE:
        for tried in (
            create(memory, path),
            rename(memory, "/memories/a.md", path),
            view(memory, path),
            replace(memory, path, "world", "x"),
            insert(memory, path, 0, "x"),
            delete(memory, path),
            rename(memory, path, "/memories/b.md"),
        ):
            assert tried.startswith(("Error: ", "The path ")), path
            assert "The world state." not in tried
    assert names(eng) == ["memories/a.md", "world"]
    assert content(eng, "world") == "The world state."


def test_odd_names_are_names(memory: EngramMemoryTool, eng: Engram) -> None:
    paths = ["/memories/100%.md", "/memories/%41.md", "/memories/..a", "/memories/a b.md", "/memories/河.md"]
    for path in (*paths, "/memories/" + "x" * 191):
        assert create(memory, path) == f"File created successfully at: {path}"
        assert view(memory, path).endswith("     1\tx")
        assert delete(memory, path) == f"Successfully deleted {path}"
    assert names(eng) == []


def test_a_directory_is_deleted_with_all_that_is_below_it(memory: EngramMemoryTool, eng: Engram) -> None:
    for path in ("a/b.md", "a/c/d.md", "ab.md"):
        create(memory, f"/memories/{path}")
    assert delete(memory, "/memories/a/") == "Successfully deleted /memories/a"
    assert names(eng) == ["memories/ab.md"]
    assert delete(memory, "/memories") == "Error: Cannot delete the /memories directory itself"
    eng.blocks.create("world", "stays")
    assert memory.clear_all_memory() == "All memory cleared"
    assert names(eng) == ["world"]


def test_a_directory_is_renamed_with_all_that_is_below_it_or_not_at_all(memory: EngramMemoryTool, eng: Engram) -> None:
    for path in ("a/b.md", "a/c/d.md", "file"):
        create(memory, f"/memories/{path}", path)
    root = "/memories"
    assert rename(memory, f"{root}/a", f"{root}/z/a") == f"Successfully renamed {root}/a to {root}/z/a"
    assert names(eng) == ["memories/file", "memories/z/a/b.md", "memories/z/a/c/d.md"]
    assert content(eng, "memories/z/a/c/d.md") == "a/c/d.md"
    before = eng.blocks.list()
    assert rename(memory, f"{root}/z", f"{root}/z/y") == f"Error: Cannot move {root}/z into itself"
    assert rename(memory, root, f"{root}/y") == f"Error: Cannot rename the {root} directory itself"
    assert rename(memory, f"{root}/z", root) == f"Error: The destination {root} already exists"
    expected = f"Error: {root}/file is a file, so there can be no {root}/file/z"
    assert rename(memory, f"{root}/z", f"{root}/file/z") == expected
    assert create(memory, f"{root}/file/z") == expected
    # The shorter name still fits, the longer one does not.
    assert rename(memory, f"{root}/z/a", f"{root}/" + "x" * 185).startswith("Error: ")
    assert eng.blocks.list() == before


def test_secrets_are_removed_and_can_be_replaced_as_remembered(
    memory: EngramMemoryTool, eng: Engram, store_url: str
) -> None:
    create(memory, "/memories/a.md", f"The token is {TOKEN}.")
    assert content(eng, "memories/a.md") == "The token is [redacted: github token]."
    assert replace(memory, "/memories/a.md", f"is {TOKEN}", "is in the vault").endswith("\tThe token is in the vault.")
    insert(memory, "/memories/a.md", 0, f"Or {TOKEN}.")
    assert holds(store_url, TOKEN) == {}


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ({}, "Error: Unknown command: None. The commands are view, create, str_replace, insert, delete, rename."),
        ({"command": "undo"}, "Error: Unknown command: undo. The commands are view, create, "),
        ({"command": ["view"]}, "Error: Unknown command: ['view']. "),
        ({"command": "view"}, "Error: Parameter `path` is required for command: view"),
        ({"command": "view", "path": 3}, "Error: Parameter `path` must be text, not int"),
        ({"command": "create", "path": "/memories/b"}, "Error: Parameter `file_text` is required for command: create"),
        ({"command": "create", "path": "/memories/b", "file_text": "x" * 1_000_001}, "Error: content has 1,000,001"),
        ({"command": "create", "path": "/memories/b", "file_text": "a\x00b"}, "Error: content has a NUL"),
        (
            {"command": "insert", "path": "/memories/a", "insert_text": "x"},
            "Error: Invalid `insert_line` parameter: None",
        ),
        (
            {"command": "insert", "path": "/memories/a", "insert_line": True, "insert_text": "x"},
            "Error: Invalid `insert_line` parameter: True",
        ),
        ({"command": "rename", "old_path": "/memories/a"}, "Error: Parameter `new_path` is required"),
    ],
)
def test_a_broken_command_is_explained_to_the_model(
    memory: EngramMemoryTool, eng: Engram, command: dict[str, object], error: str
) -> None:
    create(memory, "/memories/a", "one")
    assert memory.handle(command).startswith(error)
    with pytest.raises(ToolError) as refused:
        memory.call(command)
    assert refused.value.content == memory.handle(command)
    assert [(block.name, block.content) for block in eng.blocks.list()] == [("memories/a", "one")]


def test_input_that_is_no_object_is_explained_too(memory: EngramMemoryTool) -> None:
    with pytest.raises(ToolError, match="must be an object with a `command`, not list"):
        memory.call(["view"])


def test_an_edit_starts_from_what_another_writer_left(
    eng: Engram, open_store: Callable[..., Engram], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, other = EngramMemoryTool(eng), open_store()
    create(memory, "/memories/a.md", "one\n")
    update = eng.blocks.update
    busy = [lambda: other.blocks.append("memories/a.md", "two\n")]

    def late(*given: Any, **named: Any) -> Any:
        if busy:
            busy.pop()()
        return update(*given, **named)

    monkeypatch.setattr(eng.blocks, "update", late)
    assert insert(memory, "/memories/a.md", 0, "zero") == "The file /memories/a.md has been edited."
    assert content(eng, "memories/a.md") == "zero\none\ntwo\n"
    busy.append(lambda: other.blocks.update("memories/a.md", "three"))
    assert "did not appear verbatim" in replace(memory, "/memories/a.md", "two", "2")
    busy.append(lambda: other.blocks.delete("memories/a.md"))  # type: ignore[arg-type, return-value]
    assert insert(memory, "/memories/a.md", 0, "x") == "Error: The path /memories/a.md does not exist"
    create(memory, "/memories/a.md", "one\n")
    busy.extend([lambda: other.blocks.append("memories/a.md", "again\n")] * memory_files._TRIES)
    assert insert(memory, "/memories/a.md", 0, "x").startswith("Error: Others keep changing /memories/a.md.")


class Claude:
    """A scripted Claude on loopback: it sends these commands one after the other, then a text."""

    def __init__(self, *commands: dict[str, Any]) -> None:
        self.commands = list(commands)
        self.results: list[tuple[str, bool]] = []
        self.tools: list[dict[str, Any]] = []

    def __call__(self, request: dict[str, Any]) -> Response:
        # Later requests of a thread do not repeat them.
        self.tools += request.get("tools", [])
        last = request["messages"][-1]["content"]
        if isinstance(last, list):
            for result in last:
                text = result["content"]
                text = text if isinstance(text, str) else "".join(part["text"] for part in text)
                self.results.append((text, bool(result.get("is_error"))))
        done = not self.commands
        block = (
            {"type": "text", "text": "I will remember."}
            if done
            else {
                "type": "tool_use",
                "id": f"toolu_{len(self.results)}",
                "name": "memory",
                "input": self.commands.pop(0),
            }
        )
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": [block],
            "stop_reason": "end_turn" if done else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        return Response(json.dumps(message))


COMMANDS: list[dict[str, Any]] = [
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": "/memories/user.xml", "file_text": "<user><likes>coffee</likes></user>"},
    {"command": "create", "path": "/memories/user.xml", "file_text": "again"},
    {"command": "str_replace", "path": "/memories/user.xml", "old_str": "coffee"},
    {"command": "view", "path": "/memories/../world"},
]
RESULTS = [
    (f"{HEADER}\n0B\t/memories", False),
    ("File created successfully at: /memories/user.xml", False),
    ("Error: File /memories/user.xml already exists", True),
    (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\t<user><likes></likes></user>",
        False,
    ),
    (
        "Error: The path /memories/../world is not valid: it must be a plain path, without `..`, `.`, empty or encoded "
        "parts.",
        True,
    ),
]
ASKED: list[BetaMessageParam] = [{"role": "user", "content": "Remember that I like coffee"}]


def test_the_sdks_example_runs_with_one_line_changed(eng: Engram) -> None:
    claude = Claude(*COMMANDS)
    server = Server(claude)
    with Anthropic(api_key="none", base_url=server.url, max_retries=0) as client:
        memory = EngramMemoryTool(eng)
        runner = client.beta.messages.tool_runner(
            betas=["context-management-2025-06-27"],
            model="claude-sonnet-5-5",
            max_tokens=2048,
            messages=ASKED,
            tools=[memory],
        )
        last = [message for message in runner][-1]
        assert [block.text for block in last.content if block.type == "text"] == ["I will remember."]
        listing = memory.execute(BetaMemoryTool20250818ViewCommand(command="view", path="/memories"))
    server.close()
    assert claude.tools[0] == {"type": "memory_20250818", "name": "memory"}
    assert claude.results == RESULTS
    assert listing == f"{HEADER}\n28B\t/memories\n28B\t/memories/user.xml"
    assert content(eng, "memories/user.xml") == "<user><likes></likes></user>"


def test_an_asynchronous_client_gets_the_same(eng: Engram) -> None:
    claude = Claude(*COMMANDS)
    server = Server(claude)

    async def run() -> None:
        memory = AsyncEngramMemoryTool(eng)
        async with AsyncAnthropic(api_key="none", base_url=server.url, max_retries=0) as client:
            runner = client.beta.messages.tool_runner(
                model="claude-sonnet-5-5", max_tokens=2048, messages=ASKED, tools=[memory]
            )
            await runner.until_done()
        view = BetaMemoryTool20250818ViewCommand(command="view", path="/memories/user.xml")
        assert str(await memory.execute(view)).endswith("     1\t<user><likes></likes></user>")
        assert await memory.handle({"command": "delete", "path": "/memories/x"}) == (
            "Error: The path /memories/x does not exist"
        )
        assert await memory.clear_all_memory() == "All memory cleared"
        assert memory.store is eng

    anyio.run(run)
    server.close()
    assert claude.results == RESULTS
    assert names(eng) == []


def test_every_command_of_the_sdks_types_is_carried_out(memory: EngramMemoryTool) -> None:
    from anthropic.types import beta as types

    a = "/memories/a"
    made = memory.create(types.BetaMemoryTool20250818CreateCommand(command="create", path=a, file_text="one"))
    memory.str_replace(
        types.BetaMemoryTool20250818StrReplaceCommand(command="str_replace", path=a, old_str="one", new_str="1")
    )
    memory.insert(types.BetaMemoryTool20250818InsertCommand(command="insert", path=a, insert_line=1, insert_text="two"))
    memory.rename(types.BetaMemoryTool20250818RenameCommand(command="rename", old_path=a, new_path="/memories/b"))
    shown = memory.view(BetaMemoryTool20250818ViewCommand(command="view", path="/memories/b", view_range=[1, 2]))
    gone = memory.delete(types.BetaMemoryTool20250818DeleteCommand(command="delete", path="/memories/b"))
    assert (made, gone) == ("File created successfully at: /memories/a", "Successfully deleted /memories/b")
    assert shown.endswith("     1\t1\n     2\ttwo")


def test_it_opens_a_store_by_its_address(eng: Engram, store_url: str, tmp_path: Path) -> None:
    by_address = EngramMemoryTool(store_url, workspace="team")
    create(by_address, "/memories/a.md")
    assert names(eng.workspace("team")) == ["memories/a.md"]
    assert view(EngramMemoryTool(eng)) == f"{HEADER}\n0B\t/memories"
    by_address.store.close()
    with pytest.raises(InvalidInput, match="actor"):
        EngramMemoryTool(tmp_path / "x.db", actor="a\nb")
    assert not (tmp_path / "x.db").exists()
    cached = EngramMemoryTool(eng, cache_control={"type": "ephemeral"})
    assert cached.to_dict().get("cache_control") == {"type": "ephemeral"}


def test_without_the_sdk_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "engram.compat.anthropic_memory")
    monkeypatch.setitem(sys.modules, "anthropic.tools", None)
    with pytest.raises(MissingExtra, match=r"install 'engram-agents\[anthropic\]'"):
        importlib.import_module("engram.compat.anthropic_memory")


def test_a_path_that_two_programs_make_at_once_is_a_file_or_a_directory(
    memory: EngramMemoryTool, eng: Engram, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, results = EngramMemoryTool(eng), []
    thread = threading.Thread(target=lambda: results.append(create(other, "/memories/p/child")))
    checked = memory_files.MemoryFiles._require_directory

    def checked_slowly(files: memory_files.MemoryFiles, name: str) -> None:
        checked(files, name)
        if name == "memories/p":
            thread.start()
            thread.join(0.3)  # long enough to finish, if nothing holds it

    monkeypatch.setattr(memory_files.MemoryFiles, "_require_directory", checked_slowly)
    results.append(create(memory, "/memories/p"))
    thread.join()
    assert sorted(results) == [
        "Error: /memories/p is a file, so there can be no /memories/p/child",
        "File created successfully at: /memories/p",
    ]


def test_clearing_leaves_blocks_that_are_no_files(memory: EngramMemoryTool, eng: Engram) -> None:
    eng.blocks.create("memories", "of another agent")
    create(memory, "/memories/a.txt")
    assert memory.clear_all_memory() == "All memory cleared"
    assert names(eng) == ["memories"]


def test_answers_are_short_whatever_is_asked(memory: EngramMemoryTool, eng: Engram) -> None:
    create(memory, "/memories/long.txt", "a" * 900_000 + "\nb")
    assert len(view(memory, "/memories/long.txt")) < 17_000
    assert view(memory, "/memories/long.txt", 1, 1).endswith(
        "\n[Line 1 has 900,000 characters. Only its beginning is shown.]"
    )
    with eng.write():
        for number in range(200):
            eng.blocks.create(f"memories/{number:04d}-{'n' * 100}", "x")
    listing = view(memory)
    assert len(listing) < 17_000 < 200 * 100
    assert listing.endswith(" more entries are not shown. View a directory to see what is in it.]")
    huge = "z" * 500_000
    for answer in (
        replace(memory, "/memories/long.txt", huge, ""),
        memory.handle({"command": huge}),
        insert(memory, "/memories/long.txt", huge, "x"),
        memory.handle({"command": "view", "path": "/memories/long.txt", "view_range": [huge]}),
    ):
        assert len(answer) < 600 and "500,0" in answer
