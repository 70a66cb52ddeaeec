"""Names that only the agent's machine can resolve: its project, and the resources of its files.

They are sent in their resolved form. A server has other folders, so it never looks a client's names up on its own disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import checks
from ..coordination import resources
from ..coordination.projects import project_here
from ..errors import InvalidInput

if TYPE_CHECKING:
    from ..config import Config


def project(settings: Config) -> str | None:
    """The project of a session that is at work in the current folder."""
    return project_here(settings)


def file_without_secrets(path: str) -> str:
    """The resource of a file, in its stored form. A relative path is relative to the current folder.

    InvalidInput, without repeating the path, if it contains a secret.
    """
    resource = resources.normalise(resources.escape(checks.without_secrets(path, "resource")))
    return checks.without_secrets(resource, "resource")


def stored_file(resource: object) -> str:
    """What `file_without_secrets` has returned on another machine. InvalidInput for anything else."""
    text = checks.text(resource, "resource", longest=resources.MAX_LENGTH)
    if resources.elsewhere(text, None) != text or not (text.startswith("/") or ":" in text):
        raise InvalidInput("resource is not a path in its stored form.")
    return checks.without_secrets(text, "resource")
