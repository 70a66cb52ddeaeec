"""Every table of the store, in an order in which rows come after those that they refer to.

Each table says what an export does with it: under which name its rows are written, or why they are left out. A test
compares this list with the schema, so a new table or column cannot be left out by mistake. A copy of a store takes
every table that is here.

`numbers` says which columns hold numbers that the store has given, and of which table. `by_kind` is for columns whose
table is named by the column `kind`. The renumbering of an import follows both.
"""

from __future__ import annotations

from typing import NamedTuple

from ..storage import rows
from ..storage.rows import Parent, Table

#: The table of a thing by its kind, as `sources` and others name it.
OF_KIND = {"exchange": "exchanges", "memory": "memories", "block": "blocks"}


class Moved(NamedTuple):
    """A table, and what an export does with it."""

    table: Table
    #: The name of its records; None if an export leaves it out.
    record: str | None
    #: Why an export leaves it out.
    left_out: str = ""
    #: Columns with numbers of other rows, and their table.
    numbers: tuple[tuple[str, str], ...] = ()
    #: Columns with numbers of things, and the column with their kind.
    by_kind: tuple[tuple[str, str], ...] = ()
    #: Columns that refer to rows of the same table, which may come later.
    own: tuple[str, ...] = ()
    #: Columns with JSON.
    json: tuple[str, ...] = ()


_DERIVED = "rebuilt from the texts by the import"
_ACCESS = "holds hashes of secrets, or is about them; who may use a store does not move with its content"


def _table(name: str, key: str, columns: str, number: str | None = None, parent: Parent | None = None) -> Table:
    return Table(name, rows.columns(columns), tuple(key.split()), number, parent)


_OF_BLOCK = Parent("block_id", "blocks", "id")
_OF_MEMORY = Parent("memory_id", "memories", "id")

