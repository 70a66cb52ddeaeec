"""Which models a background thread is loading.

Loading a model takes a second or two. A long-lived server begins it at its start. A writer must not wait for it: it
leaves its vectors to the embedding queue until the model is there.
"""

from __future__ import annotations

import os
import threading

#: By the name that the user chose. The event is set when the model is there or could not be loaded.
_loading: dict[str, threading.Event] = {}


def begin(choice: str) -> None:
    """Say that a background thread is going to load this model. `end` must follow."""
    _loading.setdefault(choice, threading.Event())


def end(choice: str) -> None:
    """Say that the model is there, or that it could not be loaded."""
    done = _loading.pop(choice, None)
    if done is not None:
        done.set()


def is_over(choice: str, within: float = 0.0) -> bool:
    """Whether no thread is loading this model, at the latest after so many seconds."""
    done = _loading.get(choice)
    return done is None or done.wait(within)


# A forked child does not have the thread.
os.register_at_fork(after_in_child=_loading.clear)
