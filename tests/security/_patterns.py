"""Finds every regular expression in the package's source, and makes hostile texts from its own parts.

It searches the syntax tree for calls of `re` and of functions that compile their argument, and evaluates the pattern in
its module. A pattern that cannot be evaluated there must be listed in `TABLES`, so no pattern is overlooked.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined, unused-ignore]
from re import _parser as parser  # type: ignore[attr-defined, unused-ignore]
from types import ModuleType
from typing import Any

import engram
from engram import safe_text
from engram.dreaming.duplicates import statements
from engram.llm.extractive import markers, wishes
from engram.redact import assignments, credentials, token_formats

ROOT = Path(engram.__path__[0])
#: Functions of `re` whose first argument is a pattern, and Engram's functions that compile an argument.
CALLS = {"compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
HELPERS = {"compiled": 0, "_compiled": 0, "find_matches": 2}
#: A module whose `_compiled` is not about regular expressions.
OTHERS = "engram.coordination.globs"
#: Modules that never read stored text: they handle settings of harnesses, arguments, SQL and a model's errors.
ELSEWHERE = ("interfaces.install", "interfaces.cli.common", "storage", "llm.openai", "llm.anthropic")
#: Calls whose pattern is a variable, and all values of that variable.
TABLES: dict[tuple[str, str], Callable[[], list[str]]] = {
    ("engram.redact", "f'{re.escape(prefix)}(?P<tail>{tail})(?![A-Za-z0-9])'"): lambda: [
        f"{re.escape(prefix)}(?P<tail>{tail})(?![A-Za-z0-9])"
        for _, prefixes, tail in token_formats.PREFIXED
        for prefix in (prefixes[0], prefixes[-1])
    ],
    ("engram.redact", "pattern"): lambda: [pattern for _, _, pattern in token_formats.SHAPED],
    ("engram.redact", "AWS_SECRET"): lambda: [token_formats.AWS_SECRET],
    ("engram.redact.credentials", "pattern"): lambda: [pattern for pattern, _ in credentials._FLAGS],
    ("engram.redact.assignments", "pattern"): lambda: [
        assignments._CODE_VALUE,
        assignments._SHELL_VALUE,
        assignments._XML_VALUE,
    ],
    # These compile their callers' patterns, and the calls are found.
    ("engram.redact.patterns", "pattern"): list,
    ("engram.redact.token_formats", "pattern"): list,
    ("engram.memory.analyser", "pattern"): list,
    ("engram.llm.extractive.markers", "'|'.join(patterns)"): lambda: [
        *_compiled_in(markers),
        *(pattern.pattern for _, pattern in markers.MARKERS),
    ],
    ("engram.llm.extractive.wishes", "'|'.join(patterns)"): lambda: _compiled_in(wishes),
    ("engram.safe_text", "letters"): lambda: [safe_text._tag().pattern],
    ("engram.dreaming.duplicates.statements", "longest"): lambda: [statements._phrases().pattern],
}


def _compiled_in(module: ModuleType) -> list[str]:
    """The patterns that a module has, alone and in tuples of records."""
    return [
        value.pattern
        for each in vars(module).values()
        for value in (each if isinstance(each, tuple) else [each])
        for value in ([value] if isinstance(value, re.Pattern) else [getattr(value, "pattern", None)])
        if isinstance(value, re.Pattern)
    ]


#: A hostile text is at most this long.
LONGEST = 40_000
#: Seconds. A pattern that is faster than this on the longest text is fast enough at any growth.
FLOOR = 0.125
#: Seconds that can be compared. A shorter time is mostly noise.
MEASURABLE = 0.02
#: The largest accepted growth of the time for four times the text: linear is 4, quadratic is 16.
GROWTH = 9.0


@cache
def patterns() -> dict[str, re.Pattern[str]]:
    """Every pattern, by its module and line."""
    found: dict[str, re.Pattern[str]] = {}
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT.parent).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if module.removeprefix("engram.").startswith(ELSEWHERE):
            continue
        for call in ast.walk(ast.parse(file.read_text())):
            if isinstance(call, ast.Call) and (argument := _pattern(module, call)) is not None:
                for number, made in enumerate(_made(module, call, argument)):
                    # The key is not the pattern's text, because one pattern contains a random key.
                    found[f"{module.removeprefix('engram.')} line {call.lineno} ({number})"] = made
    return found


def _pattern(module: str, call: ast.Call) -> ast.expr | None:
    """The argument of a call that is a pattern; None for other calls."""
    function = call.func
    if isinstance(function, ast.Attribute) and ast.unparse(function.value) == "re" and function.attr in CALLS:
        return call.args[0]
    if isinstance(function, ast.Name) and function.id in HELPERS and module != OTHERS:
        return call.args[HELPERS[function.id]]
    return None


def _made(module: str, call: ast.Call, argument: ast.expr) -> list[re.Pattern[str]]:
    # Some modules import `re` inside a function.
    names = {**vars(import_module(module)), "re": re}
    flags = [each for each in call.args[1:] + [word.value for word in call.keywords] if "re." in ast.unparse(each)]
    flag = eval(ast.unparse(flags[0]), names) if flags and isinstance(call.func, ast.Attribute) else 0
    try:
        texts = [eval(ast.unparse(argument), names)]
    except NameError:
        known = [give for (where, part), give in TABLES.items() if where == module and part in ast.unparse(argument)]
        assert known, f"{module} line {call.lineno}: list the patterns of {ast.unparse(argument)!r} in TABLES"
        texts = known[0]()
    return [re.compile(text, flag) for text in texts]


def hostile(pattern: re.Pattern[str]) -> Iterator[tuple[str, Callable[[int], str]]]:
    """Texts of any length that could make a pattern slow: its own parts repeated, with and without an end."""
    whole = _match(parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE))
    letters = sorted({*whole, *(_first(pattern))} | set(" \n\t\"'\\-_.=:/a0A"))[:40]
    cuts = sorted({len(whole) * part // 6 for part in range(1, 7)} | {len(whole) - 1, 1})
    pieces = dict.fromkeys([*[whole[:cut] for cut in cuts if cut > 0], whole[-3:], "-" + whole[:6], "\\n" + whole[:6]])
    for piece in filter(None, pieces):
        for end in ("", "\x00"):
            yield f"{piece[:30]!r} again and again", pumped(piece, end=end)
    for cut in cuts:
        head = whole[:cut]
        for letter in letters if cut in (1, len(whole)) else letters[::4]:
            yield f"{head[-20:]!r} and {letter!r}", pumped(letter, head, "\x00")
    for a in letters[::6]:
        for b in letters[3::6]:
            yield f"{a!r} {b!r} in turn", pumped(a + b, end="\x00")


def pumped(piece: str, head: str = "", end: str = "") -> Callable[[int], str]:
    """Makes texts of any length that repeat a piece."""
    return lambda size: head + (piece * (size // len(piece) + 1))[:size] + end


def _first(pattern: re.Pattern[str]) -> str:
    """One character of each set that a pattern has."""
    found: list[str] = []
    stack: list[Any] = [parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)]
    while stack:
        part = stack.pop()
        if isinstance(part, parser.SubPattern | list | tuple):
            stack += list(part)
            if len(part) == 2 and part[0] is sre.IN:
                found.append(_one(part[1]))
    return "".join(found)


def _match(tree: Any) -> str:
    """A text that the pattern matches, or nearly: look-arounds are left out."""
    made = ""
    for op, value in tree:
        if op is sre.LITERAL:
            made += chr(value)
        elif op in (sre.NOT_LITERAL, sre.ANY):
            made += "x"
        elif op is sre.IN:
            made += _one(value)
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            least, most, inner = value
            made += _match(inner) * min(max(least, 1 if most else 0), 40)
        elif op is sre.SUBPATTERN:
            made += _match(value[-1])
        elif op is sre.ATOMIC_GROUP:
            made += _match(value)
        elif op is sre.BRANCH:
            made += _match(value[1][0])
    return made


def _one(members: Any) -> str:
    if members[0][0] is sre.NEGATE:
        return "x"
    categories = {sre.CATEGORY_DIGIT: "0", sre.CATEGORY_SPACE: " ", sre.CATEGORY_WORD: "a"}
    op, value = members[0]
    if op is sre.LITERAL:
        return chr(value)
    return chr(value[0]) if op is sre.RANGE else categories.get(value, "x")


def slow(run: Callable[[str], object], make: Callable[[int], str]) -> str | None:
    """Describe a growth of time that is faster than linear; None if it is linear."""
    # Otherwise a cubic pattern would take hours to be found.
    if (took := _time(run, make(LONGEST // 80))) > FLOOR:
        return f"{took:.3f} s for {LONGEST // 40:,} characters"
    size = LONGEST // 10
    while (took := _time(run, make(size))) < MEASURABLE and size * 8 <= LONGEST:
        # Even quadratic growth from here would stay below the floor.
        if took < FLOOR * (size / LONGEST) ** 2:
            return None
        size *= 2
    first, last = took, _time(run, make(4 * size))
    if last <= GROWTH * first or _time(run, make(LONGEST)) < FLOOR:
        return None
    # A busy machine can slow down one run, but not all of them.
    first, last = (min(_time(run, make(each)) for _ in range(3)) for each in (size, 4 * size))
    if last <= GROWTH * first:
        return None
    return f"{first:.3f} s for {size:,} characters, then {last:.3f} s for {4 * size:,}"


def _time(run: Callable[[str], object], text: str) -> float:
    begun = time.thread_time()
    run(text)
    return time.thread_time() - begun
