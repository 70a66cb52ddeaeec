"""The instructions that models get, stage by stage, and the schemas of their answers. They contain no stored text."""

from __future__ import annotations

from ..llm import headings

GIST = (
    "Write the gist of this session in 4 to 8 short sentences: what was wanted, what was decided and why, what was "
    "learnt, numbers and names that matter, what is still open. Say who said it (the user, the agent). Where there is "
    "an earlier gist among what is known, write one new gist of both."
)
MERGE = (
    "These are the gists of consecutive parts of one session, with an earlier gist of it where there is one. Write one "
    "gist of 4 to 8 short sentences that keeps what matters most of all of them."
)
ERA = (
    "These are the gists of sessions of one calendar month, with the month's earlier summary where there is one. Write "
    "one summary of the month in 5 to 10 short sentences: what was worked on, what changed, what was decided, how it "
    "ended."
)
PROFILE = (
    "Find standing facts about the user that will matter in other sessions: who they are, what they prefer, decided, "
    "learnt, own, avoid. One statement each, in the third person, only what the quoted data says. Give the id of the "
    "passage it rests on as its source. Leave out what is known already, passing states, and what an assistant says "
    "about itself. With nothing new, the list is empty."
)
EXTRACT = (
    "Find what is worth remembering by itself: facts, preferences, decisions (with their reason), lessons, things left "
    "to do. One statement each that can be understood without the rest, in the third person, only what the quoted data "
    "says; keep names, numbers, dates and versions exactly. Give the id of the passage it rests on as its source. "
    "Leave out passwords, keys, tokens, passing states and small talk. With nothing of that kind, the list is empty."
)
NARRATIVE = (
    "Carry on the narrative of this person's work with their agents from the new gists: the arc (how it went, one line "
    "a step), trends (what keeps coming up), open threads (what is not finished), callbacks (what is worth coming back "
    "to). Keep what still holds of the known narrative. End every line with the ids of the passages it rests on, in "
    "square brackets, like [m12, m15]; a line carried over keeps its ids."
)
REFLECT = (
    "You are the memory these gists are kept in. In the first person, say how things stand: a mood in one or two "
    "words, energy from 0 to 1, a short narrative of yourself and your work with this person, and one reflection: "
    "something you noticed that nobody said. Only from what the gists say."
)
CRITIQUE = (
    "Read the draft against the quoted data. List what in it is not supported, exaggerated, or empty, and what it "
    "misses. Be brief."
)
REVISE = "Write the draft anew with the critique in mind, in the same form."

#: The kinds of statements, in the order of the profile. `PROFILE_FORM` is also the schema for `EXTRACT`.
KINDS = tuple(headings.PROFILE)

PROFILE_FORM = {
    "type": "object",
    "properties": {
        "facts": {
            "type": "array",
            "maxItems": 40,
            "items": {
                "type": "object",
                "properties": {
                    "text": {"type": "string", "maxLength": 400},
                    "kind": {"type": "string", "enum": list(KINDS)},
                    "source": {"type": "string"},
                    "confidence": {"type": "number", "minimum": 0, "maximum": 1},
                },
                "required": ["text", "kind", "source", "confidence"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["facts"],
    "additionalProperties": False,
}
_LINES = {"type": "array", "maxItems": 30, "items": {"type": "string", "maxLength": 500}}
NARRATIVE_FORM = {
    "type": "object",
    "properties": {name: _LINES for name in headings.NARRATIVE},
    "required": list(headings.NARRATIVE),
    "additionalProperties": False,
}
REFLECT_FORM = {
    "type": "object",
    "properties": {
        "mood": {"type": "string", "maxLength": 60},
        "energy": {"type": "number", "minimum": 0, "maximum": 1},
        "narrative": {"type": "string", "maxLength": 2_000},
        "reflection": {"type": "string", "maxLength": 1_000},
    },
    "required": ["mood", "energy", "narrative", "reflection"],
    "additionalProperties": False,
}
#: Schema of the `self` block, whoever writes it.
SELF_FORM = {
    "type": "object",
    "properties": {
        "mood": {"type": "string", "maxLength": 60},
        "energy": {"type": "number", "minimum": 0, "maximum": 1},
        "narrative": {"type": "string", "maxLength": 2_000},
        "reflections": {
            "type": "array",
            "maxItems": 6,
            "items": {
                "type": "object",
                "properties": {"at": {"type": "string"}, "text": {"type": "string", "maxLength": 1_000}},
                "required": ["at", "text"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["mood", "energy", "narrative", "reflections"],
    "additionalProperties": False,
}
