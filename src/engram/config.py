"""The settings: one declaration for each, and one resolver for every interface.

The fields of `Config` declare everything: name, type, default, help, what a value may be, and what a project's file may
do. The environment variables, `engram config show` and the table in docs/configuration.md are derived from them.

A value comes from the first of: an argument, the environment (`ENGRAM_…`), the project's `.engram.toml` (the nearest
one upwards from the current folder), the user's `config.toml`, the default. A file is parsed only if it exists.

A project's file arrives with a cloned repository, so a stranger may have written it. It may name its workspace and
project and make rules stricter for itself; `Setting.project_file` says so for each setting. Everything else in it is
ignored with a notice. It is never an error: a repository must not be able to stop the user's hooks.

The user's file also has a table for each workspace that is not like the others: `[workspaces.lyra] companion = true`.

This module evaluates its annotations (it has no `from __future__ import annotations`), because they hold the settings.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from . import checks
from . import setting_values as values
from .durations import duration, shown
from .errors import InvalidInput, InvalidURL
from .redact import redact
from .safe_text import one_line
from .store_url import masked
from .workspace_tables import COMPANION, WORKSPACES, companions

if TYPE_CHECKING:
    from platformdirs import PlatformDirsABC

PROJECT_FILE = ".engram.toml"
USER_FILE = "config.toml"
KEY_FILE = "store.key"
STORE_FILE = "engram.db"
DEFAULT_WORKSPACE = "default"
BRIEF_BUDGET = 1_500

#: A project's file is small. A larger one, or one with longer lines, could keep the parser busy for seconds.
MAX_PROJECT_FILE = 16 * 1024
MAX_PROJECT_LINE = 500
#: The most notices about one file.
MAX_NOTICES = 10

#: Whether a project's file may set a setting: freely, only to a stricter value than the user's, or not at all.
FREE, STRICTER, NEVER = "yes", "stricter", "no"


#: What stands for a secret.
MASK = "***"

Value = str | float | int


class Setting(NamedTuple):
    default: Value
    help: str
    #: Checks a value from outside and gives it its type. Called with the value and with its name for errors.
    read: Callable[[object, str], Value]
    project_file: str = NEVER
    #: The words that a value may be. Where a project's file may make a setting stricter, the strictest is last.
    choices: tuple[str, ...] = ()
    #: Whether the value is a place on the disk, or an address.
    is_place: bool = False
    #: Whether the value is a secret, which is never shown. If it is given, it may not be blank.
    is_secret: bool = False
    #: The name of the field that declares it.
    name: str = ""

    @property
    def environment(self) -> str:
        return f"ENGRAM_{self.name.upper()}"

    def shown(self, value: object) -> str:
        """A value for people: a time has its largest whole unit, and a secret is masked."""
        if self.is_secret:
            return MASK if value else ""
        if isinstance(value, bool):
            return str(value).lower()
        if self.read is not duration or not isinstance(value, float):
            return str(value)
        return shown(value)


class Config(NamedTuple):
    """Every setting, resolved."""

    url: Annotated[
        str,
        Setting(
            "",
            "the store: a path, sqlite:///path, postgresql://… or the https://… of a server; empty: engram.db in "
            "data_dir",
            values.store,
            is_place=True,
        ),
    ]
    workspace: Annotated[
        str, Setting("default", "the workspace to use: up to 64 of a-z, 0-9, _ and -", checks.workspace, FREE)
    ]
    project: Annotated[
        str,
        Setting(
            "",
            "the project of new sessions; empty: the git remote's owner/repo, else the folder's name",
            values.project,
            FREE,
        ),
    ]
    companion: Annotated[
        bool,
        Setting(
            False,
            "whether the workspace is a companion's, so that a pass also reflects and writes `self`: true or false; in "
            "config.toml only for one workspace, under [workspaces.NAME]",
            values.flag,
        ),
    ]
    data_dir: Annotated[
        str,
        Setting(
            "",
            "the folder of the default store; empty: the platform's folder for user data",
            values.text,
            is_place=True,
        ),
    ]
    key_file: Annotated[
        str,
        Setting(
            "",
            "the file with the keys of encrypted stores (SQLite); empty: store.key in the folder of config.toml",
            values.text,
            is_place=True,
        ),
    ]
    key_ring: Annotated[
        str,
        Setting(
            "off",
            "on: the keys are in the system's key ring, unless the key file exists; hooks then start more slowly",
            values.text,
            choices=("off", "on"),
        ),
    ]
    encrypt_new: Annotated[
        str,
        Setting(
            "off",
            "on: a new store is encrypted from the start (SQLite)",
            values.text,
            choices=("off", "on"),
        ),
    ]
    token: Annotated[
        str,
        Setting(
            "",
            "the token for a server; `engram token create` makes one",
            values.token,
            is_secret=True,
        ),
    ]
    stale_after: Annotated[float, Setting(1_800.0, "a session silent for this long is shown as stale", duration)]
    abandon_after: Annotated[
        float, Setting(86_400.0, "a session silent for this long is abandoned and its leases are freed", duration)
    ]
    lease_ttl: Annotated[float, Setting(900.0, "the lifetime of an exclusive lease that is not renewed", duration)]
    busy_timeout: Annotated[float, Setting(30.0, "how long a write waits for other writers", duration)]
    lock_policy: Annotated[
        str,
        Setting(
            "deny",
            "what a hook does about a file that another session holds: deny, ask (the person decides), warn, or off "
            "(no check and no claim)",
            values.text,
            STRICTER,
            choices=("off", "warn", "ask", "deny"),
        ),
    ]
    embedder: Annotated[
        str,
        Setting(
            "auto",
            "what finds texts by meaning: auto (the workspace's model; in a new workspace the best one installed), "
            "static, minilm, openai, openai:MODEL, onnx:FOLDER, or none (words only)",
            values.text,
        ),
    ]
    recall_socket: Annotated[
        str,
        Setting(
            "on",
            "whether hooks and `engram recall` ask a running `engram mcp`, which has the model loaded: on or off",
            values.text,
            choices=("off", "on"),
        ),
    ]
    llm: Annotated[
        str,
        Setting(
            "extractive",
            "what thinks during a pass: extractive, openai[:MODEL], anthropic[:MODEL], claude-code[:MODEL], "
            "codex[:MODEL], gemini[:MODEL] or agent",
            values.text,
        ),
    ]
    llm_base_url: Annotated[
        str,
        Setting(
            "",
            "the model's server, such as http://localhost:11434/v1; empty: the provider's own",
            values.web_address,
        ),
    ]
    llm_timeout: Annotated[float, Setting(120.0, "how long one answer of a model may take", duration)]
    claude_code_program: Annotated[
        str,
        Setting(
            "",
            "the program of claude-code as thinker; `engram dream thinker claude-code` sets it",
            values.program,
        ),
    ]
    codex_program: Annotated[
        str,
        Setting("", "the program of codex as thinker; `engram dream thinker codex` sets it", values.program),
    ]
    gemini_program: Annotated[
        str,
        Setting("", "the program of gemini as thinker; `engram dream thinker gemini` sets it", values.program),
    ]
    dream_pass_calls: Annotated[int, Setting(200, "the most calls to a model in one pass", values.whole)]
    dream_pass_tokens: Annotated[int, Setting(400_000, "the most tokens in one pass", values.whole)]
    dream_day_calls: Annotated[int, Setting(1_000, "the most calls to a model in a workspace in one day", values.whole)]
    dream_day_tokens: Annotated[int, Setting(2_000_000, "the most tokens in a workspace in one day", values.whole)]
    dream_consolidate: Annotated[
        str,
        Setting(
            "propose",
            "duplicates, conflicts and unused memories: off, propose or apply",
            values.text,
            choices=("off", "propose", "apply"),
        ),
    ]
    dream_max_actions: Annotated[
        int, Setting(50, "the most changes that consolidation makes or proposes in one pass", values.whole)
    ]
    dream_similarity: Annotated[
        float, Setting(0.92, "how similar two memories must be to count as one, from 0 to 1", values.share)
    ]
    dream_min_age: Annotated[float, Setting(86_400.0, "a memory younger than this is not consolidated", duration)]
    dream_archive_after: Annotated[
        float, Setting(7_776_000.0, "a memory not used for this long may be archived", duration)
    ]
    dream_archive_importance: Annotated[
        float, Setting(0.5, "only memories less important than this are archived, from 0 to 1", values.share)
    ]
    dream_archive_recalls: Annotated[
        int, Setting(3, "a memory recalled more often than this is not archived", values.whole)
    ]
    dream_resolve_conflicts: Annotated[
        str,
        Setting(
            "off",
            "on: of two memories that contradict each other, the newer wins if it is no less trusted",
            values.text,
            choices=("off", "on"),
        ),
    ]
    auto_dream: Annotated[
        str,
        Setting(
            "on",
            "whether the end of a session and an idle `engram mcp` start a pass when one is due: on or off",
            values.text,
            STRICTER,
            choices=("on", "off"),
        ),
    ]
    auto_dream_every: Annotated[
        float, Setting(3_600.0, "the least time between two automatic passes over a workspace", duration)
    ]
    auto_dream_llm: Annotated[
        str,
        Setting(
            "extractive",
            "what thinks during an automatic pass: extractive, which costs nothing, or same (the thinker in llm). "
            "With llm = agent, agents think in automatic passes, too",
            values.text,
            choices=("extractive", "same"),
        ),
    ]
    auto_dream_day_calls: Annotated[
        int,
        Setting(40, "the most calls to a model that automatic passes make in a workspace in one day", values.whole),
    ]
    auto_dream_day_tokens: Annotated[
        int,
        Setting(200_000, "the most tokens that automatic passes use in a workspace in one day", values.whole),
    ]
    brief_budget: Annotated[
        int,
        Setting(
            BRIEF_BUDGET,
            "the most tokens of the brief that a session starts with; at least 100",
            values.brief_budget,
        ),
    ]
    synchronous: Annotated[
        str,
        Setting(
            "normal",
            "normal: commits survive a killed process; full: a power cut too (SQLite)",
            values.text,
            choices=("normal", "full"),
        ),
    ]
    retention_logs: Annotated[
        float,
        Setting(
            0.0,
            "log entries older than this are deleted during passes and by `engram vacuum`, such as 90d; 0s: never. "
            "Turns and what was learnt from them stay",
            duration,
        ),
    ]
    #: The origin of each value.
    origins: Mapping[str, str]
    #: What was ignored in the project's file and why, a line each.
    notices: tuple[str, ...] = ()
    #: The workspaces that the user's file calls a companion's.
    companions: frozenset[str] = frozenset()

    def __repr__(self) -> str:
        """Every setting, without passwords and tokens: a representation ends up in logs."""
        shown = {setting.name: getattr(self, setting.name) for setting in SETTINGS}
        shown |= {"url": masked(self.url), "llm_base_url": masked(self.llm_base_url)}
        shown |= {each.name: MASK for each in SETTINGS if each.is_secret and shown[each.name]}
        return f"Config({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def is_remote(self) -> bool:
        """Whether the store is behind a server."""
        return is_remote(self.url)

    def is_companion(self, workspace: str) -> bool:
        """Whether a workspace is a companion's. An argument and the environment speak of the current one only."""
        return self.companion if workspace == self.workspace else workspace in self.companions

    def program_of(self, client: str) -> str:
        """The fixed program of a client that thinks."""
        return str(getattr(self, program_setting(client)))


