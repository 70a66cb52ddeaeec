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
    "These are the gists of the sessions of one calendar month in order of time, each with its date, time and "
    "project, and possibly the summary of the month so far. Write the summary of the month as the person would write "
    "it about their own work. Begin with what came of the month. Then tell the steps in order of time, with their "
    "days: what is different since, what was decided and why. End with what was open at the end of the month. Use 5 "
    "to 12 short sentences, and keep different projects apart. Use names, versions and numbers as the gists have "
    "them. Say nothing that the gists do not say, and leave out moods and praise. If there is a summary so far, write "
    "one new summary that covers both. A gist replaces what the summary said about the same session."
)
EXTRACT = (
    "Find what is worth remembering by itself: facts, preferences, decisions (with their reason), lessons, and things "
    "to do. Write one statement for each, in the third person, that can be understood without the rest. Use only the "
    "quoted data. Keep names, numbers, dates and versions exactly. As the source, give the id of the passage that "
    "supports the statement. Leave out passwords, keys, tokens, temporary states and small talk. If there is nothing "
    "to remember, return an empty list."
)
NARRATIVE = (
    "Continue the narrative of this person's work with their agents, as they would have written it themselves. The "
    "passages are gists of sessions in order of time, each with its date, time and project. The arc tells how it "
    "went, in order of time, one line for each step: its day, its project if there are several, what came of it, and "
    "the decisions with their reasons. It tells outcomes, not activities. The open threads say what is open now: "
    "unfinished work, unanswered questions, known faults. Leave out a thread as soon as a gist shows that it is "
    "settled. Be true, specific and readable, and say nothing that the gists do not say. Keep the lines of the known "
    "narrative that are still true. A gist replaces what a known line said about the same session. The arc has at "
    "most 30 lines; when it would have more, condense the oldest ones into one line for each month. End every line "
    "with the ids of the passages that support it, in square brackets, like [m12, m15]. A line that you keep keeps "
    "its ids."
)
REFLECT = (
    "You are the memory of a companion, and these gists are what happened. Write in the first person: a mood in one "
    "or two words, your energy from 0 to 1, a short narrative of yourself and your time with this person, and one "
    "reflection: something you noticed that was not said. Use only the gists. Before you answer, compare your text "
    "with them: take out what they do not support, what is exaggerated and what is empty, and add what matters and is "
    "missing. Answer only with the final text."
)

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
# More lines than asked for, because the last ones are the newest.
_LINES = {"type": "array", "maxItems": 60, "items": {"type": "string", "maxLength": 600}}
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
#: Schema of what a reflection writes into the `self` block. A companion may write anything there.
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
