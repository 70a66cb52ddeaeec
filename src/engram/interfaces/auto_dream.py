"""Starts a pass of dreaming that nobody asked for: `engram dream --if-due`, detached.

A hook at the end of a session and an idle MCP server call `start` after they have found that something is due. The
command decides again. At most one runs in a workspace of a store, and the store allows one an hour.

The command gets no key or token of the client that started it. Only a user who lets automatic passes use a model that
costs money passes that model's key on, and an embedder that needs a server gets its key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..store_url import masked

if TYPE_CHECKING:
    from ..config import Config

#: Why the pass runs; `engram dream status` shows it.
SESSION_END, IDLE_SERVER = "session end", "idle server"

#: What a thinker or an embedder on a server reads from the environment.
_KEYS = {
    "openai": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"),
    # A client that thinks has its own login, in a folder that a variable may name.
    "claude-code": ("CLAUDE_CONFIG_DIR",),
    "codex": ("CODEX_HOME",),
}
_NETWORK = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


def start(settings: Config, reason: str, *, all_workspaces: bool = False) -> bool:
    """Start a pass over the settings' workspace; False if one is running or was started within the last minute.

    With `all_workspaces` one command goes through all of them, one after the other.
    """
    from . import detached

    arguments = ["dream", "--if-due", "--reason", reason, *(["--all"] if all_workspaces else [])]
    name = lock_name(settings, all_workspaces=all_workspaces)
    return detached.start(name, arguments, settings, also=needed_variables(settings))


def lock_name(settings: Config, *, all_workspaces: bool = False) -> str:
    """The name of the lock. A data folder can serve several stores and workspaces, which do not wait for each other."""
    from zlib import crc32

    # No workspace is called so: an empty name is not valid.
    workspace = "" if all_workspaces else settings.workspace
    return f"dream-{workspace}-{crc32(masked(settings.url).encode()):08x}"


def needed_variables(settings: Config) -> tuple[str, ...]:
    """Variables beyond those that every detached command gets."""
    used = [settings.embedder.partition(":")[0]]
    if settings.auto_dream_llm == "same":
        used.append(settings.llm.partition(":")[0])
    keys = [name for provider in used for name in _KEYS.get(provider, ())]
    if not keys:
        return ()
    return (*dict.fromkeys(keys), *_NETWORK, *(name.lower() for name in _NETWORK))