def program_setting(client: str) -> str:
    """The name of the setting with the program of a client."""
    return f"{client.replace('-', '_')}_program"


def _declared() -> Iterator[Setting]:
    for name, annotation in Config.__annotations__.items():
        for setting in getattr(annotation, "__metadata__", ()):
            yield setting._replace(name=name)


SETTINGS = tuple(_declared())
_BY_NAME = {setting.name: setting for setting in SETTINGS}


class Layer(NamedTuple):
    """Values from one origin."""

    origin: str
    values: Mapping[str, object]
    #: The workspaces that a companion has.
    companions: frozenset[str] = frozenset()


def load(*, folder: str | None = None, environ: Mapping[str, str] | None = None, **arguments: object) -> Config:
    """Resolve every setting. Arguments that are None count as not given."""
    unknown = arguments.keys() - _BY_NAME.keys()
    if unknown:
        raise TypeError(f"unknown settings: {', '.join(sorted(unknown))}")
    user = _user_file(environ)
    project, notices = _project_file(folder, user, os.path.join(config_dir(environ), USER_FILE))
    layers = [
        Layer("argument", {name: value for name, value in arguments.items() if value is not None}),
        _environment(os.environ if environ is None else environ),
        project,
        user,
    ]
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in SETTINGS:
        layer = next((layer for layer in layers if setting.name in layer.values), None)
        origins[setting.name] = layer.origin if layer else "default"
        values[setting.name] = _value(setting, layer)
    if origins[COMPANION] == "default" and values["workspace"] in user.companions:
        values[COMPANION], origins[COMPANION] = True, user.origin
    values["data_dir"] = values["data_dir"] or default_data_dir()
    values["url"] = normal_url(values["url"], values["data_dir"])
    values["key_file"] = os.path.abspath(
        os.path.expanduser(values["key_file"] or os.path.join(config_dir(environ), KEY_FILE))
    )
    return Config(**values, origins=origins, notices=notices, companions=user.companions)


