"""The process of the harness that started this program.

A harness starts its hooks and its MCP server as children: directly, through `sh -c`, or through a launcher such as
`npx`. So both find the harness as their nearest ancestor that is neither. Claude Code, Codex and Gemini CLI were
examined: `claude` is that ancestor in Claude Code, the program `codex` below its `node` wrapper in Codex, and the inner
one of two `node` processes in Gemini CLI. No harness is known by name, so a new one works too, and a harness that
another one started is never taken for it.

Where processes cannot be named (see `processes`), a client is known only by its session id in the environment.
"""

from __future__ import annotations

import os

from .. import processes

#: How many ancestors are examined.
MOST_ANCESTORS = 10
_SHELLS = frozenset({"sh", "ash", "bash", "dash", "fish", "ksh", "zsh", "busybox"})
#: Programs that only start another program and wait for it.
_LAUNCHERS = frozenset(
    {
        *("env", "nice", "ionice", "nohup", "setsid", "stdbuf", "time", "timeout", "xargs"),
        *("npx", "npx-cli.js", "npm", "npm-cli.js", "pnpm", "pnpx", "bunx", "yarn", "volta"),
        *("uv", "uvx", "pipx", "poetry", "hatch", "pdm", "mise", "asdf", "direnv", "pyenv"),
    }
)
#: Programs that run a script. The script's name says what it is.
_INTERPRETERS = frozenset({"node", "bun", "deno", "python", "python3"})
#: Words in the command of a harness that runs several sessions at once, for an editor or another program.
_MANY_SESSIONS = frozenset({"app-server", "mcp-server", "exec-server", "acp", "--acp", "--experimental-acp"})


def find() -> str | None:
    """The name of the harness's process; None if it cannot be determined."""
    try:
        id = os.getppid()
        for _ in range(MOST_ANCESTORS):
            # Process 1 takes over the children of processes that have ended, so it says nothing about the starter.
            if id <= 1:
                return None
            process, words = processes.read(id), _words(id)
            if _is_terminal(words):
                return None
            if not _only_starts(words):
                return process.name
            id = process.parent
    except (OSError, ValueError):
        return None
    return None


def is_running(name: str) -> bool:
    """Whether the process of that name runs. A process that cannot be seen from here counts as running."""
    return processes.runs(name) is not False


def has_many_sessions(name: str) -> bool:
    """Whether the harness runs several sessions at once in that process."""
    try:
        words = _words(int(name.rsplit("/", 2)[-2]))
    except (OSError, ValueError, IndexError):
        return False
    return not _MANY_SESSIONS.isdisjoint(words[1:])


def _words(id: int) -> tuple[str, ...]:
    """The command of a process."""
    with open(f"/proc/{id}/cmdline", encoding="utf-8", errors="replace") as file:
        return tuple(file.read().rstrip("\0").split("\0"))


def _program(words: tuple[str, ...]) -> str:
    """The name of a program: that of the script, if an interpreter runs one."""
    # Some programs write their whole command into the first word.
    first = os.path.basename((words[0].split() or [""])[0]).lstrip("-")
    if first in _INTERPRETERS and len(words) > 1:
        return os.path.basename(words[1])
    return first


def _is_terminal(words: tuple[str, ...]) -> bool:
    """Whether a person types into this shell. Everything that the person starts has it as an ancestor."""
    return _program(words) in _SHELLS and not _runs_one_command(words)


def _only_starts(words: tuple[str, ...]) -> bool:
    return _program(words) in _SHELLS or _program(words) in _LAUNCHERS


def _runs_one_command(words: tuple[str, ...]) -> bool:
    """Whether a shell was given a command or a script."""
    for word in words[1:]:
        if word in ("--rcfile", "--init-file"):
            return False
        if not word.startswith("-") or (not word.startswith("--") and "c" in word):
            return True
    return False
