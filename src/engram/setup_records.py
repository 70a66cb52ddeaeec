"""Records about a whole store: its embedder, thinker, schema and changes. Hooks import `records.py` and need none."""

from typing import NamedTuple


class EmbedderInfo(NamedTuple):
    """An embedder that a workspace can use."""

    #: What `engram embedder use` and ENGRAM_EMBEDDER take.
    name: str
    what: str
    #: How many of a hundred paraphrases it finds; None if that was not measured.
    paraphrases: int | None
    #: What it takes on the disk besides a plain install, in MB.
    megabytes: int
    #: Whether it can be used on this machine now.
    installed: bool
    #: Whether the workspace's vectors are of its model.
    used: bool


class EmbedderPlan(NamedTuple):
    """What changing a workspace's embedder will do."""

    name: str
    what: str
    paraphrases: int | None
    #: What will be downloaded, and how much that is in MB, there and on the disk.
    downloads: tuple[str, ...]
    download_megabytes: int
    disk_megabytes: int
    #: How many texts will be embedded, about how long that takes, and about how many tokens they have.
    texts: int
    seconds: float | None
    tokens: int
    #: Whether texts leave this machine.
    remote: bool
    #: The model of the workspace's vectors so far.
    model: str | None


class EmbedderChange(NamedTuple):
    """What changing a workspace's embedder has done."""

    name: str
    #: The model of the workspace's vectors now, and before.
    model: str
    before: str | None
    installed: tuple[str, ...]
    embedded: int


class ThinkerInfo(NamedTuple):
    """A thinker that passes can use."""

    #: What `engram dream thinker` and ENGRAM_LLM take.
    name: str
    what: str
    #: What it costs, and who gets the texts.
    costs: str
    #: The program of a client: the fixed one, or the one that would be fixed; else empty.
    program: str
    #: Why it cannot be used here now; empty if it can, as far as can be seen without asking it.
    problem: str
    used: bool


class ThinkerChoice(NamedTuple):
    """A thinker that was chosen for passes."""

    name: str
    program: str
    #: The file that has the choice.
    file: str
    #: What its trial took; None without a trial.
    calls: int | None
    input_tokens: int | None
    output_tokens: int | None


class Restored(NamedTuple):
    """The result of restoring a store from a backup."""

    store: str
    file: str
    #: The copy of the replaced store; None if there was no store.
    kept: str | None
    #: The number of the store's newest migration.
    schema: int


class Upgraded(NamedTuple):
    """The result of migrating a store to this version's schema."""

    store: str
    #: The applied migrations: `0008_name`.
    applied: tuple[str, ...]
    #: The copy of the store from before; None if there was nothing to copy.
    backup: str | None
    #: The number of the store's newest migration.
    schema: int


class StoreChange(NamedTuple):
    """One entry of the change feed, with its workspace."""

    #: Increases in commit order across the whole store.
    number: int
    #: `session`, `exchange`, `lease`, `message`, `block`, `memory`, `proposal`, `dream` or `receipt`.
    what: str
    id: str
    workspace: str
