"""Compares exports and stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engram import Engram
from engram.config import load
from tests._tables import dump


def body(file: Path) -> list[str]:
    """The lines of an export after its header."""
    return file.read_text(encoding="utf-8").split("\n")[1:]


def records(file: Path, kind: str) -> list[dict[str, Any]]:
    return [found for line in body(file) if line and (found := json.loads(line))["record"] == kind]


def exported(eng: Engram, file: Path, **options: Any) -> list[str]:
    eng.export(file, force=True, **{"all_workspaces": True, **options})
    return body(file)


def opened(url: str, **settings: Any) -> Engram:
    return Engram(settings=load(url=url, **settings))


def content(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of a store, except those about the schema and those that only PostgreSQL has."""
    return {table: rows for table, rows in dump(url).items() if table not in ("migrations", "closeness")}
