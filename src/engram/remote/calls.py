"""The calls of the library that a server offers, each with the scope that it needs.

A call that is not in this table cannot be made over the network. Left out are calls that choose what a server runs or
whom it asks (embedders, thinkers), that take a transaction, or that only make sense inside the process that owns the
store. Exports are left out, too: they take a file of the machine that the store is on, and one transaction that is
longer than a request. Some methods are made of others, so a client has them without a row here: `leases.hold`,
`world.set`.
"""

from __future__ import annotations

from typing import Literal

Scope = Literal["read", "write", "admin"]

#: By group and method. The group of the facade's own methods is empty.
CALLS: dict[str, dict[str, Scope]] = {
    "": {
        **dict.fromkeys(
            ("now", "workspaces", "workspace_names", "sitrep", "brief", "briefing", "waiting", "recall"), "read"
        ),
        **dict.fromkeys(("receipts", "is_dream_due", "context", "usage", "require_workspace"), "read"),
        **dict.fromkeys(("graph", "activity", "harness_events", "sizes"), "read"),
        **dict.fromkeys(("forget", "reindex", "dream", "dream_if_due", "doctor"), "admin"),
    },
    "sessions": {
        **dict.fromkeys(("get", "some", "find", "resolve", "active", "recent", "subagents", "children"), "read"),
        **dict.fromkeys(("logs", "list", "need_pass", "stats"), "read"),
        **dict.fromkeys(("register", "ensure", "heartbeat", "log", "complete", "finish", "quote", "sweep"), "write"),
        "delete": "admin",
    },
    "leases": {
        **dict.fromkeys(("verify", "check", "overlaps", "list"), "read"),
        **dict.fromkeys(("claim", "release", "release_all", "end", "renew"), "write"),
        "break_lease": "admin",
    },
    "messages": {
        "list": "read",
        **dict.fromkeys(("send", "inbox", "show", "acknowledge", "give_back", "read_by_person"), "write"),
    },
    "blocks": {
        **dict.fromkeys(("get", "history", "versions", "version", "diff", "verify", "list"), "read"),
        **dict.fromkeys(("create", "update", "append", "replace", "rename", "restore", "put"), "write"),
        "archive_overflow": "write",
        "delete": "admin",
    },
    "exchanges": {
        **dict.fromkeys(("plausible_time", "get", "some", "find", "recent", "history", "around", "timeline"), "read"),
        **dict.fromkeys(("add", "add_many", "insert_before", "set_external_id"), "write"),
    },
    "memories": {
        **dict.fromkeys(("get", "some", "same", "by_key", "history", "states", "links", "sources"), "read"),
        **dict.fromkeys(
            ("list", "of_session", "recall_gists", "recall_eras", "gist", "unsummarised", "gists_by_month"), "read"
        ),
        **dict.fromkeys(("remember", "update", "archive", "unarchive", "supersede", "expire", "link"), "write"),
        **dict.fromkeys(("used", "sweep", "store_gist"), "write"),
        # Only a person approves, and a server cannot see who asks. So it takes the strongest token.
        **dict.fromkeys(("approve", "approve_all", "withdraw", "withdraw_all"), "admin"),
    },
    "embedding_queue": {"size": "read", "work": "admin"},
    "harness_processes": {
        **dict.fromkeys(("started", "noted"), "read"),
        **dict.fromkeys(("note", "note_server", "leave", "take_over", "hand_over"), "write"),
    },
    "transcripts": {"latest": "read", "add": "write"},
    "embedders": dict.fromkeys(("model", "problem"), "read"),
    "gists": {**dict.fromkeys(("current", "of", "unsummarised", "last_turn", "by_month"), "read"), "store": "write"},
    "eras": {"list": "read", "store": "write"},
    "imports": {
        **dict.fromkeys(("check_model", "seen", "outline"), "read"),
        **dict.fromkeys(("note", "release", "write"), "write"),
    },
    "dreams": {
        **dict.fromkeys(("backlog", "drives", "status", "estimate", "show", "list"), "read"),
        **dict.fromkeys(("dream", "dream_if_due", "undo"), "admin"),
    },
    "proposals": {
        **dict.fromkeys(("show", "list"), "read"),
        **dict.fromkeys(("accept", "edit", "reject", "apply"), "write"),
    },
    "work": {"counts": "read", **dict.fromkeys(("next", "submit"), "write")},
    "changes": dict.fromkeys(("since", "latest"), "read"),
    "access.tokens": dict.fromkeys(("create", "list", "revoke"), "admin"),
    "access.clients": dict.fromkeys(("list", "find", "remove"), "admin"),
}

#: Groups and calls that are about the whole store, and the argument that makes a call be about it. Only a token that is
#: not for one workspace may do that.
STORE_WIDE_GROUPS = frozenset({"access.tokens", "access.clients"})
STORE_WIDE_CALLS = frozenset({"sizes", "doctor"})
ALL_WORKSPACES = "all_workspaces"

#: Methods that Python calls by another name than their row.
SPECIAL = {("changes", "since"): "__call__"}
#: Values that are read without calling anything.
PROPERTIES = {("changes", "latest"), ("embedders", "model")}
#: An argument that says that a person asks. It needs the scope `admin`: see `approve`.
BY_PERSON = "by_person"
#: Arguments that stay with the caller: they are called while the work goes on.
NOT_SENT = frozenset({"progress", "stop", "lock"})
#: Arguments with names. A name with a secret is refused, as it is locally. Everywhere else secrets are removed.
NAMES = frozenset(
    {
        *("name", "names", "kind", "key", "project", "external_id", "session_type", "resource", "to", "tags"),
        *("id", "session_id", "parent_id", "actor", "updated_by", "by", "relation"),
    }
)
#: Arguments that a client may not choose. A model may be an address that the server would ask, or a folder of its disk.
KEPT_BY_SERVER = {"reindex": frozenset({"model"})}
#: Arguments with any JSON.
JSON = frozenset({"data", "metadata"})
#: Calls that may take long, because they work through much, or ask a model.
SLOW = frozenset({"dream", "dream_if_due", "reindex", "forget", "doctor", "dreams.dream", "dreams.dream_if_due"}) | {
    *("dreams.undo", "dreams.estimate", "embedding_queue.work", "imports.write", "sessions.delete", "sizes"),
}

#: Calls that do no harm when they are repeated, and that may have to end a transaction in between. They need no key.
REPEATABLE = frozenset({"leases.claim", "harness_processes.take_over"})
#: Afterwards abandoned sessions are swept, which registering does not do inside a transaction.
SWEEPS = frozenset({"sessions.register"})


def scope_of(name: str) -> Scope | None:
    """The scope that a call needs, by its name: `sessions.log`, `recall`; None if there is no such call."""
    group, dot, method = name.rpartition(".")
    # `.now` would be another name of `now`, which other tables do not know.
    return None if dot and not group else CALLS.get(group, {}).get(method)
