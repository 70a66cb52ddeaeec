"""The structure that everything hangs on: which module may import which, what is public, and where SQL comes from."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import engram
from engram import _version, errors
from engram.errors import Conflict, EngramError, InvalidInput, NotFound

ROOT = Path(engram.__path__[0])

#: From the bottom up; a module imports from its own layer and from those below it.
LAYERS = (
    {
        "_version",
        "access_records",
        "checks",
        "clock",
        "closing_question",
        "config",
        "diffs",
        "dream_records",
        "durations",
        "emphasis",
        "gist_text",
        "workspace_tables",
        "errors",
        "framing",
        "harness_commands",
        "harness_messages",
        "harness_payloads",
        "harness_prompts",
        "health_records",
        "hook_log",
        "import_records",
        "json_columns",
        "json_shapes",
        "language",
        "lock_file",
        "mutexes",
        "narration",
        "other_systems",
        "outcomes",
        "overview_records",
        "private_files",
        "processes",
        "prose",
        "records",
        "redact",
        "reviews",
        "safe_text",
        "sentences",
        "server_url",
        "setting_values",
        "setup_records",
        "store_url",
        "tokens",
        "user_file",
        "wording",
    },
    {"embedding", "llm", "storage", "store_view"},
    {"memory"},
    {"access", "coordination"},
    {"dreaming"},
    {"forgetting"},
    {"doctor", "transfer"},
    {"", "_public", "client", "maintenance", "operations", "remote"},
    {"__main__", "compat", "importers", "interfaces"},
)
TOP = len(LAYERS) - 1
#: From the bottom up: a tier imports no tier above it.
TIERS = ("memory", "access", "coordination", "dreaming", "forgetting", "doctor", "transfer")
DRIVERS = {"apsw", "psycopg", "pgvector", "sqlite3"}
#: Reads the SQLite files of other systems, which are no stores.
READS_FOREIGN_FILES = "importers.foreign"
#: Decides what a grant allows, without a store. Every interface asks it.
DECIDES = "access.permission"


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package, by its name below `engram`."""
    found = {}
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(file.read_text(), str(file))
    return found


def above_the_storage() -> list[str]:
    return [name for name in modules() if not name.startswith("storage") and name != READS_FOREIGN_FILES]


def layer(module: str) -> int:
    top = module.partition(".")[0]
    return next(number for number, names in enumerate(LAYERS) if top in names)


@cache
def imports(module: str) -> tuple[tuple[str, bool], ...]:
    """The modules a module imports, ours by their names below `engram`, and whether only for its types."""
    return tuple(_imports(module))


def _imports(module: str) -> Iterator[tuple[str, bool]]:
    tree = modules()[module]
    guarded = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    is_package = (ROOT / module.replace(".", "/") / "__init__.py").is_file()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name, id(node) in guarded
        elif isinstance(node, ast.ImportFrom):
            here = ["engram", *module.split(".")] if module else ["engram"]
            base = here[: len(here) - node.level + is_package] if node.level else []
            target = ".".join([*base, *([node.module] if node.module else [])])
            for name in node.names:
                below = f"{target}.{name.name}".removeprefix("engram.")
                yield (f"engram.{below}" if below in modules() else target), id(node) in guarded


def ours(module: str, *, types_too: bool = True) -> Iterator[str]:
    for target, for_types in imports(module):
        if (target == "engram" or target.startswith("engram.")) and (types_too or not for_types):
            yield target.removeprefix("engram").removeprefix(".")


@pytest.mark.requirement("SHAPE-1")
def test_every_module_has_its_layer() -> None:
    assert {name.partition(".")[0] for name in modules()} <= set().union(*LAYERS)
    assert {"client", "storage.engine", "coordination.leases", "interfaces.cli"} <= modules().keys()


@pytest.mark.requirement("SHAPE-1", "ENCRYPT-12")
def test_one_module_opens_the_files_of_stores() -> None:
    """It knows the keys. A file that is opened elsewhere is plain, or cannot be read."""
    found = {
        module
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "apsw.Connection"
    }
    assert found <= {"storage.database", READS_FOREIGN_FILES}
    assert "storage.database" in found


