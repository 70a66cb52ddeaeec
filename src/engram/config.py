"""Which store, which workspace, which limits: one resolver for every interface.

A value comes from the first of: an argument, the environment (`ENGRAM_…`), the project's `.engram.toml` (the nearest
one upwards from the current folder), the user's `config.toml`, the default. A file is parsed only if it exists.

A project's file arrives with a cloned repository, so a stranger may have written it. It may say which workspace and
project it belongs to and make things stricter for itself; `Setting.project_file` says so for each setting. Everything
else in it is ignored with a notice. It is never an error: a repository must not be able to stop the user's hooks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from . import checks
from .errors import InvalidInput, InvalidURL
from .redact import redact
from .safe_text import one_line
from .store_url import masked

if TYPE_CHECKING:
    from platformdirs import PlatformDirsABC

PROJECT_FILE = ".engram.toml"
USER_FILE = "config.toml"
STORE_FILE = "engram.db"
DEFAULT_WORKSPACE = "default"

#: A project's file is small. A larger one, or one with longer lines, could keep the parser busy for seconds.
MAX_PROJECT_FILE = 16 * 1024
MAX_PROJECT_LINE = 500
#: At most so many notices about one file.
MAX_NOTICES = 10

#: What a project's file may do with a setting.
FREE, STRICTER, NEVER = "yes", "stricter", "no"


class Setting(NamedTuple):
    name: str
    #: A float is a duration (or a share, see `_SHARES`), an int a number.
    default: str | float | int
    help: str
    #: Whether a project's file may set it: freely, only to a stricter value than the user's (see `_CHOICES`), or not.
    project_file: str = NEVER

    @property
    def environment(self) -> str:
        return f"ENGRAM_{self.name.upper()}"


SETTINGS = (
    Setting("url", "", "the store: a path, sqlite:///path or postgresql://…; empty: engram.db in data_dir"),
    Setting("workspace", DEFAULT_WORKSPACE, "whose memory this is: up to 64 of a-z, 0-9, _ and -", FREE),
    Setting("project", "", "what sessions belong to; empty: the git remote's owner/repo, else the folder's name", FREE),
    Setting("data_dir", "", "where the default store is; empty: the platform's folder for user data"),
    Setting("stale_after", 1_800.0, "a session silent for this long is shown as stale"),
    Setting("abandon_after", 86_400.0, "a session silent for this long is abandoned, its leases freed"),
    Setting("lease_ttl", 900.0, "how long an exclusive lease lives without being renewed"),
    Setting("busy_timeout", 30.0, "how long a write waits for other writers"),
    Setting(
        "lock_policy", "deny", "a hook on a file held by another: deny, warn, or off (look and claim nothing)", STRICTER
    ),
    Setting("embedder", "static", "what finds meaning: static, minilm, openai, openai:MODEL, or none (words only)"),
    Setting("llm", "extractive", "who thinks while dreaming: extractive, openai[:MODEL], anthropic[:MODEL] or agent"),
    Setting("llm_base_url", "", "the model's server, such as http://localhost:11434/v1; empty: the provider's own"),
    Setting("llm_timeout", 120.0, "how long one answer of a model may take"),
    Setting("dream_pass_calls", 200, "how many calls to a model one pass of dreaming may make"),
    Setting("dream_pass_tokens", 400_000, "how many tokens one pass of dreaming may take"),
    Setting("dream_day_calls", 1_000, "how many calls to a model a day's dreaming may make"),
    Setting("dream_day_tokens", 2_000_000, "how many tokens a day's dreaming may take"),
    Setting("dream_consolidate", "propose", "duplicates, conflicts and dead wood: off, propose or apply"),
    Setting("dream_max_actions", 50, "how many changes one pass of consolidation may make and propose"),
    Setting("dream_similarity", 0.92, "how alike two memories must be to be one, from 0 to 1"),
    Setting("dream_min_age", 86_400.0, "a memory younger than this is not consolidated"),
    Setting("dream_archive_after", 7_776_000.0, "a memory idle for this long may be archived"),
    Setting("dream_archive_importance", 0.5, "only memories less important than this are archived, from 0 to 1"),
    Setting("dream_archive_recalls", 3, "a memory recalled more often than this is not archived"),
    Setting("dream_resolve_conflicts", "off", "on: of two that contradict, the newer and no less trusted one wins"),
    Setting("synchronous", "normal", "normal: survives a killed process; full: a power cut too (SQLite)"),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}

#: Settings that are a place on the disk, or an address.
_PLACES = frozenset({"url", "data_dir"})

#: Settings that are a part of one.
_SHARES = frozenset({"dream_similarity", "dream_archive_importance"})

#: Settings that are one of a few words; where a project's file may make one stricter, the strictest is last.
_CHOICES = {
    "lock_policy": ("off", "warn", "deny"),
    "synchronous": ("normal", "full"),
    "dream_consolidate": ("off", "propose", "apply"),
    "dream_resolve_conflicts": ("off", "on"),
}


class Config(NamedTuple):
    url: str
    workspace: str
    project: str
    data_dir: str
    stale_after: float
    abandon_after: float
    lease_ttl: float
    busy_timeout: float
    lock_policy: str
    embedder: str
    llm: str
    llm_base_url: str
    llm_timeout: float
    dream_pass_calls: int
    dream_pass_tokens: int
    dream_day_calls: int
    dream_day_tokens: int
    dream_consolidate: str
    dream_max_actions: int
    dream_similarity: float
    dream_min_age: float
    dream_archive_after: float
    dream_archive_importance: float
    dream_archive_recalls: int
    dream_resolve_conflicts: str
    synchronous: str
    #: For each setting, where its value came from.
    origins: Mapping[str, str]
    #: What was ignored in the project's file and why, a line each.
    notices: tuple[str, ...] = ()


class Layer(NamedTuple):
    """One place that values come from."""

    origin: str
    values: Mapping[str, object]


def load(*, folder: str | None = None, environ: Mapping[str, str] | None = None, **arguments: object) -> Config:
    """Every setting, resolved. Arguments that are None count as not given."""
    unknown = arguments.keys() - {setting.name for setting in SETTINGS}
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
    values: dict[str, str | float] = {}
    origins: dict[str, str] = {}
    for setting in SETTINGS:
        layer = next((layer for layer in layers if setting.name in layer.values), None)
        origins[setting.name] = layer.origin if layer else "default"
        values[setting.name] = _value(setting, layer)
    data_dir = str(values["data_dir"] or default_data_dir())
    return Config(
        url=normal_url(str(values["url"]), data_dir),
        workspace=str(values["workspace"]),
        project=str(values["project"]),
        data_dir=data_dir,
        stale_after=float(values["stale_after"]),
        abandon_after=float(values["abandon_after"]),
        lease_ttl=float(values["lease_ttl"]),
        busy_timeout=float(values["busy_timeout"]),
        lock_policy=str(values["lock_policy"]),
        embedder=str(values["embedder"]),
        llm=str(values["llm"]),
        llm_base_url=str(values["llm_base_url"]),
        llm_timeout=float(values["llm_timeout"]),
        dream_pass_calls=int(values["dream_pass_calls"]),
        dream_pass_tokens=int(values["dream_pass_tokens"]),
        dream_day_calls=int(values["dream_day_calls"]),
        dream_day_tokens=int(values["dream_day_tokens"]),
        dream_consolidate=str(values["dream_consolidate"]),
        dream_max_actions=int(values["dream_max_actions"]),
        dream_similarity=float(values["dream_similarity"]),
        dream_min_age=float(values["dream_min_age"]),
        dream_archive_after=float(values["dream_archive_after"]),
        dream_archive_importance=float(values["dream_archive_importance"]),
        dream_archive_recalls=int(values["dream_archive_recalls"]),
        dream_resolve_conflicts=str(values["dream_resolve_conflicts"]),
        synchronous=str(values["synchronous"]),
        origins=origins,
        notices=notices,
    )


def normal_url(url: str, data_dir: str) -> str:
    """`postgresql://…` as given; anything else as the absolute path of an SQLite file."""
    if not url:
        return os.path.join(os.path.abspath(os.path.expanduser(data_dir)), STORE_FILE)
    scheme, colon, rest = url.partition("://")
    if scheme in ("postgresql", "postgres") and colon:
        return f"postgresql://{rest}"
    if scheme == "sqlite" and colon:
        if not rest.startswith("/") or rest == "/":
            raise InvalidURL(f"{url!r} names no file: write sqlite:///relative.db or sqlite:////absolute.db.")
        url = rest[1:]
    elif colon:
        raise InvalidURL(f"{masked(url)!r}: Engram knows stores that are a path, sqlite:///… or postgresql://…")
    if url == ":memory:" or url.startswith("file:"):
        raise InvalidURL(f"{url!r}: a store is a file that several processes share; give its path.")
    return os.path.abspath(os.path.expanduser(checks.text(url, "store path", longest=4096)))


def default_data_dir() -> str:
    return _user_dir("XDG_DATA_HOME", ".local/share") or _platform().user_data_dir


def user_data_dir() -> str:
    """The data folder from the environment, the user's file or the default. No project's file is read for it."""
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

    By hand, because importing platformdirs takes as long as starting Python does, and a hook would pay it every time.
    """
    if sys.platform != "linux" or "ANDROID_DATA" in os.environ:
        return None
    base = os.environ.get(variable, "")
    return os.path.join(base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), default), "engram")


