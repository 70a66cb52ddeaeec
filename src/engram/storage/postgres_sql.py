"""Turns the tiers' SQL into the forms that PostgreSQL needs. Each constant is converted once.

The tiers write `:name` parameters. The driver's own form is `%(name)s`, and the server's is `$1`.
"""

from __future__ import annotations

import functools
import re
from typing import LiteralString, NamedTuple

#: A list parameter as the tiers write it, with the parameter already in the driver's form.
_LIST_PARAMETER = re.compile(r"IN \(SELECT value FROM json_each\((%\(\w+\)s)\)\)")
_DRIVER_PARAMETER = re.compile(r"%(?:\((\w+)\)s|%)")
#: An insertion whose values are all parameters.
_PLAIN_INSERT = re.compile(
    r"\s*(?P<head>INSERT INTO \w+ \([\w, \n]+\))\s*VALUES \((?P<values>[:\w, \n]+)\)(?P<rest>\s*ON CONFLICT[^:]*)?\s*"
)


class Statement(NamedTuple):
    """A statement in the server's form."""

    sql: bytes
    #: The names of its parameters, in order.
    names: tuple[str, ...]


@functools.cache
def statement(sql: LiteralString) -> Statement:
    """A tier's statement in the server's form."""
    return numbered(driver_sql(sql))


@functools.lru_cache(1_000)
def numbered(sql: str) -> Statement:
    """A statement in the driver's form, with its parameters numbered."""
    names: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        return "%" if found[1] is None else names.setdefault(found[1], f"${len(names) + 1}")

    text = _DRIVER_PARAMETER.sub(number, sql)
    return Statement(text.encode(), tuple(names))


@functools.cache
def insert_of_many(sql: LiteralString, types: tuple[str, ...]) -> Statement | None:
    """A tier's insertion of one row as one of many rows, each parameter being an array; None if that is not possible.

    `types` are those of the columns. One statement with arrays costs the server a fraction of one for each row.
    """
    found = _PLAIN_INSERT.fullmatch(sql)
    if found is None:
        return None
    names = [name.strip().removeprefix(":") for name in found["values"].split(",")]
    if len(set(names)) < len(names) or len(names) != len(types):
        return None
    arrays = ", ".join(f"${place}::{type}[]" for place, type in enumerate(types, 1))
    text = f"{found['head']} SELECT * FROM unnest({arrays}){found['rest'] or ''}"
    return Statement(text.encode(), tuple(names))


@functools.cache
def driver_sql(sql: LiteralString) -> LiteralString:
    """The statement in the driver's form: `:name` becomes `%(name)s`, `%` becomes `%%`, and a list becomes an array.

    Reads the text token by token, so that a colon inside a string, a quoted name, a comment or a cast (`::text`) does
    not count as a parameter.
    """
    out: list[str] = []
    position = 0
    while position < len(sql):
        end = _token_end(sql, position)
        if end > position:
            out.append(sql[position:end].replace("%", "%%"))
        elif sql[position] == ":" and sql[position + 1 : position + 2].isidentifier():
            end = position + 1
            while end < len(sql) and (sql[end].isalnum() or sql[end] == "_"):
                end += 1
            out.append(f"%({sql[position + 1 : end]})s")
        else:
            end = position + 1
            out.append("%%" if sql[position] == "%" else sql[position])
        position = end
    return _LIST_PARAMETER.sub(r"= ANY(\1)", "".join(out))


def _token_end(sql: str, position: int) -> int:
    """The end of the string, quoted name, comment or cast at this position; the position itself if there is none."""
    if sql[position] in "'\"":
        quote = sql[position]
        end = sql.index(quote, position + 1) + 1
        # A doubled quote is a quote inside the text.
        while sql[end : end + 1] == quote:
            end = sql.index(quote, end + 1) + 1
        return end
    pair = sql[position : position + 2]
    if pair == "::":
        return position + 2
    if pair == "--":
        end = sql.find("\n", position)
        return len(sql) if end < 0 else end
    if pair == "/*":
        return sql.index("*/", position + 2) + 2
    return position
