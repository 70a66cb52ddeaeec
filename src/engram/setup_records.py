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


#: How many backups of a store stay in a folder, unless another number is given.
KEPT_BACKUPS = 7


class BackupMade(NamedTuple):
    """The result of `engram backup`."""

    store: str
    #: The file of the backup, which was opened again and checked.
    file: str
    #: Its size in bytes.
    size: int
    #: The number of the newest migration in it.
    schema: int
    #: The number of the newest change in it.
    change: int
    made_at: str
    #: The older backups that rotation removed.
    removed: tuple[str, ...]
    #: Whether its place is in the list that receipts of forgetting and `engram encrypt` use.
    listed: bool = True
    #: Older backups that rotation could not remove.
    stuck: tuple[str, ...] = ()


class BackupFile(NamedTuple):
    """A backup that can be restored, as far as a look at it tells."""

    file: str
    #: By its name, or else the file's own time.
    made_at: str
    size: int
    schema: int
    #: The number of the newest change in it, and when something was written to it last.
    change: int
    changed_at: str | None
    #: Why it cannot be read; empty if it can.
    problem: str


class Vacuumed(NamedTuple):
    """The result of `engram vacuum`."""

    store: str
    #: Bytes that the store used on the disk before and after.
    before: int
    after: int
    #: Number of log entries that were deleted because the setting `retention_logs` says so.
    logs: int


class UsableBackup(NamedTuple):
    """The newest backup that passes all checks."""

    file: str
    #: The newer ones, each with why it cannot be used.
    passed_over: tuple[str, ...]


class Restored(NamedTuple):
    """The result of restoring a store from a backup."""

    store: str
    file: str
    #: The copy of the replaced store; None if there was no store.
    kept: str | None
    #: The number of the store's newest migration.
    schema: int
    #: How many forgettings the backup does not know. What they deleted is back, and the kept copy has their receipts.
    forgettings_lost: int = 0


class Encryption(NamedTuple):
    """The result of encrypting or decrypting a store, or of changing its key."""

    store: str
    #: Whether the store is encrypted now.
    encrypted: bool
    #: Whether this call changed the store. False if it was in that state before.
    changed: bool
    #: Where the keys are: the path of the key file, or the system's key ring.
    keys: str
    #: The backups that were changed in the same way: those beside the store, and those that `engram backup` made.
    copies: tuple[str, ...]
    #: The files that were deleted: drafts of killed processes, and if that was asked for, damaged plain backups.
    removed: tuple[str, ...]
    #: The backups that stayed as they are: their key is missing, or their disk is full or cannot be written.
    left: tuple[str, ...] = ()
    #: The plain backups that stayed, because SQLite cannot read them.
    damaged: tuple[str, ...] = ()
    #: What could not be looked at: the list of backups, a folder on it, or a backup. It may have plain text.
    unseen: tuple[str, ...] = ()


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


#: The formats of an export: a file that can be imported again, and pages to read.
EXPORT_FORMATS = ("jsonl", "markdown")


class Exported(NamedTuple):
    """What an export wrote."""

    #: The file or folder; `-` for standard output.
    place: str
    format: str
    workspaces: tuple[str, ...]
    #: How many records of each kind, or how many pages.
    counts: dict[str, int]
    bytes: int
    #: Tables that are not in it, and why.
    left_out: dict[str, str]
    #: Whether the store is encrypted. What was written is not.
    of_encrypted: bool = False


class Loaded(NamedTuple):
    """What the import of an exported file wrote."""

    place: str
    workspaces: tuple[str, ...]
    #: How many records of each kind.
    counts: dict[str, int]
    #: Whether things got other numbers than in the file, because those were taken.
    renumbered: bool
    #: What was not taken over, and why.
    notes: tuple[str, ...]


class Copied(NamedTuple):
    """What a copy of a store wrote."""

    source: str
    target: str
    #: How many rows each table has. Number and hash are the same in both stores.
    tables: dict[str, int]
    #: How many rows an earlier, interrupted copy had written.
    resumed: int
    #: Whether the source is encrypted and the copy is not.
    is_plain: bool = False
