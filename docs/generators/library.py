"""docs/reference/library.md: every public method of the facade and its groups, and the records, by noun."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from docs.generators.tables import code, table

from engram import Engram
from engram.memory.recall import Recall
from engram.remote.calls import SPECIAL, scope_of

_HEAD = """\
# Library

`make docs` writes this page from the signatures and docstrings of the code. [The guide](../library.md) says how the
library is used: opening a store, transactions, past times, your own models.

`eng` is an `Engram`. Methods are grouped by noun. *Over a server* names the [scope](../access.md) that a method needs
if the store is behind [a server](../server.md). A method without that line is made of others, or works only in the
process that opened the store. Times are UTC text of fixed width. Records are immutable named tuples; they are [at the
end](#records).

"""

#: What a noun is, and the groups of the facade that are about it. A group that is not named here is under "Other".
_NOUNS = {
    "The facade": ("Opening, and the verbs.", ("",)),
    "Sessions": ("One agent at work.", ("sessions", "transcripts", "harness_processes")),
    "Exchanges": ("What was said and done in a session.", ("exchanges",)),
    "Memories": ("What is worth knowing.", ("memories", "gists", "eras", "embedders", "embedding_queue", "injections")),
    "Blocks": ("Named, versioned texts.", ("blocks", "world")),
    "Leases and messages": ("Claims on resources, and texts to sessions.", ("leases", "lease_notices", "messages")),
    "Dreams": (
        "Passes, their proposals, and thinking that is left to agents.",
        ("dreams", "proposals", "work", "thinkers"),
    ),
    "Access": (
        "Who may use a store over a server.",
        tuple(f"access{each}" for each in ("", ".tokens", ".logins", ".clients", ".consents", ".answers", ".attempts")),
    ),
    "Other": ("", ()),
}
#: The earlier name of another group.
_ALIASES = {"backlog"}
_RECORDS = ("records", "dream_records", "overview_records", "access_records", "import_records", "setup_records")


class Method(NamedTuple):
    """A public method or property."""

    #: `sessions.log`, `recall`.
    name: str
    about: Any

    @property
    def call(self) -> str:
        return f"eng.{self.name}"


def page() -> str:
    methods, left = list(public_methods()), ""
    text = _HEAD
    known = {group for _, groups in _NOUNS.values() for group in groups}
    for noun, (what, groups) in _NOUNS.items():
        chosen = groups if noun != "Other" else sorted({_group(each.name) for each in methods} - known)
        text += f"## {noun}\n\n" + (f"{what}\n\n" if what else "")
        if noun == "The facade":
            text += f"### Engram\n\n{_signature('Engram', Engram.__init__)}{_documentation(Engram)}"
        for group in chosen:
            members = [each for each in methods if _group(each.name) == group]
            text += "".join(_method(each) for each in members if not _is_internal(each.about))
            inner = [code(each.call) for each in members if _is_internal(each.about)]
            left += f"- {' '.join(inner)}\n" if inner else ""
    text += "## Inside a transaction\n\nThese take a transaction of the engine. They are for the tiers.\n\n"
    text += f"{left}\n## Records\n\n" + "".join(_record(each) for each in records())
    return text.rstrip("\n") + "\n"


def public_methods() -> Iterator[Method]:
    """Those of the facade first, then those of its groups."""
    with tempfile.TemporaryDirectory(prefix="engram-docs-") as folder, Engram(str(Path(folder) / "engram.db")) as eng:
        yield from _methods_of(eng, "")
        # `remember` is a method of the memories that the facade also has.
        yield Method("remember", type(eng.memories).remember)
        groups = [*vars(eng), *(name for name, value in vars(Engram).items() if isinstance(value, property))]
        for group in groups:
            if not group.startswith("_") and group not in _ALIASES and _is_group(getattr(eng, group)):
                yield from _methods_of(getattr(eng, group), group)
        for name, value in vars(type(eng.access)).items():
            if isinstance(value, property):
                yield from _methods_of(getattr(eng.access, name), f"access.{name}")


def records() -> list[type[Any]]:
    found = []
    for module in map(import_module, (f"engram.{name}" for name in _RECORDS)):
        own = [each for each in vars(module).values() if getattr(each, "__module__", "") == module.__name__]
        found += [each for each in own if isinstance(each, type) and hasattr(each, "_fields")]
    return found


def _methods_of(owner: object, group: str) -> Iterator[Method]:
    members = {name: value for each in reversed(type(owner).__mro__[:-1]) for name, value in vars(each).items()}
    for name, value in members.items():
        dotted = f"{group}.{name}".lstrip(".")
        if name == "__call__":
            yield Method(group, value)
        elif isinstance(value, property):
            if not name.startswith("_") and not _is_group(getattr(owner, name)):
                yield Method(dotted, value)
        elif not name.startswith("_") and (callable(value) or isinstance(value, staticmethod)):
            yield Method(dotted, value)


def _is_group(value: object) -> bool:
    return type(value).__module__.startswith("engram.") and not hasattr(value, "_fields")


def _group(name: str) -> str:
    return "changes" if name == "changes" else name.rpartition(".")[0]


def _is_internal(about: Any) -> bool:
    return not isinstance(about, property) and any(
        "Transaction" in str(each.annotation) for each in inspect.signature(_function(about)).parameters.values()
    )


def _method(method: Method) -> str:
    group, name = _group(method.name), method.name.rpartition(".")[2]
    row = next((row for (where, row), called in SPECIAL.items() if (where, called) == (group, "__call__")), name)
    key = f"{group}.{row}".lstrip(".") if method.name == group else method.name
    scope = scope_of("memories.remember" if method.name == "remember" else key)
    needs = f"Over a server: scope `{scope}`.\n\n" if scope else ""
    if isinstance(method.about, property):
        kind = _annotation(inspect.signature(_function(method.about.fget)).return_annotation)
        text = f"```python\n{method.call}: {kind}\n```\n\n"
    else:
        # The facade's method takes `**options` so that it need not import what recall needs.
        text = _signature(method.call, Recall.recall if method.name == "recall" else method.about)
    documented = _documentation(Recall.recall if method.name == "recall" else method.about)
    return f"### {method.call}\n\n{text}{documented}{needs}"


def _function(about: Any) -> Callable[..., object]:
    made: Callable[..., object] = about.__func__ if isinstance(about, staticmethod) else about
    found: Callable[..., object] = inspect.unwrap(made)
    return found


def _signature(name: str, about: Any) -> str:
    """A call with its parameters, on several lines if one is too long."""
    signature = inspect.signature(_function(about))
    shown, star = [], False
    for each in signature.parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not star:
            shown.append("*")
        star = star or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        mark = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        typed = "" if each.annotation is each.empty else f": {_annotation(each.annotation)}"
        default = "" if each.default is each.empty else f"{' = ' if typed else '='}{_default(each.default)}"
        shown.append(f"{mark}{each.name}{typed}{default}")
    result = _annotation(signature.return_annotation)
    arrow = "" if result in ("None", "") or name == "Engram" else f" -> {result}"
    line = f"{name}({', '.join(shown)}){arrow}"
    if len(line) > 100:
        line = f"{name}(\n" + "".join(f"    {each},\n" for each in shown) + f"){arrow}"
    return f"```python\n{line}\n```\n\n"


def _annotation(given: Any) -> str:
    if given is inspect.Signature.empty:
        return ""
    return (
        given.strip("'\"") if isinstance(given, str) else inspect.formatannotation(given).replace("engram.records.", "")
    )


def _default(value: object) -> str:
    # An object's address would differ each time.
    return re.sub(r"<(?:function |object )?([\w.]+).*>", r"\1", repr(value))


def _documentation(about: Any) -> str:
    text = inspect.getdoc(about.fget if isinstance(about, property) else _function(about))
    return f"{text}\n\n" if text else ""


def _record(record: type[Any]) -> str:
    comments = _comments(record)
    kinds = {name: _annotation(kind) for name, kind in record.__annotations__.items()}
    rows = []
    for name in record._fields:
        default = f"default {code(_default(record._field_defaults[name]))}" if name in record._field_defaults else ""
        rows.append(
            (code(name), code(_forward(kinds[name])), comments.get(name, "") + (f" ({default})" if default else ""))
        )
    about = inspect.getdoc(record) or ""
    # A named tuple without a docstring has one that repeats its fields.
    about = "" if about.startswith(f"{record.__name__}(") else f"{about}\n\n"
    return f"### {record.__name__}\n\n{about}" + table(("field", "type", "meaning"), rows)


def _forward(kind: str) -> str:
    return re.sub(r"ForwardRef\('([^']+)'(?:, [^)]*)?\)", r"\1", kind)


def _comments(record: type[Any]) -> dict[str, str]:
    """The `#:` lines above each field."""
    found: dict[str, str] = {}
    held: list[str] = []
    for line in inspect.getsource(record).splitlines():
        stripped = line.strip()
        if stripped.startswith("#:"):
            held.append(stripped[2:].strip())
            continue
        field = re.match(r"    (\w+): ", line)
        if field and held:
            found[field[1]] = " ".join(held)
        held = []
    return found
