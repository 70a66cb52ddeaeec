"""The embedders that a workspace can use, and changing the one it uses.

Changing is: install what is missing, try the model on three sentences, then reindex. Every step can be repeated after
an interruption, and the workspace keeps its old vectors until the new ones are complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..embedding import AUTO, catalogue, components, concrete, folders, load, model_files
from ..errors import EmbedderFailed, EngramError, InvalidInput, MissingExtra
from ..setup_records import EmbedderChange, EmbedderInfo, EmbedderPlan
from .embedding_models import changed_model, model_of, other_given, other_model
from .reindex import reindex

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..store_view import StoreView

#: The characters of a token, roughly.
_PER_TOKEN = 4

_ANY_FOLDER = "onnx:FOLDER"
#: What a workspace can be changed to.
_CHANGEABLE = "static, minilm, openai, openai:MODEL or onnx:FOLDER"

_COUNT = """
SELECT COUNT(*) FROM items i
WHERE i.workspace = :workspace AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.item = i.id AND v.model = :model)
"""
_CHARACTERS = """
SELECT (SELECT COALESCE(SUM(LENGTH(content)), 0) FROM exchanges WHERE workspace = :workspace)
  + (SELECT COALESCE(SUM(LENGTH(content)), 0) FROM memories WHERE workspace = :workspace)
"""


class Embedders:
    def __init__(self, view: StoreView) -> None:
        self._view = view

    @property
    def model(self) -> str | None:
        """The model of the workspace's vectors; None before the first vector."""
        with self._view.engine.read() as tx:
            return model_of(tx, self._view.workspace)

    def list(self) -> list[EmbedderInfo]:
        """Every embedder, from the simplest to the best; the one that the workspace uses is among them."""
        model = self.model
        used = None if model is None else catalogue.choice_of(model)
        choices = ["static", "minilm", "openai", *(f"onnx:{folder}" for folder in folders.known()), _ANY_FOLDER]
        if used is not None and used not in choices:
            choices.insert(choices.index("openai") + 1, used)
        found = [_info(choice, choice == used) for choice in choices]
        if model is not None and used is None:
            found.append(EmbedderInfo(model, "the workspace's model, which this machine lacks", None, 0, False, True))
        return found

    def better(self) -> EmbedderInfo | None:
        """An embedder that finds more than the workspace's and costs nothing; None if there is none."""
        listed = self.list()
        used = next((each for each in listed if each.used), None)
        if used is None or used.paraphrases is None:
            return None
        best = max((each for each in listed if each.paraphrases is not None), key=lambda each: each.paraphrases or 0)
        return best if (best.paraphrases or 0) > used.paraphrases else None

    def next_choice(self) -> str:
        """The embedder that this process uses for the workspace; "none" for words only."""
        if self._view.embedder is not None:
            return self._view.embedder.name
        setting = self._view.config.embedder
        return catalogue.resolve(self.model) if setting == AUTO else concrete(setting)

    def problem(self) -> str | None:
        """Why this process cannot use the workspace's vectors, and what to do; None if it can. Loads no model."""
        model, setting = self.model, self._view.config.embedder
        given = self._view.embedder
        if given is not None:
            return None if model in (None, given.name) else other_given(self._view.workspace, str(model), given.name)
        try:
            choice = self.next_choice()
            if choice == "none" or model is None:
                return None
            if setting != AUTO and catalogue.choice_of(model) != choice:
                embedder = load(choice)
                return other_model(self._view.workspace, model, embedder.name) if embedder is not None else None
            if catalogue.is_installed(choice):
                # The name of a model on disk has its files' hash, which is kept until a file changes.
                found = load(choice) if choice.startswith("onnx:") else None
                return None if found is None or found.name == model else changed_model(model, choice, found.name)
            load(choice)  # says what is missing
            return f"The {choice} embedder is not complete on this machine. Type: {catalogue.command(choice)}"
        except EngramError as error:
            return str(error)

    def plan(self, name: str) -> EmbedderPlan:
        """What `use` would do. Changes nothing."""
        choice = _changeable(name)
        found = catalogue.described(choice)
        parts = [components.COMPONENTS[each] for each in catalogue.needed(choice)]
        remote = choice.startswith("openai:")
        model = self.model
        with self._view.engine.read() as tx:
            # An openai or onnx model that the workspace does not use yet has no vectors.
            known = {"static": catalogue.STATIC_MODEL, "minilm": catalogue.MINILM_MODEL}.get(choice, choice)
            texts: int = tx.value(_COUNT, workspace=self._view.workspace, model=known)
            characters = tx.value(_CHARACTERS, workspace=self._view.workspace) if remote else 0
        return EmbedderPlan(
            name=choice,
            what=found.what,
            paraphrases=found.paraphrases,
            downloads=tuple(each.what for each in parts),
            download_megabytes=sum(each.download for each in parts),
            disk_megabytes=sum(each.disk for each in parts),
            texts=texts,
            seconds=None if found.milliseconds is None else texts * found.milliseconds / 1_000,
            tokens=int(characters) // _PER_TOKEN,
            remote=remote,
            model=model,
        )

    def use(
        self,
        name: str,
        *,
        said: Callable[[str], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> EmbedderChange:
        """Give the workspace another embedder: install it, try it, and embed everything with it.

        `said` is called with a line before each step, and `progress` with the number of embedded items and the total.
        """
        from ..embedding.installing import broken, install
        from ..embedding.trial import tried

        choice = _changeable(name)
        if self._view.engine.joined:
            raise InvalidInput("Changing the embedder works in transactions of its own; call it outside of write().")
        tell = said or (lambda line: None)
        before = self.model
        installed = install(choice, tell)
        tell("Trying the model")
        try:
            embedder = tried(choice)
        except (EmbedderFailed, MissingExtra):
            # A component may be damaged. Installing it anew repairs that.
            again = install(choice, tell, broken(choice))
            if not again:
                raise
            installed += [name for name in again if name not in installed]
            embedder = tried(choice)
        provider, _, folder = choice.partition(":")
        if provider == "onnx":
            # Without this note no process would find the model of the workspace again.
            folders.require_note(embedder.name, folder)
        made = reindex(self._view, choice, progress)
        return EmbedderChange(choice, embedder.name, before, tuple(installed), made)


def _info(choice: str, used: bool) -> EmbedderInfo:
    found = catalogue.described(choice)
    size = sum(components.COMPONENTS[name].disk for name in found.components)
    # For any folder, what runs the model must be there.
    installed = catalogue.is_installed(choice) if choice != _ANY_FOLDER else not components.missing("onnxruntime")
    return EmbedderInfo(choice, found.what, found.paraphrases, size, installed, used)


def _changeable(name: str) -> str:
    """A choice that a workspace can be changed to, in full."""
    if name in (AUTO, "none"):
        raise InvalidInput(
            f"{name} is a setting and not a model. Set ENGRAM_EMBEDDER={name} instead, or name {_CHANGEABLE}."
        )
    choice = concrete(name, offered=_CHANGEABLE)
    provider, _, folder = choice.partition(":")
    if provider == "onnx":
        # An unusable folder is refused before anything is installed.
        model_files.read(folder)
    return choice