TABLES: tuple[Moved, ...] = (
    Moved(
        _table(
            "sessions",
            "workspace id",
            "workspace id type name? summary status project? external_id? parent_id? metadata last_seq# created_at "
            "heartbeat_at ended_at? turns# turns_gone# gist_seq# gist_turns# summary_from#? outcome outcome_from#? "
            "author?",
        ),
        "session",
        numbers=(("summary_from", "exchanges"), ("outcome_from", "exchanges")),
        own=("parent_id",),
        json=("metadata",),
    ),
    Moved(
        _table(
            "exchanges",
            "id",
            "id# workspace session_id seq# role content created_at trust turn#? external_id? author?",
            "id",
        ),
        "exchange",
    ),
    Moved(
        _table(
            "leases",
            "token",
            "token# workspace session_id resource note? exclusive# ttl.? claimed_at expires_at? fenced_at? ended_at? "
            "ended_because?",
            "token",
        ),
        "lease",
    ),
    Moved(
        _table(
            "lease_notices",
            "token session_id what",
            "token# session_id what at",
            parent=Parent("token", "leases", "token"),
        ),
        "lease_notice",
        numbers=(("token", "leases"),),
    ),
    Moved(
        _table("lease_waiters", "id", "id# workspace session_id resource alive_until", "id"),
        None,
        "names processes that wait at this moment",
    ),
    Moved(
        _table(
            "messages",
            "id",
            "id# workspace from_session? target content created_at to_person# person_read_at? author?",
            "id",
        ),
        "message",
    ),
    Moved(
        _table("deliveries", "message_id session_id", "message_id# workspace session_id read_at? shown_at?"),
        "delivery",
        numbers=(("message_id", "messages"),),
    ),
    Moved(
        _table("receipts", "id", "id# workspace asked went created_at author?", "id"),
        "receipt",
        json=("went",),
    ),
    Moved(
        _table(
            "blocks",
            "id",
            "id# workspace name content version# max_tokens# updated_by? created_at updated_at data? author?",
            "id",
        ),
        "block",
        json=("data",),
    ),
    Moved(
        _table(
            "block_versions",
            "block_id version",
            "block_id# version# content reason actor? created_at receipt#? data? author?",
            parent=_OF_BLOCK,
        ),
        "block_version",
        numbers=(("block_id", "blocks"), ("receipt", "receipts")),
        json=("data",),
    ),
    Moved(
        _table(
            "memories",
            "id",
            "id# workspace kind key? content hash version# importance. pinned# trust status superseded_by#? "
            "session_id? project? data? reinforced# recalled# recalled_at? expires_at? created_at updated_at "
            "approved#? author?",
            "id",
        ),
        "memory",
        numbers=(("superseded_by", "memories"),),
        own=("superseded_by",),
        json=("data",),
    ),
    Moved(
        _table(
            "memory_versions",
            "memory_id version",
            "memory_id# version# content reason actor? created_at receipt#? author?",
            parent=_OF_MEMORY,
        ),
        "memory_version",
        numbers=(("memory_id", "memories"), ("receipt", "receipts")),
    ),
    Moved(
        _table(
            "memory_states",
            "memory_id number",
            "memory_id# number# version# importance. pinned# approved#? status superseded_by#? tags actor? at author?",
            parent=_OF_MEMORY,
        ),
        "memory_state",
        numbers=(("memory_id", "memories"), ("superseded_by", "memories")),
        json=("tags",),
    ),
    Moved(
        _table("memory_tags", "memory_id tag", "workspace tag memory_id#"),
        "memory_tag",
        numbers=(("memory_id", "memories"),),
    ),
    Moved(
        _table("memory_links", "from_id to_id relation", "workspace from_id# to_id# relation created_at"),
        "memory_link",
        numbers=(("from_id", "memories"), ("to_id", "memories")),
    ),
    Moved(
        _table(
            "sources",
            "workspace derived_kind derived_id derived_version source_kind source_id",
            "workspace derived_kind derived_id# derived_version# source_kind source_id#",
        ),
        "source",
        by_kind=(("derived_id", "derived_kind"), ("source_id", "source_kind")),
    ),
    Moved(
        _table("rebuilds", "workspace kind ref", "workspace kind ref# receipt#"),
        "rebuild",
        numbers=(("receipt", "receipts"),),
        by_kind=(("ref", "kind"),),
    ),
    Moved(
        _table("gists", "memory_id", "memory_id# workspace session_id at month"),
        "gist",
        numbers=(("memory_id", "memories"),),
    ),
    Moved(
        _table("folds", "workspace target gist", "workspace target gist# after#"),
        "fold",
        numbers=(("gist", "memories"),),
    ),
    Moved(
        _table(
            "dreams",
            "id",
            "id# workspace session_id started_at ended_at? report undoes#? undone_by#? compared#? alarms# matured? "
            "reason?",
            "id",
        ),
        "dream",
        numbers=(("undoes", "dreams"), ("undone_by", "dreams"), ("compared", "changes")),
        own=("undoes", "undone_by"),
        json=("report",),
    ),
    Moved(
        _table(
            "journal",
            "workspace dream kind ref action",
            "workspace dream# kind ref action# before? after?",
        ),
        "journal",
        numbers=(("dream", "dreams"),),
        json=("before", "after"),
    ),
    Moved(
        _table(
            "proposals",
            "id",
            "id# workspace dream# state what why confidence. content data hash result#? applied_in#? created_at "
            "decided_at?",
            "id",
        ),
        "proposal",
        numbers=(("dream", "dreams"), ("result", "memories"), ("applied_in", "dreams")),
        json=("data",),
    ),
    Moved(
        _table("proposal_parts", "proposal part kind ref", "workspace proposal# part kind ref# version#"),
        "proposal_part",
        numbers=(("proposal", "proposals"),),
        by_kind=(("ref", "kind"),),
    ),
    Moved(
        _table(
            "work",
            "id",
            "id# workspace stage subject covers prompt form? taken_by? deadline? answer? created_at",
            "id",
        ),
        "work",
        json=("covers", "form"),
    ),
    Moved(
        _table(
            "drives",
            "workspace",
            "workspace continuity. coherence. curiosity. stability. mark# updated_at",
        ),
        "drives",
        numbers=(("mark", "exchanges"),),
    ),
    Moved(
        _table("usage", "workspace day stage", "workspace day stage calls# input_tokens# output_tokens#"),
        "usage",
    ),
    Moved(
        _table("dream_retries", "workspace stage", "workspace stage left_over# attempts# problem retry_at"),
        "dream_retry",
    ),
    Moved(
        _table("injections", "workspace session_id kind ref", "workspace session_id kind ref# at"),
        "injection",
        by_kind=(("ref", "kind"),),
    ),
    Moved(
        _table("imports", "workspace source what ref", "workspace source ref what id seen# seen_at? seen_seq# made#"),
        "import",
    ),
    Moved(
        _table("harness_processes", "workspace process session_id", "workspace process session_id harness? alone# at"),
        None,
        "names running processes of one machine",
    ),
    Moved(
        _table(
            "items",
            "id",
            "id# workspace shelf kind ref# piece# label session_id? project? turn#? at length# terms@ author?",
            "id",
        ),
        None,
        _DERIVED,
    ),
    Moved(_table("terms", "id", "id# workspace shelf term", "id"), None, _DERIVED),
    Moved(_table("postings", "term item", "term# item# tf# length#"), None, _DERIVED),
    Moved(_table("shelves", "workspace shelf", "workspace shelf items# length# generation#"), None, _DERIVED),
    Moved(
        _table("backlog", "id", "id# workspace kind ref# taken_until indexed# words_due#", "id"),
        None,
        "the import queues everything that has no vector",
    ),
    Moved(_table("models", "workspace", "workspace model next?"), None, "written with the vectors"),
    Moved(_table("vectors", "item model", "item# model vector@"), None, "computed again; `--vectors` writes them"),
    Moved(
        _table("changes", "number", "number# workspace what id", "number"),
        None,
        "numbers the writes to one store; the import adds its own entries",
    ),
    Moved(
        _table(
            "access_tokens",
            "id",
            "id hash name scope workspace? client_id? family? audience? created_at expires_at? last_used_at? "
            "revoked_at?",
        ),
        None,
        _ACCESS,
    ),
    Moved(
        _table("access_links", "id", "id hash token_id? name scope workspace? expires_at"),
        None,
        _ACCESS,
    ),
    Moved(
        _table("access_logins", "id", "id hash token_id? name scope workspace? created_at expires_at"),
        None,
        _ACCESS,
    ),
    Moved(_table("access_attempts", "bucket", "bucket count# ends_at"), None, _ACCESS),
    Moved(
        _table(
            "access_answers",
            "workspace grant_id key",
            "workspace grant_id key digest state answer receipt# created_at",
        ),
        None,
        _ACCESS,
    ),
    Moved(_table("access_clients", "id", "id name metadata hash? created_at used_at?"), None, _ACCESS),
    Moved(_table("access_requests", "id", "id hash client_id asked expires_at"), None, _ACCESS),
    Moved(
        _table(
            "access_consents",
            "id",
            "id client_id name scope workspace? given_by? audience? created_at expires_at? ended_at?",
        ),
        None,
        _ACCESS,
    ),
    Moved(
        _table("access_codes", "id", "id hash kind family client_id scope asked? expires_at used_at?"),
        None,
        _ACCESS,
    ),
)

#: Tables that are no content: the schema itself, and what PostgreSQL keeps beside the vectors.
NOT_CONTENT = {
    "migrations": "every store has its own",
    "closeness": "on PostgreSQL a trigger fills it from the vectors",
}

EXPORTED = tuple(moved for moved in TABLES if moved.record is not None)
BY_NAME = {moved.table.name: moved for moved in TABLES}
#: Tables whose last number an export carries, so that no number is ever used for a second thing.
NUMBERED = tuple(moved.table for moved in EXPORTED if moved.table.number)
#: The change feed. A pass remembers up to which change it has compared memories, so these numbers move, too.
FEED = BY_NAME["changes"].table
