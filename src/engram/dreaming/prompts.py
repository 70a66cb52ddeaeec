"""The instructions that models get, stage by stage, and the schemas of their answers. They contain no stored text."""

from __future__ import annotations

from ..llm import headings

GIST = (
    "Write a gist of this session in 4 to 8 short sentences: what the user wanted, what was decided and why, what was "
    "learnt, important numbers and names, and what is still open. Say who said it (the user, the agent). If the known "
    "data contains an earlier gist, write one new gist that covers both."
)
MERGE = (
    "These are the gists of consecutive parts of one session, and possibly an earlier gist of the same session. Write "
    "one gist of 4 to 8 short sentences. Keep the most important points of all of them."
)
ERA = (
    "These are the gists of sessions of one calendar month, and possibly an earlier summary of the month. Write one "
    "summary of the month in 5 to 10 short sentences: what was worked on, what changed, what was decided, and how it "
    "ended."
)
PROFILE = (
    "Find standing facts about the user that will matter in other sessions: who they are, what they prefer, decided, "
    "learnt, own or avoid. Write one statement for each fact, in the third person. Use only the quoted data. As the "
    "source, give the id of the passage that supports the statement. Leave out facts that are already known, temporary "
    "states, and what an assistant says about itself. If there is nothing new, return an empty list."
)
EXTRACT = (
    "Find what is worth remembering by itself: facts, preferences, decisions (with their reason), lessons, and things "
    "to do. Write one statement for each, in the third person, that can be understood without the rest. Use only the "
    "quoted data. Keep names, numbers, dates and versions exactly. As the source, give the id of the passage that "
    "supports the statement. Leave out passwords, keys, tokens, temporary states and small talk. If there is nothing "
    "to remember, return an empty list."
)
NARRATIVE = (
    "Continue the narrative of this person's work with their agents, using the new gists. Its sections are: the arc "
    "(how the work went, one line per step), trends (topics that recur), open threads (unfinished work), and callbacks "
    "(topics to return to). Keep the lines of the known narrative that are still true. End every line with the ids of "
    "the passages that support it, in square brackets, like [m12, m15]. A line that you keep keeps its ids."
)
REFLECT = (
    "You are the memory that contains these gists. Write in the first person: a mood in one or two words, your energy "
    "from 0 to 1, a short narrative of yourself and your work with this person, and one reflection: something you "
    "noticed that was not said. Use only the gists."
)
CRITIQUE = "Compare the draft with the quoted data. List what is unsupported, exaggerated, empty or missing. Be brief."
REVISE = "Rewrite the draft to address the critique. Keep the same form."

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
#: Schema of the `self` block, for every writer.
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