def _platform() -> PlatformDirsABC:
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


def duration(value: object, what: str) -> float:
    """Seconds, from a number or from text such as `90`, `30s`, `15m`, `24h`, `7d`."""
    if isinstance(value, str):
        sizes = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
        unit = value.strip()[-1:].lower()
        number = value.strip()[:-1] if unit in sizes else value
        try:
            value = float(number) * sizes.get(unit, 1)
        except ValueError:
            raise InvalidInput(f"{what} is {value!r}; write a time such as 90, 30s, 15m, 24h or 7d.") from None
    return checks.seconds(value, what)


def _environment(environ: Mapping[str, str]) -> Layer:
    given = {setting.name: environ.get(setting.environment) for setting in SETTINGS}
    return Layer("environment", {name: value for name, value in given.items() if value})


def _project_file(folder: str | None, user: Layer, user_file: str) -> tuple[Layer, tuple[str, ...]]:
    """What the project's file may say, and a notice about everything else in it."""
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
        # Whatever a stranger's file makes fail here must not stop the user's hooks.
        problem = f"it cannot be used ({type(error).__name__})"
    return Layer("", {}), (f"{_named(path)} is ignored: {one_line(problem, 200)}.",)


def _project_layer(path: str, user: Layer, user_file: str) -> tuple[Layer, tuple[str, ...]]:
    text = _project_text(path)
    kept: dict[str, object] = {}
    ignored: dict[str, str] = {}
    for name, value in _parsed(text).items():
        # A file can hold thousands of unknown names. Only the notices that are shown are worth making.
        is_shown = len(ignored) < MAX_NOTICES
        problem = _objection(name, value, path, user, user_file) if is_shown or name in _BY_NAME else ""
        if problem is None:
            kept[name] = value
        else:
            ignored[name] = problem
    if not ignored:
        return Layer(path, kept), ()
    lines = {key: number for number, key in reversed(list(_keys(text)))}  # of a key on several lines, the first
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
        order = _CHOICES[name]
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
    """A path for a message: a folder's name can hold control characters, too."""
    return one_line(path, 1_000)


