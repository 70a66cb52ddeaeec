"""The tiers' SQL as the PostgreSQL driver gets it."""

from __future__ import annotations

import pkgutil
import re
from functools import cache
from importlib import import_module
from typing import LiteralString

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engram
from engram import Engram
from engram.storage.postgres_sql import driver_sql

TABLE: list[tuple[LiteralString, LiteralString]] = [
    ("SELECT 1", "SELECT 1"),
    ("SELECT :a", "SELECT %(a)s"),
    (":a", "%(a)s"),
    ("SELECT :a, :a_b2,:c", "SELECT %(a)s, %(a_b2)s,%(c)s"),
    ("(:a)", "(%(a)s)"),
    ("SELECT :a::text", "SELECT %(a)s::text"),
    ("SELECT a::text, b :: int", "SELECT a::text, b :: int"),
    ("SELECT ':a'", "SELECT ':a'"),
    ("SELECT ':a' || :a || ':a'", "SELECT ':a' || %(a)s || ':a'"),
    ("SELECT 'it''s :a', :a", "SELECT 'it''s :a', %(a)s"),
    ("SELECT '''', :a", "SELECT '''', %(a)s"),
    ("SELECT '', :a", "SELECT '', %(a)s"),
    ('SELECT ":a", :a', 'SELECT ":a", %(a)s'),
    ('SELECT "it""s :a", :a', 'SELECT "it""s :a", %(a)s'),
    ("SELECT '\"', :a, '\"'", "SELECT '\"', %(a)s, '\"'"),
    ("SELECT 1 -- :a, it's\n, :a", "SELECT 1 -- :a, it's\n, %(a)s"),
    ("SELECT 1 -- :a", "SELECT 1 -- :a"),
    ("SELECT 1 /* :a, it's */, :a", "SELECT 1 /* :a, it's */, %(a)s"),
    ("SELECT 1 /*/ :a */, :a", "SELECT 1 /*/ :a */, %(a)s"),
    ("SELECT '--', :a", "SELECT '--', %(a)s"),
    ("SELECT '/*', :a, '*/'", "SELECT '/*', %(a)s, '*/'"),
    ("SELECT 5 - :a", "SELECT 5 - %(a)s"),
    ("SELECT 6 / :a * 2", "SELECT 6 / %(a)s * 2"),
    ("SELECT 5 % :a", "SELECT 5 %% %(a)s"),
    ("SELECT '5%', '%s', '%(a)s'", "SELECT '5%%', '%%s', '%%(a)s'"),
    ('SELECT "%", :a -- 100%', 'SELECT "%%", %(a)s -- 100%%'),
    ("SELECT ARRAY[1, 2][1:2]", "SELECT ARRAY[1, 2][1:2]"),
    ("SELECT 'ä:a', :ä", "SELECT 'ä:a', %(ä)s"),
    ("WHERE a IN (SELECT value FROM json_each(:b)) AND c = :c", "WHERE a = ANY(%(b)s) AND c = %(c)s"),
    ("", ""),
]


@pytest.mark.requirement("STORE-17")
def test_only_parameters_lists_and_percent_signs_are_translated() -> None:
    assert [(ours, driver_sql(ours)) for ours, _ in TABLE] == TABLE


@pytest.fixture(scope="module")
def answers() -> dict[LiteralString, tuple[object, ...]]:
    """What statements with everything that looks like a parameter, but is none, must answer."""
    return {
        "SELECT 'it''s :a', :a + 1": ("it's :a", 8),
        "SELECT '100%', '%s %(a)s', 9 % :a": ("100%", "%s %(a)s", 2),
        'SELECT :a /* :a % */ AS ":a %" -- :b %': (7,),
        "SELECT ':a' || '::text', CAST(:a AS TEXT)": (":a::text", "7"),
        "SELECT '--', '/*', :a, '*/'": ("--", "/*", 7, "*/"),
    }


