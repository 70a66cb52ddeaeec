"""The version and the distribution's name, where even `engram --version` reads them without importing anything else."""

VERSION = "0.1.0"

#: The name on PyPI. The name `engram` belongs to somebody else's package, so every command that installs uses this one.
DISTRIBUTION = "engram-agents"
UPGRADE = f"pip install --upgrade {DISTRIBUTION}"


def install_command(extra: str) -> str:
    """The command that installs what an optional part needs."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"
