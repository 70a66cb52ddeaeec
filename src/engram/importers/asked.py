"""What the user asks of an import."""

from __future__ import annotations

from typing import NamedTuple


class Asked(NamedTuple):
    #: The name of the format.
    source: str
    #: The project of everything that names none.
    project: str | None = None
    #: Sessions whose last turn is earlier are left out, and so are earlier memories.
    since: str | None = None
    #: Whether what was forgotten here is imported again.
    again: bool = False
    #: Whether nothing is written.
    dry_run: bool = False
    #: The embedding model that the vectors in the source are from. Without it they are not used.
    vectors_of: str | None = None