@pytest.mark.requirement("SHAPE-1")
def test_a_module_imports_only_from_its_layer_and_those_below() -> None:
    found = [(module, target) for module in modules() for target in ours(module) if layer(target) > layer(module)]
    assert found == []


@pytest.mark.requirement("SHAPE-1")
def test_the_client_is_the_only_door_for_everything_above_it() -> None:
    below = range(1, layer("client"))
    above = [name for name in modules() if layer(name) == TOP]
    found = [(module, target) for module in above for target in ours(module) if layer(target) in below]
    assert [(module, target) for module, target in found if target != DECIDES] == []


@pytest.mark.requirement("SHAPE-1")
def test_only_the_storage_sees_a_driver() -> None:
    found = [(module, target) for module in above_the_storage() for target, _ in imports(module)]
    assert [(module, target) for module, target in found if target.partition(".")[0] in DRIVERS] == []


@pytest.mark.requirement("SHAPE-1")
def test_no_two_modules_need_each_other() -> None:
    graph = {name: set(ours(name, types_too=False)) - {name} for name in modules()}
    while leaves := [name for name, needs in graph.items() if not needs & graph.keys()]:
        for name in leaves:
            del graph[name]
    assert graph == {}


@pytest.mark.requirement("SIMILAR-1")
def test_no_f_string_has_a_number_in_single_braces() -> None:
    # A repetition in a pattern, `{1,64}`, needs double braces there; with single ones the pattern looks for "(1, 64)".
    found = [
        (name, node.lineno)
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Constant | ast.Tuple)
    ]
    assert found == []


PUBLIC = [
    *("EmbedderFailed", "Exchange", "ExchangeNotFound", "Answer", "Hit", "Memory", "MemoryEdit", "MemoryNotFound"),
    *("Block", "BlockEdit", "BlockExists", "BlockNotFound", "Change", "Clock", "Config", "Conflict", "Engram"),
    *("EngramError", "Holder", "InvalidInput", "InvalidURL", "Lease", "LeaseHeld", "LeaseLost", "LeaseNotFound"),
    *("LLMFailed", "LLMMalformed", "LLMRefused", "LLMTruncated", "LLMUnavailable"),
    *("LogBroken", "LogEntry", "Message", "MigrationChanged", "MissingExtra", "NoRecipient", "NotAStore"),
    *(
        "NotFound",
        "Receipt",
        "SchemaTooNew",
        "Session",
        "SessionEnded",
        "SessionNotFound",
        "Stats",
        "StoreBusy",
        "StoreError",
    ),
    *("StoreFull", "StoreReadOnly", "StoreUnavailable", "VersionConflict", "VersionNotFound", "__version__"),
    *("SettingsConflict", "SettingsUnusable", "StoreNotFound", "sitrep", "MemoryState", "PersonNeeded"),
    *(
        "DreamBacklog",
        "DreamNotFound",
        "DreamReport",
        "DreamStatus",
        "Drives",
        "Gist",
        "Spent",
        "WorkItem",
        "WorkNotFound",
        "CapReached",
    ),
    *("Finding", "Obstacle", "UndoBlocked", "UndoReport"),
    *("Activity", "Graph", "GraphLink", "GraphNode", "HarnessEvent", "HarnessEvents", "HookFailures", "Overlap"),
    *("Sizes", "TierSize"),
    *("DreamTotals", "Due", "NotDue", "StuckStage"),
    *(
        "ImportOverlap",
        "NothingToImport",
        "NotOfFormat",
        "NotRemote",
        "SessionAmbiguous",
        "WorkspaceInfo",
        "WorkspaceNotFound",
    ),
    *("ClientNotFound", "Forbidden", "IdempotencyConflict", "TokenExists", "TokenNotFound", "TooManyRequests"),
    *(
        "Unauthorized",
        "Miscounted",
        "Proposal",
        "ProposalNotFound",
        "ProposalStale",
        "StoreDamaged",
        "StoreEncrypted",
        "UpgradeNeeded",
    ),
    *("ExportDamaged", "FileExists", "StoreNotEmpty", "WorkspaceNotEmpty"),
]


