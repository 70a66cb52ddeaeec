"""Settings files are changed as text: what a change does not touch stays as it was, byte for byte."""

from __future__ import annotations

import copy
import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engram.interfaces.install.jsontext import JsonText, Path
from engram.interfaces.install.tomltext import TomlText

WITH_COMMENTS = """\
{
    // how it looks
    "theme": "dark", // at night
    /* lists are
       fine, too */
    "tools": ["a", "b"], "url": "https://example.test/*not a comment*/",
    "nested": {
        "deep": {} // empty
    } // the last word
}
"""


@pytest.mark.requirement("INSTALL-2")
def test_a_new_member_goes_behind_the_last_with_the_file_s_indentation() -> None:
    document = JsonText(WITH_COMMENTS, comments=True)
    document.put(("nested", "deep", "more"), {"x": [1]})
    assert document.text() == WITH_COMMENTS.replace(
        '"deep": {} // empty',
        """"deep": {
            "more": {
                "x": [
                    1
                ]
            }
        } // empty""",
    )


@pytest.mark.requirement("INSTALL-2")
def test_a_member_behind_a_comment_is_parted_from_it_by_a_line() -> None:
    document = JsonText(WITH_COMMENTS, comments=True)
    document.put(("last",), True)
    assert document.text().endswith('    }, // the last word\n    "last": true\n}\n')


@pytest.mark.requirement("INSTALL-2")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '{\n  "a": {\n    "b": 1\n  }\n}\n'),
        ("{}", '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{"x": 1}', '{"x": 1, "a": {"b": 1}}'),
        ('{\r\n\t"x": 1\r\n}\r\n', '{\r\n\t"x": 1,\r\n\t"a": {\r\n\t\t"b": 1\r\n\t}\r\n}\r\n'),
        ('{\n  "a": {"c": "ü"}\n}', '{\n  "a": {"c": "ü", "b": 1}\n}'),
    ],
)
def test_what_is_added_follows_the_manner_of_the_file(text: str, expected: str) -> None:
    document = JsonText(text)
    document.put(("a", "b"), 1)
    assert document.text() == expected


@pytest.mark.requirement("INSTALL-2")
@pytest.mark.parametrize(
    ("path", "gone"),
    [
        (("theme",), '    "theme": "dark",'),
        (("tools", 1), ', "b"'),
        (("tools", 0), '"a", '),
    ],
)
def test_removing_takes_the_member_and_its_comma_alone(path: Path, gone: str) -> None:
    document = JsonText(WITH_COMMENTS, comments=True)
    document.remove(path)
    assert "".join(document.text().split()) == "".join(WITH_COMMENTS.replace(gone, "").split())


@pytest.mark.requirement("INSTALL-2")
def test_of_a_key_that_is_there_twice_the_last_counts_as_for_every_reader() -> None:
    document = JsonText('{"a": 1, "a": {"b": 2}}')
    document.put(("a", "b"), 3)
    assert document.text() == '{"a": 1, "a": {"b": 3}}'


@pytest.mark.requirement("INSTALL-5")
@pytest.mark.parametrize(
    "text", ['{"a": 1,}', "[]", "{", '{"a": 1} // no comments here', "{'a': 1}", '{"a": /* x */ 1}']
)
def test_what_the_harness_could_not_read_is_not_read_here_either(text: str) -> None:
    with pytest.raises(ValueError):
        JsonText(text)


scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)
layouts = st.sampled_from([{"indent": 2}, {"indent": "\t"}, {}, {"separators": (",", ":")}])


@st.composite
def edits(draw: st.DrawFn, value: Any) -> tuple[str, Path, Any]:
    """Something that can be done to a document: put, append or remove, at a key that may be new."""
    path: list[str | int] = []
    inside: Any = value
    while inside and type(inside) in (dict, list) and (not path or draw(st.booleans())):
        keys: list[Any] = sorted(inside) if type(inside) is dict else list(range(len(inside)))
        path.append(draw(st.sampled_from(keys)))
        inside = inside[path[-1]]
    if type(inside) is dict and draw(st.booleans()):
        path.append(draw(st.text(max_size=4)))
    return draw(st.sampled_from(["put", "append", "remove"])), tuple(path), draw(values)


@pytest.mark.requirement("INSTALL-2")
@given(st.data(), st.dictionaries(st.text(max_size=4), values, max_size=4), layouts, st.booleans())
def test_edited_text_holds_what_edited_data_would(
    data: st.DataObject, value: dict[str, Any], layout: Any, noted: bool
) -> None:
    text = json.dumps(value, **layout)
    lines = text.split("\n")
    if noted:
        text = "".join(f"{line} // note {number}\n" for number, line in enumerate(lines))
    document, complete = JsonText(text, comments=noted), True
    for _ in range(4):
        verb, path, new = data.draw(edits(value))
        expected = _edited(value, verb, path, new)
        if expected is None:
            continue
        getattr(document, verb)(*((path,) if verb == "remove" else (path, new)))
        value = expected
        assert document.value() == JsonText(document.text(), comments=noted).value() == value
        complete = complete and verb == "append"  # what is replaced or removed takes the comments within it along
        lost = [number for number in range(len(lines)) if f"// note {number}\n" not in document.text()]
        assert not (noted and complete and lost)


def _edited(value: Any, verb: str, path: Path, new: Any) -> Any:
    """The same edit on plain data; None where it makes no sense."""
    value = copy.deepcopy(value)
    outer: Any = value
    for key in path[:-1]:
        outer = outer[key]
    if not path or type(outer) not in (dict, list):
        return None
    there = isinstance(outer, list) or path[-1] in outer
    if verb == "put":
        outer[path[-1]] = new
    elif verb == "remove":
        if not there:
            return None
        del outer[path[-1]]
    elif not there:
        outer[path[-1]] = [new]
    elif isinstance(outer[path[-1]], list):
        outer[path[-1]].append(new)
    else:
        return None
    return value


TOML = """\
# mine
model = "x"   # the big one

[mcp_servers.other]
command = "other"

# about features
[features]
hooks = true
"""


@pytest.mark.requirement("INSTALL-2")
@pytest.mark.parametrize(
    "text", [TOML, "", "model = 1", 'mcp_servers = {other = {command = "x"}}\n', "[mcp_servers]\n"]
)
def test_a_table_in_toml_comes_and_goes_without_a_trace(text: str) -> None:
    document = TomlText(text)
    document.put(("mcp_servers", "engram"), {"command": "/x/engram", "args": ["mcp"]})
    assert tomllib.loads(document.text()) == document.value()
    assert document.value()["mcp_servers"]["engram"] == {"command": "/x/engram", "args": ["mcp"]}
    assert all(line in document.text() for line in text.splitlines() if "{" not in line)
    document.put(("mcp_servers", "engram", "command"), "/y/engram")
    assert document.value()["mcp_servers"]["engram"]["command"] == "/y/engram"
    document.remove(("mcp_servers", "engram"))
    assert document.text().rstrip("\n") == text.rstrip("\n")
