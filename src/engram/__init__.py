"""Engram: one memory for all of a person's agents.

    from engram import Engram

    eng = Engram()
    sid = eng.sessions.register("claude-code", "Porting the router")
    print(eng.sitrep())

Public names are loaded on first use, because hooks and `engram --help` import this package without using them. Type
checkers and editors read the same list, `_public`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _version

if TYPE_CHECKING:
    from ._public import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        # Python also calls this for submodules (`from . import checks`), so only the name of a class loads the list.
        if name[0].isupper() or name == "__all__":
            from . import _public

            names = {each: value for each, value in vars(_public).items() if each[0].isupper()}
            globals().update(names, __all__=[*sorted(names), "__version__", "sitrep"])
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = _version.VERSION


def sitrep(budget: int | None = 1_000, session_id: str | None = None, project: str | None = None) -> str:
    """The situation report of the user's default store."""
    from .client import Engram

    with Engram() as eng:
        return eng.sitrep(budget, session_id, project)