@pytest.mark.requirement("SHAPE-2")
def test_the_public_names_are_these() -> None:
    scope: dict[str, object] = {}
    exec("from engram import *", scope)
    assert sorted(scope.keys() - {"__builtins__"}) == sorted(PUBLIC)


@pytest.mark.requirement("SHAPE-2")
def test_a_public_name_can_be_imported() -> None:
    for name in PUBLIC:
        scope: dict[str, object] = {}
        exec(f"from engram import {name} as found", scope)
        assert scope["found"] is getattr(engram, name), name


@pytest.mark.requirement("SHAPE-2")
def test_type_checkers_see_the_same_names_as_programs() -> None:
    declared = [
        name.asname for node in modules()["_public"].body if isinstance(node, ast.ImportFrom) for name in node.names
    ]
    assert sorted(map(str, declared)) == sorted(set(PUBLIC) - {"__version__", "sitrep"})


@pytest.mark.requirement("SHAPE-2")
def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        engram.nonsense  # type: ignore[attr-defined] # noqa: B018


@pytest.mark.requirement("SHAPE-2")
def test_importing_the_package_loads_no_public_name() -> None:
    code = "import sys, engram; print([name for name in sys.modules if name.startswith('engram.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['engram._version']"


@pytest.mark.requirement("SHAPE-5")
def test_every_command_that_installs_engram_names_its_own_distribution() -> None:
    project = ROOT.parent.parent
    pages = [*project.glob("*.md"), *project.glob("docs/*.md"), project / "pyproject.toml", *ROOT.rglob("*.py")]
    command = re.compile(r"""(?:pipx?|uv tool) (?:install|upgrade|uninstall)(?: --?\w+)* '?engram(?!-agents)\b""")
    found = [f"{page.name}: {match[0]}" for page in pages for match in command.finditer(page.read_text("utf-8"))]
    assert found == []
    declared = re.search(r'^name = "(.*)"$', (project / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    assert declared is not None and declared[1] == _version.DISTRIBUTION


def descendants(kind: type[EngramError]) -> list[type[EngramError]]:
    return [kind, *(each for child in kind.__subclasses__() for each in descendants(child))]


ERRORS = [kind for kind in descendants(EngramError) if kind.__module__ == errors.__name__]


@pytest.mark.requirement("SHAPE-3")
def test_every_error_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in ERRORS]
    assert len(set(codes)) == len(codes) == len(ERRORS)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


@pytest.mark.requirement("SHAPE-3")
def test_an_error_says_how_it_is_to_be_reported() -> None:
    expected: dict[type, int] = {InvalidInput: 2, NotFound: 3, Conflict: 4}
    for kind in ERRORS:
        assert kind.exit_code == next((code for base, code in expected.items() if base in kind.__mro__), 1), kind
        assert 400 <= kind.status < 600, kind
        assert (kind.__doc__ or "").partition("\n")[0].endswith("."), kind
        assert kind.__name__ in PUBLIC


@pytest.mark.requirement("SHAPE-3")
def test_an_error_without_a_message_says_what_its_class_says() -> None:
    assert str(InvalidInput()) == "A value is not acceptable."
    assert str(InvalidInput("just so")) == "just so"
    assert InvalidInput().details() == {}


@pytest.mark.requirement("SHAPE-3")
def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    drawn: dict[str, str | None] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ((?:│   |    |├── |└── )*)([A-Z]\w+)", line)
        if match:
            depth = len(match[1]) // 4
            path[depth:] = [match[2]]
            drawn[match[2]] = path[depth - 1] if depth else None
    bases = {kind.__name__: kind.__bases__[0].__name__ for kind in ERRORS}
    assert drawn == {**bases, "EngramError": None}


#: The methods of a transaction that take SQL.
RUNS = ("all", "one", "value", "column", "run", "ask", "later", "many")
VERB = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP)\b")