def _user_file(environ: Mapping[str, str] | None) -> Layer:
    path = os.path.join(config_dir(environ), USER_FILE)
    return _file(path) if os.path.isfile(path) else Layer("", {})


def _file(path: str) -> Layer:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            values = _parsed(file.read())
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be used: {error}.") from error
    unknown = values.keys() - {setting.name for setting in SETTINGS}
    if unknown:
        raise InvalidInput(
            f"{path} has unknown settings: {', '.join(sorted(unknown))}. "
            f"Known are: {', '.join(setting.name for setting in SETTINGS)}."
        )
    # A relative place in a file means relative to that file, wherever the command runs.
    base = os.path.dirname(path)
    for name in _PLACES & values.keys():
        place = values[name]
        if isinstance(place, str):
            values[name] = _anchored(place, base)
    return Layer(path, values)


def _parsed(text: str) -> dict[str, object]:
    """The values of a TOML document; ValueError with one line about what is wrong with it."""
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


def _whole(value: object, what: str) -> int:
    try:
        return checks.whole(int(str(value)), what, least=0)
    except ValueError:
        raise InvalidInput(f"{what} is {value!r}; it must be a whole number.") from None


def _share(value: object, what: str) -> float:
    try:
        return checks.share(float(str(value)), what)
    except ValueError:
        raise InvalidInput(f"{what} is {value!r}; it must be a number from 0 to 1.") from None


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | int | float)


def _shown(value: object) -> str:
    """A value for a message. A list or table is not quoted: one that is nested deeply enough cannot be."""
    return repr(value) if _is_scalar(value) else f"a {type(value).__name__}"


def _value(setting: Setting, layer: Layer | None) -> str | float:
    if layer is None:
        return setting.default
    value = layer.values[setting.name]
    what = f"{setting.name} (from {layer.origin})"
    choices = _CHOICES.get(setting.name, ())
    if choices:
        if value not in choices:
            raise InvalidInput(f"{what} is {_shown(value)}; it must be {', '.join(choices[:-1])} or {choices[-1]}.")
        return str(value)
    if not _is_scalar(value):
        raise InvalidInput(f"{what} must be text or a number, not {_shown(value)}.")
    if setting.name in _SHARES:
        return _share(value, what)
    if isinstance(setting.default, float):
        return duration(value, what)
    if isinstance(setting.default, int):
        return _whole(value, what)
    if setting.name == "workspace":
        return checks.workspace(value, what)
    if setting.name == "project":
        # Secrets first: the other checks quote the value.
        checks.without_secrets(checks.text(value, what, longest=checks.MAX_NAME), what)
        return checks.name(value, what)
    if setting.name == "url":
        try:
            return checks.text(value, what, longest=4096)
        except InvalidInput as error:
            raise InvalidURL(f"{error} A store is a path, sqlite:///… or postgresql://…") from None
    if setting.name == "llm_base_url" and not (
        str(value).startswith(("http://", "https://")) and "?" not in str(value)
    ):
        # The value is not quoted: what is wrong with it may be that somebody put a key there.
        raise InvalidInput(f"{what} must be an http or https address without a query, like http://localhost:11434/v1.")
    return checks.text(value, what, longest=4096)