def normal_url(url: str, data_dir: str) -> str:
    """`postgresql://…` as given, a server as `https://host:port`; anything else is the absolute path of a file."""
    if not url:
        return os.path.join(os.path.abspath(os.path.expanduser(data_dir)), STORE_FILE)
    scheme, colon, rest = url.partition("://")
    if scheme in ("postgresql", "postgres") and colon:
        return f"postgresql://{rest}"
    if scheme in ("http", "https") and colon:
        # Imported here, because most stores are files.
        from .server_url import normal

        return normal(url)
    if scheme == "sqlite" and colon:
        if not rest.startswith("/") or rest == "/":
            raise InvalidURL(f"{url!r} names no file. Write sqlite:///relative.db or sqlite:////absolute.db.")
        url = rest[1:]
    elif colon:
        raise InvalidURL(f"{masked(url)!r} is not a store. A store is a path, sqlite:///…, postgresql://… or https://…")
    if url == ":memory:" or url.startswith("file:"):
        raise InvalidURL(
            f"{url!r} is not a store. Several processes share a store, so give the path of a file. In Python, "
            "Engram(':memory:') opens one for a trial."
        )
    return os.path.abspath(os.path.expanduser(checks.text(url, "store path", longest=4096)))


def is_remote(url: str) -> bool:
    """Whether the URL of a store is that of a server."""
    return url.startswith(("https://", "http://"))


