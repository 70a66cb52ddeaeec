"""The headings of the portrait: what an answer's schema calls a section, and its title in the text."""

from __future__ import annotations

from typing import Final

#: The headings of the profile, by the kind of a statement.
PROFILE: Final = {
    "fact": "Facts",
    "preference": "Preferences",
    "decision": "Decisions",
    "lesson": "Lessons",
    "todo": "To do",
}
#: The headings of the narrative.
NARRATIVE: Final = {
    "arc": "How it went",
    "open_threads": "Open threads",
}
#: Sections that a narrative of an earlier release may still have.
FORMER_NARRATIVE: Final = ("What keeps coming up", "Worth coming back to")
