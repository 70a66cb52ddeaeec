"""How pages show messages between sessions and the person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...records import PERSON
from ...safe_text import one_line
from ..http.html import Html, tag
from .markdown import markdown
from .names import named, plain
from .parts import folded

if TYPE_CHECKING:
    from ...records import Message
    from .request import PageRequest

#: Characters and lines of a message before it is folded.
_LONG, _LONG_LINES = 900, 14
_EVERYBODY = "*"


def text(message: Message) -> Html:
    """What a message says. A long one begins folded."""
    shown = markdown(message.text)
    if len(message.text) <= _LONG and message.text.count("\n") < _LONG_LINES:
        return shown
    return folded(plain(message.text, 200), shown, id=f"message-{message.id}", class_="long")


def recipient(request: PageRequest, message: Message, names: dict[str, str]) -> Html | str:
    """To whom it was sent: a session by its name, the person, every agent, or the holders of a resource."""
    if message.to == PERSON:
        return "you"
    if message.to == _EVERYBODY:
        return "every agent"
    return named(request, message.to, names) if message.to in names else tag("code", one_line(message.to, 60))