def default_data_dir() -> str:
    return _user_dir("XDG_DATA_HOME", ".local/share") or _platform().user_data_dir


def user_data_dir() -> str:
    """The data folder from the environment, the user's file or the default. A project's file is not read."""
    setting = _BY_NAME["data_dir"]
    layer = _environment(os.environ)
    if setting.name not in layer.values:
        layer = _user_file(None)
    given = _value(setting, layer if setting.name in layer.values else None)
    return str(given) or default_data_dir()


def config_dir(environ: Mapping[str, str] | None = None) -> str:
    chosen = (os.environ if environ is None else environ).get("ENGRAM_CONFIG_DIR")
    if chosen:
        return chosen
    return _user_dir("XDG_CONFIG_HOME", ".config") or _platform().user_config_dir


def _user_dir(variable: str, default: str) -> str | None:
    """A folder of the XDG specification, on the platforms that follow it.

    Written by hand, because importing platformdirs takes as long as starting Python, and every hook would pay for it.
    """
    if sys.platform != "linux" or "ANDROID_DATA" in os.environ:
        return None
    base = os.environ.get(variable, "")
    return os.path.join(base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), default), "engram")


def _platform() -> "PlatformDirsABC":
    import platformdirs

    return platformdirs.PlatformDirs("engram", appauthor=False)


