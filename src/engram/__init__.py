"""Engram: one memory for all of a person's agents.

    from engram import Engram

    eng = Engram()
    sid = eng.sessions.register("claude-code", "Porting the router")
    print(eng.sitrep())

Names are loaded on first use, because hooks and `engram --help` import this package without needing them. Type checkers
and editors read the same list, `_public`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _version

if TYPE_CHECKING:
    from ._public import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        # `from . import checks` asks for `checks` here before it is imported, so only what may be a class loads them.
        if name[0].isupper() or name == "__all__":
            from . import _public

            names = {each: value for each, value in vars(_public).items() if each[0].isupper()}
            globals().update(names, __all__=[*sorted(names), "__version__", "sitrep"])
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = _version.VERSION


def sitrep(budget: int | None = 1_000, session_id: str | None = None, project: str | None = None) -> str:
    """The situation report of the user's own store."""
    from .client import Engram

    with Engram() as eng:
        return eng.sitrep(budget, session_id, project)
