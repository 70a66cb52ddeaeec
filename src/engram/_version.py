"""The version and the distribution's name. Imports nothing, so that `engram --version` is fast."""

VERSION = "0.1.0"

#: The name on PyPI. Another project owns the name `engram` there, so every install command uses this name.
DISTRIBUTION = "engram-agents"
UPGRADE = f"pip install --upgrade {DISTRIBUTION}"


def install_command(extra: str) -> str:
    """The command that installs an optional extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