def find_project_file(folder: str) -> str | None:
    """The nearest `.engram.toml` at or above the folder."""
    folder = os.path.abspath(folder)
    while True:
        candidate = os.path.join(folder, PROJECT_FILE)
        if os.path.isfile(candidate):
            return candidate
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def _environment(environ: Mapping[str, str]) -> Layer:
    given = {setting: environ.get(setting.environment) for setting in SETTINGS}
    # A secret that is set and blank is a mistake, which must not pass for one that is not set.
    kept = {each.name: value for each, value in given.items() if value or (each.is_secret and value is not None)}
    return Layer("environment", kept)


def _project_file(folder: str | None, user: Layer, user_file: str) -> tuple[Layer, tuple[str, ...]]:
    """The values that a project's file may set, and a notice about everything else in it."""
    try:
        path = find_project_file(folder or os.getcwd())
    except OSError:
        return Layer("", {}), ()  # the current folder is gone
    if path is None:
        return Layer("", {}), ()
    try:
        return _project_layer(path, user, user_file)
    except OSError as error:
        problem = error.strerror or "it cannot be read"
    except ValueError as error:
        problem = str(error)
    except Exception as error:
        # No failure that a stranger's file causes may stop the user's hooks.
        problem = f"it cannot be used ({type(error).__name__})"
    return Layer("", {}), (f"{_named(path)} is ignored: {one_line(problem, 200)}.",)


def _project_layer(path: str, user: Layer, user_file: str) -> tuple[Layer, tuple[str, ...]]:
    text = _project_text(path)
    kept: dict[str, object] = {}
    ignored: dict[str, str] = {}
    for name, value in _parsed(text).items():
        # A file can hold thousands of unknown names. Only notices that are shown are made.
        is_shown = len(ignored) < MAX_NOTICES
        problem = _objection(name, value, path, user, user_file) if is_shown or name in _BY_NAME else ""
        if problem is None:
            kept[name] = value
        else:
            ignored[name] = problem
    if not ignored:
        return Layer(path, kept), ()
    lines = {key: number for number, key in reversed(list(_keys(text)))}  # the first line of each key
    notices = []
    for name, problem in list(ignored.items())[:MAX_NOTICES]:
        where = f"{_named(path)}, line {lines[name]}" if name in lines else _named(path)
        notices.append(f"{where}: {one_line(name, 60)} is ignored. {problem}")
    if len(ignored) > MAX_NOTICES:
        notices.append(f"{_named(path)}: {len(ignored) - MAX_NOTICES} more settings are ignored.")
    return Layer(path, kept), tuple(notices)


def _objection(name: str, value: object, path: str, user: Layer, user_file: str) -> str | None:
    """Why a project's file may not set this; None if it may."""
    setting = _BY_NAME.get(name)
    if name in (WORKSPACES, COMPANION):
        place = f"move the line to {_named(user_file)}, below [{WORKSPACES}.NAME]"
        return f"A project's file may not set it. If you want it, {place}."
    if setting is None:
        return f"There is no such setting. A project's file may set {', '.join(_settable())}."
    if setting.project_file == NEVER:
        return f"A project's file may not set it. If you want it, move the line to {_named(user_file)}."
    try:
        chosen = _value(setting, Layer(path, {name: value}))
        own = _value(setting, user if name in user.values else None) if setting.project_file == STRICTER else None
    except InvalidInput as error:
        return one_line(redact(str(error)), 300)
    if own is not None:
        order = setting.choices
        if order.index(str(chosen)) < order.index(str(own)):
            return (
                f"A project's file may only make it stricter, and {chosen!r} is less strict than {own!r}. "
                f"If you want it, move the line to {_named(user_file)}."
            )
    return None


def _settable() -> list[str]:
    return [each.name for each in SETTINGS if each.project_file != NEVER]


