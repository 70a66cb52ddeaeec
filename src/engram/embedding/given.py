"""A Python object of the user as embedder: its name, its dimensions and every vector are checked.

The vectors are stored with the object's name, so a wrong one would be noticed late or never. The optional protocols
(questions, tokens, weights) are passed on if the object has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from .. import checks
from ..errors import EmbedderFailed, EngramError, InvalidInput
from .catalogue import choice_of
from .protocol import Embedder

if TYPE_CHECKING:
    from .protocol import Part, TokenVectors, Vectors, WeightedText

#: Texts are cut to this many characters before they are embedded.
_LONGEST: Final = 100_000
#: Providers of Engram. An object with such a name would be taken for one of them by other processes.
_PROVIDERS: Final = ("static", "minilm", "openai", "onnx", "auto", "none")


def require_embedder(given: object) -> Embedder:
    """The object, checked, if it can embed. InvalidInput says what it lacks."""
    if isinstance(given, Given):
        return given
    kind = type(given).__name__
    if isinstance(given, type):
        raise InvalidInput(f"embedder is the class {given.__name__}; give an object of it, such as {given.__name__}().")
    if not callable(getattr(given, "embed", None)):
        raise InvalidInput(
            f"embedder, of type {kind}, has no method embed(texts). Give the name of an embedder, or an object that "
            "follows engram.embedding.Embedder."
        )
    name = getattr(given, "name", None)
    if not isinstance(name, str):
        raise InvalidInput(
            f"embedder, of type {kind}, has a name that is not a text. The name is stored with each vector."
        )
    checks.name(name, "the name of embedder")
    own = type(given).__module__.startswith(f"{__package__}.")
    if not own and (name.partition(":")[0] in _PROVIDERS or choice_of(name) is not None):
        raise InvalidInput(
            f"embedder, of type {kind}, has the name {name!r}, which belongs to an embedder of Engram. Its vectors "
            "would be mixed with others. Give it a name of its own, with a version, such as 'mine:v1'."
        )
    # The class first, because reading a property may load the model.
    if not hasattr(type(given), "dims") and not hasattr(given, "dims"):
        raise InvalidInput(
            f"embedder, of type {kind}, has no dims. Give it that attribute: how many numbers a vector has."
        )
    return Given(given)


class Given:
    """The user's object, with checks."""

    def __init__(self, embedder: Any) -> None:
        self.name: str = embedder.name
        self._embedder = embedder
        self._dims = 0
        # As attributes of the object, because that is where `isinstance` looks for a protocol's methods.
        for method in ("tokens", "weighted"):
            if callable(getattr(embedder, method, None)):
                setattr(self, method, self._passed_on(method))
        if callable(getattr(embedder, "embed_query", None)):
            self.embed_query = self._embed_query

    @property
    def dims(self) -> int:
        if not self._dims:
            dims = self._called("dims", lambda: self._embedder.dims)
            if not isinstance(dims, int) or isinstance(dims, bool) or dims < 1:
                raise EmbedderFailed(f"The embedder {self.name!r} says that a vector has {dims!r:.50} numbers.")
            self._dims = dims
        return self._dims

    def embed(self, texts: Sequence[str]) -> Vectors:
        from .rows import checked

        usable = checked(texts, _LONGEST)
        return self._rows(self._called("embed", lambda: self._embedder.embed(usable)), len(usable))

    def _embed_query(self, text: str) -> Vectors:
        from .rows import checked

        (usable,) = checked([text], _LONGEST)
        made = self._called("embed_query", lambda: [self._embedder.embed_query(usable)])
        row: Vectors = self._rows(made, 1)[0]
        return row

    def _rows(self, made: object, expected: int) -> Vectors:
        """The vectors, checked and at unit length."""
        import numpy as np

        from .rows import unit

        try:
            with np.errstate(over="ignore"):
                rows = np.asarray(made, np.float32)
        except (TypeError, ValueError):
            raise self._wrong("something other than rows of numbers of one length") from None
        if not expected:
            return np.zeros((0, self.dims), np.float32)
        if rows.shape != (expected, self.dims):
            shape = " x ".join(map(str, rows.shape))
            raise self._wrong(f"{shape} numbers for {expected} texts of {self.dims} dimensions")
        if not np.isfinite(rows).all():
            raise self._wrong("numbers that are not finite")
        return unit(rows)

    def _passed_on(self, method: str) -> Callable[..., list[TokenVectors] | WeightedText]:
        def call(*arguments: Sequence[str] | str | Sequence[Part]) -> Any:
            return self._called(method, lambda: getattr(self._embedder, method)(*arguments))

        return call

    def _called(self, what: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except EngramError:
            raise
        except Exception as error:
            # In quotes, because it may repeat the text. Stored messages leave quoted words out.
            said = " ".join(f"{type(error).__name__}: {error}".replace("”", '"').split())[:300]
            raise EmbedderFailed(f"The embedder {self.name!r} failed in {what}: “{said}”") from error

    def _wrong(self, what: str) -> EmbedderFailed:
        return EmbedderFailed(f"The embedder {self.name!r} gave {what}. The vectors were not used.")
