"""Names that only the agent's machine can resolve: projects and files. They are sent in their resolved form.

A server has other folders, so it must never look a client's names up on its own disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from ..coordination.projects import default_project
from ..coordination.resources import of_file

if TYPE_CHECKING:
    from ..config import Config


def project(settings: Config) -> str | None:
    """The project of a session that is at work in the current folder."""
    return default_project(settings)


def file(path: str) -> str:
    """The resource of a file, in its stored form. A relative path is relative to the current folder."""
    return of_file(path)


def file_without_secrets(path: str) -> str:
    """The same. InvalidInput, without repeating the path, if it contains a secret."""
    return checks.without_secrets(of_file(checks.without_secrets(path, "resource")), "resource")