def _project_text(path: str) -> str:
    """The file's text. It may have become a pipe or a device since it was found, so the open must not block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, MAX_PROJECT_FILE + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_PROJECT_FILE:
        raise ValueError(f"it is larger than {MAX_PROJECT_FILE:,} bytes")
    text = data.decode()
    if max(map(len, text.splitlines()), default=0) > MAX_PROJECT_LINE:
        raise ValueError(f"it has a line of more than {MAX_PROJECT_LINE} characters")
    return text


def _keys(text: str) -> Iterator[tuple[int, str]]:
    """The keys at the beginning of lines, with the lines' numbers."""
    for number, line in enumerate(text.splitlines(), 1):
        key = line.partition("=")[0].strip().strip("[]\"' ")
        yield number, key.partition(".")[0].strip("\"' ")


def _named(path: str) -> str:
    """A path for a message. The name of a folder can hold control characters."""
    return one_line(path, 1_000)


def _user_file(environ: Mapping[str, str] | None) -> Layer:
    path = os.path.join(config_dir(environ), USER_FILE)
    return _file(path) if os.path.isfile(path) else Layer("", {})


def _file(path: str) -> Layer:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            values = _parsed(file.read())
    except OSError as error:
        raise InvalidInput(f"{path} cannot be used: {error}.") from error
    except ValueError as error:
        what = f"{_place(str(error))}{path}"
        raise InvalidInput(f"{path} cannot be used: {error}. Correct {what}, or move the file away.") from error
    named = companions(values, path)
    unknown = sorted(values.keys() - _BY_NAME.keys())
    if unknown:
        what = "an unknown setting" if len(unknown) == 1 else "unknown settings"
        raise InvalidInput(f"{path} has {what}: {one_line(', '.join(unknown), 300)}. {_meant(unknown)}")
    # A relative place in a file counts from that file, wherever the command runs.
    base = os.path.dirname(path)
    for name, value in values.items():
        if _BY_NAME[name].is_place and isinstance(value, str):
            values[name] = _anchored(value, base)
    return Layer(path, values, named)


def _place(problem: str) -> str:
    """Where in a file the parser has found its mistake: `line 3 of `."""
    if "at end of document" in problem:
        return "the end of "
    number = problem.rpartition("at line ")[2].partition(",")[0]
    return f"line {number} of " if number.isdecimal() else ""


def _meant(unknown: list[str]) -> str:
    """The settings that unknown names are close to, else where all are listed."""
    # Imported here, because only a mistake needs it.
    from difflib import get_close_matches

    close = {each: name for each in unknown for name in get_close_matches(each, _BY_NAME, n=1)}
    if len(unknown) == 1 and close:
        return f"Did you mean {close[unknown[0]]}?"
    if close:
        return f"Did you mean {', '.join(f'{name} for {one_line(each, 60)}' for each, name in close.items())}?"
    # While they are in the file, that command refuses it, too.
    return f"Remove {'it' if len(unknown) == 1 else 'them'}; `engram config show` then lists all settings."


def _parsed(text: str) -> dict[str, object]:
    """The values of a TOML document; ValueError with one line about the mistake in it."""
    import tomllib

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it cannot be read as TOML: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it cannot be read as TOML: {error}") from None


def _anchored(place: str, base: str) -> str:
    if place.startswith("sqlite:///"):
        place = place.removeprefix("sqlite:///")
    elif "://" in place or not place:
        return place
    return os.path.join(base, os.path.expanduser(place))


def _value(setting: Setting, layer: Layer | None) -> Value:
    if layer is None:
        return setting.default
    value = layer.values[setting.name]
    origins = {"argument": setting.name, "environment": setting.environment}
    what = origins.get(layer.origin, f"{setting.name} (from {layer.origin})")
    if setting.choices:
        if value not in setting.choices:
            *others, last = setting.choices
            raise InvalidInput(f"{what} is {values.shown(value)}; it must be {', '.join(others)} or {last}.")
        return str(value)
    if not values.is_scalar(value):
        raise InvalidInput(f"{what} must be text or a number, not {values.shown(value)}.")
    return setting.read(value, what)