@pytest.mark.requirement("STORE-17")
def test_both_engines_understand_a_statement_alike(
    eng: Engram, answers: dict[LiteralString, tuple[object, ...]]
) -> None:
    with eng._view.engine.read() as tx:
        for sql, answer in answers.items():
            assert tx.one(sql, a=7) == answer
        assert tx.one("SELECT '100%', '%%'") == ("100%", "%%")


@cache
def tier_sql() -> dict[str, str]:
    """Every SQL constant of the tiers, by module and name."""
    found = {}
    tiers = ("access", "coordination", "memory", "dreaming", "forgetting")
    modules = ["engram.storage.changes"]
    for tier in tiers:
        walk = pkgutil.walk_packages([f"{engram.__path__[0]}/{tier}"], f"engram.{tier}.")
        modules += [module.name for module in walk]
    for module in modules:
        for name, value in vars(import_module(module)).items():
            if isinstance(value, str) and re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", value):
                found[f"{module.removeprefix('engram.')}.{name}"] = value
    return found


@pytest.mark.requirement("STORE-17")
def test_the_tiers_statements_are_where_this_test_looks_for_them() -> None:
    expected = {
        "memory.blocks._GET",
        "coordination.leases.LIVE",
        "dreaming.undo.journal._ADD",
        "storage.changes._SINCE",
    }
    assert expected <= tier_sql().keys()
    assert len(tier_sql()) > 50


@pytest.mark.requirement("STORE-17")
def test_a_tiers_statement_is_the_same_statement_for_the_driver() -> None:
    for name, ours in tier_sql().items():
        theirs = driver_sql(ours)
        # The tiers quote no parameter and write no cast, so that a plain pattern can say what is right.
        names = re.findall(r"(?<!:):([a-z_][a-z_0-9]*)", ours)
        with_arrays = re.sub(r"IN \(SELECT value FROM json_each\((:\w+)\)\)", r"= ANY(\1)", ours)
        assert names or ":" not in ours, name
        assert theirs % {parameter: f":{parameter}" for parameter in names} == with_arrays, name
        outside = re.search(r"\b(LIKE|ILIKE|GLOB)\b|->|@>", ours)
        assert not outside, f"{name} is outside the subset both engines share"


@pytest.mark.requirement("STORE-17")
def test_postgresql_accepts_every_statement_of_the_tiers(postgres_url: str) -> None:
    with Engram(postgres_url) as eng, eng._view.engine.write() as tx:
        for sql in tier_sql().values():
            tx.run(f"EXPLAIN {sql}", **dict.fromkeys(re.findall(r"(?<!:):([a-z_][a-z_0-9]*)", sql)))


QUOTED = st.text("ab:%'\" -/*", max_size=8)
PIECES = st.one_of(
    st.sampled_from(["SELECT ", ", ", " + ", "::text", " % ", "\n", "(", ")"]).map(lambda text: (text, text)),
    st.from_regex(r"[a-z_][a-z0-9_]{0,5}", fullmatch=True).map(lambda name: (f":{name} ", f"\0{name}\0 ")),
    QUOTED.map(lambda text: ("'" + text.replace("'", "''") + "' ",) * 2),
    QUOTED.map(lambda text: ('"' + text.replace('"', '""') + '" ',) * 2),
    QUOTED.map(lambda text: (f"--{text}\n",) * 2),
    # Without a slash nothing in it ends the comment.
    QUOTED.map(lambda text: (f"/*{text.replace('/', '')} */ ",) * 2),
)


@pytest.mark.requirement("STORE-17")
@given(st.lists(PIECES))
def test_any_sequence_of_tokens_keeps_its_texts_and_gets_its_parameters(pieces: list[tuple[str, str]]) -> None:
    ours = "".join(mine for mine, _ in pieces)
    expected = "".join(theirs for _, theirs in pieces).replace("%", "%%")
    while "\0" in expected:
        before, name, after = expected.split("\0", 2)
        expected = f"{before}%({name})s{after}"
    assert driver_sql(ours) == expected
