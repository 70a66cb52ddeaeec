"""The icons of the dashboard: line drawings in a square of 24 units, in the colour of the text around them."""

from __future__ import annotations

from ..http.html import Html, tag

_PATHS = {
    "now": ("M3 12h4l3-8 4 16 3-8h4",),
    "search": ("M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14z", "M16.2 16.2 21 21"),
    "memory": (
        "M12 5.5C10 3 5.5 3.6 5 7.4 2.6 8.8 2.8 12.6 5 13.8c-.4 3.4 3.2 5.8 7 4.2",
        "M12 5.5c2-2.5 6.500-1.900 7 1.900 2.400 1.400 2.200 5.200 0 6.400.400 3.400-3.200 5.800-7 4.200",
        "M12 5.500v14",
    ),
    "blocks": (
        "M12 3 3.500 7.500 12 12l8.500-4.500z",
        "M3.500 12 12 16.500 20.500 12",
        "M3.500 16.500 12 21l8.500-4.500",
    ),
    "time": ("M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16z", "M12 8v4.500l3 2"),
    "dreams": ("M20 14.500A8.500 8.500 0 0 1 9.500 4 8.500 8.500 0 1 0 20 14.500z",),
    "graph": (
        "M6 4.500a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
        "M18 3.500a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
        "M14 16.500a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
        "M8 6.300l8-.600",
        "M7 8.200l6 8.600",
        "M17.300 7.400l-2.600 9.300",
    ),
    "system": ("M4 6h10", "M18 6h2", "M4 12h2", "M10 12h10", "M4 18h8", "M16 18h4", "M16 4v4", "M8 10v4", "M14 16v4"),
    "pin": ("M9 4h6l-1 6 3 3H7l3-3z", "M12 13v7"),
    "edit": ("M4 20l1-4L16 5l3 3L8 19z",),
    "archive": ("M4 5h16v4H4z", "M6 9v10h12V9", "M10 13h4"),
    "forget": ("M5 7h14", "M10 4h4", "M7 7l1 13h8l1-13"),
    "approve": ("M5 12.500l4.500 4.500L19 7.500",),
    "reject": ("M6 6l12 12", "M18 6L6 18"),
    "undo": ("M8 5 4 9l4 4", "M4 9h9a6 6 0 0 1 0 12H9"),
    "message": ("M4 5h16v11H9l-5 4z",),
    "lock": ("M6 11h12v9H6z", "M8.500 11V8a3.500 3.500 0 0 1 7 0v3"),
    "file": ("M6 3h8l4 4v14H6z", "M14 3v4h4"),
    "warning": ("M12 4 2.500 20h19z", "M12 10v4.500", "M12 17.300v.200"),
    "sun": (
        "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z",
        "M12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M5 19l2-2M17 7l2-2",
    ),
    "out": ("M14 4h5v16h-5", "M4 12h10", "M10 8l4 4-4 4"),
    "right": ("M9 5l7 7-7 7",),
}


def icon(name: str) -> Html:
    """It says nothing to a screen reader: the text beside it or the label of its button does."""
    return tag(
        "svg", *(tag("path", d=each) for each in _PATHS[name]), class_="icon", viewBox="0 0 24 24", aria_hidden="true"
    )
