"""The agents on this machine: their programs, their settings, and the transcripts that they have kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import EngramError
from ...import_records import TranscriptFiles
from ...importers import formats
from ...importers.importing import look
from ..install import plan

if TYPE_CHECKING:
    from ...client import Engram
    from ..install.commands import Commands
    from ..install.files import Change
    from ..install.harness import Harness


class Agent(NamedTuple):
    name: str
    #: Its name for people.
    title: str
    #: Whether it is on this machine.
    found: bool
    #: Its program, if the search path has it, and the folder of its settings, if that exists.
    program: str | None
    folder: str | None
    #: Whether Engram is in its settings: see `plan.state`.
    state: str
    #: The changes that would set it up; none if it is set up, or if a file cannot be used.
    changes: tuple[Change, ...]
    #: Why it cannot be set up; empty if it can.
    problem: str
    #: Where it keeps transcripts, and what is there.
    places: tuple[Path, ...]
    transcripts: TranscriptFiles
    #: Why the transcripts cannot be looked at; empty if they can.
    unreadable: str = ""


def found(eng: Engram, commands: Commands) -> list[Agent]:
    """Every agent that Engram knows, whether it is here or not."""
    return [_looked_at(harness, eng, commands) for harness in plan.HARNESSES.values()]


def _looked_at(harness: Harness, eng: Engram, commands: Commands) -> Agent:
    location = plan.Location()
    settings = harness.user_files().hooks.parent
    here = plan.is_found(harness)
    changes: tuple[Change, ...] = ()
    problem = unreadable = ""
    if here:
        try:
            changes = tuple(plan.install(harness, location, commands))
        except EngramError as error:
            problem = str(error)
    places = _places(harness.name, settings)
    try:
        transcripts = look(harness.name, places, eng) if places else TranscriptFiles()
    except (EngramError, OSError) as error:
        transcripts, unreadable = TranscriptFiles(), str(error)
    return Agent(
        name=harness.name,
        title=harness.title,
        found=here,
        program=next(filter(None, map(shutil.which, harness.programs)), None),
        folder=str(settings) if settings.exists() else None,
        state=plan.state(harness, location, commands) if here else "absent",
        changes=changes,
        problem=problem,
        places=places,
        transcripts=transcripts,
        unreadable=unreadable,
    )


def _places(name: str, settings: Path) -> tuple[Path, ...]:
    """The folders with the agent's transcripts that exist. They are beside its settings, wherever those are."""
    below = (settings.joinpath(*Path(place).parts[2:]) for place in formats.get(name).places)
    return tuple(place for place in below if place.exists())