def tier_modules() -> list[str]:
    return ["storage.changes", *(name for name in modules() if name.partition(".")[0] in TIERS)]


def statements(module: str) -> Iterator[ast.expr]:
    """The first argument of every call that runs SQL on a transaction."""
    for node in ast.walk(modules()[module]):
        # An answer has methods of the same names, without arguments.
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in RUNS
            and (node.args or node.keywords)
        ):
            assert ast.unparse(node.func.value) == "tx", f"{module}:{node.lineno}: is this a transaction?"
            yield node.args[0]


def constants(module: str) -> dict[str, ast.expr]:
    """What each upper-case name of a module is assigned, once and at its top."""
    return {
        target.id: node.value
        for node in modules()[module].body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    }


def is_literal(value: ast.expr, module: str) -> bool:
    """Whether an expression is text that stands in the source, or a sum of such texts, also of other modules."""
    match value:
        case ast.Constant(value=str()):
            return True
        case ast.BinOp(op=ast.Add()):
            return is_literal(value.left, module) and is_literal(value.right, module)
        case ast.Name(id=name):
            home = imported_from(module, name)
            return is_literal(constants(home)[name], home)
    return False


def imported_from(module: str, name: str) -> str:
    """The tier module in which a constant that a module uses is written."""
    if name in constants(module):
        return module
    return next(target for target in ours(module) if target in modules() and name in constants(target))


@pytest.mark.requirement("SHAPE-4")
def test_the_tiers_statements_are_found_by_these_tests() -> None:
    assert sum(len(list(statements(module))) for module in tier_modules()) > 60


@pytest.mark.requirement("SHAPE-4")
def test_every_statement_is_a_constant_written_in_a_tier() -> None:
    for module in tier_modules():
        for statement in statements(module):
            match statement:
                case ast.Name(id=name):
                    home = imported_from(module, name)
                case ast.Attribute(value=ast.Name(id=other), attr=name):
                    home = next(target for target in ours(module) if target.rpartition(".")[2] == other)
                case _:
                    pytest.fail(f"{module}:{statement.lineno} runs {ast.unparse(statement)!r}, which is not a constant")
            assert is_literal(constants(home)[name], home), f"{home}.{name} is put together at run time"


@pytest.mark.requirement("SHAPE-4")
def test_nothing_outside_the_storage_builds_sql_or_runs_it_past_the_transaction() -> None:
    for module, node in [(name, node) for name in above_the_storage() for node in ast.walk(modules()[name])]:
        where = f"{module}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
            assert not VERB.match(str(node.values[0].value)), f"{where} builds a statement"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Constant):
            assert not VERB.match(str(node.left.value)), f"{where} builds a statement"
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("execute", "executemany"), f"{where} runs SQL by itself"


#: Who may use a store is about the store, not about one workspace.
STORE_WIDE = "access."
#: A server reads the feed once for all its clients, and tells each about its own workspace.
FEED = {"_SINCE_EVERYWHERE", "_LATEST_EVERYWHERE"}


@pytest.mark.requirement("SHAPE-4", "STORE-16")
def test_every_statement_names_its_workspace() -> None:
    # These are reached only by numbers that were looked up within the workspace: versions and states through their
    # block or memory, postings through their term, vectors through their item.
    inner = ("block_versions", "memory_versions", "memory_states", "postings", "INTO vectors", "FROM vectors")
    missing = []
    for module in tier_modules():
        if module.startswith(STORE_WIDE) or not list(statements(module)):
            continue
        loaded = import_module(f"engram.{module}")
        sql = {name: getattr(loaded, name) for name in constants(module) if isinstance(getattr(loaded, name), str)}
        missing += [
            f"{module}.{name}"
            for name, text in sql.items()
            if VERB.match(text) and ":workspace" not in text and not any(table in text for table in inner)
            if not (module == "storage.changes" and name in FEED)
        ]
    assert missing == []
