"""The front matter of a note: `name: value` lines between two lines of hyphens.

It is YAML. A parser for all of it would be a dependency for the sake of a few lines, so only what notes use is read:
texts with and without quotes, and lists in both forms. What is nested deeper is passed over.
"""

from __future__ import annotations

from typing import NamedTuple

#: The most lines and characters. What is longer is no front matter.
_MOST_LINES, _LONGEST = 300, 64 * 1024

#: A value is a text or a list of texts.
Value = str | list[str]


class Note(NamedTuple):
    #: By their names in lower case.
    fields: dict[str, Value]
    #: The rest of the note.
    body: str

    def text(self, *names: str) -> str:
        """The first of these fields that is a text and not empty."""
        return next((value for name in names if isinstance(value := self.fields.get(name), str) and value), "")

    def texts(self, *names: str) -> list[str]:
        """All texts of these fields. A text may have several, between commas."""
        found: list[str] = []
        for name in names:
            value = self.fields.get(name, [])
            found += value.split(",") if isinstance(value, str) else value
        return [each.strip() for each in found if each.strip()]


def parsed(document: str) -> Note:
    """The front matter and the rest of a note. A note without front matter has no fields."""
    first, _, rest = document.partition("\n")
    if first.rstrip() != "---":
        return Note({}, document)
    lines = rest[:_LONGEST].split("\n", _MOST_LINES)[:_MOST_LINES]
    end = next((place for place, line in enumerate(lines) if line.rstrip() in ("---", "...")), None)
    if end is None or not all(map(_is_plausible, lines[:end])):
        return Note({}, document)
    return Note(_fields(lines[:end]), rest.split("\n", end + 1)[end + 1] if rest.count("\n") > end else "")


def _is_plausible(line: str) -> bool:
    """Whether a line can stand in front matter. Two rules with a sentence between them are none."""
    return not line.strip() or line[0] in " \t-#" or ":" in line


def _fields(lines: list[str]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    name, is_text = "", False
    for line in lines:
        bare = line.strip()
        if not bare or (bare.startswith("#") and not is_text):
            continue
        if line[0] not in " \t-":
            name, _, value = line.partition(":")
            name, value = name.strip().strip("\"'").lower(), value.strip()
            is_text = value[:1] in ("|", ">") and len(value) <= 2
            if name:
                found[name] = "" if is_text else _value(value)
        elif is_text:
            found[name] = f"{found[name]}\n{bare}".strip()
        elif name and (bare == "-" or bare.startswith("- ")):
            held = found[name]
            listed = held if isinstance(held, list) else []
            found[name] = [*listed, _scalar(bare[1:].strip())]
    return found


def _value(value: str) -> Value:
    if not value.startswith("["):
        return _scalar(value)
    inside = _without_comment(value)[1:].rstrip().removesuffix("]")
    return [_scalar(each.strip()) for each in inside.split(",") if each.strip()]


def _scalar(value: str) -> str:
    quote = value[:1]
    if quote in ("'", '"') and (end := value.find(quote, 1)) > 0:
        return value[1:end]
    value = _without_comment(value)
    return "" if value in ("null", "~", "{}") else value


def _without_comment(value: str) -> str:
    return value.partition(" #")[0].rstrip()
