"""Sessions with turns for tests of dreaming."""

from __future__ import annotations

from engram import Engram

WORDS = (
    *("We moved the router to the new library on Monday.", "I prefer tabs over spaces in every project."),
    *("The deploy failed because the schema was at 41.", "I decided to keep the old parser until March."),
    *("The cache takes 300 milliseconds to warm up.", "Remember to rotate the signing keys next week."),
)


def talk(eng: Engram, about: str = "the router", *, at: str = "2026-03-02T10:00:00Z", turns: int = 6) -> str:
    """Create a session in which the user and an agent take turns."""
    session = eng.sessions.register("claude-code", f"work on {about}")
    add(eng, session, about, at=at, turns=turns)
    return session


def add(eng: Engram, session: str, about: str, *, at: str = "2026-03-02T10:00:00Z", turns: int = 6) -> None:
    eng.exchanges.add_many(
        {
            "session_id": session,
            "role": ("user", "assistant")[number % 2],
            "content": f"{WORDS[number % len(WORDS)].replace('the router', about)} This is step {number} of {about}.",
            "created_at": at,
        }
        for number in range(turns)
    )
