"""The event model of all harnesses.

(This module does not postpone annotations, like `records`: a named tuple would compile them from text at every start.)
"""

from typing import NamedTuple

#: The kinds of events. Each adapter maps its harness's names to them.
START = "start"
PROMPT = "prompt"
BEFORE_TOOL = "before tool"
AFTER_TOOL = "after tool"
STOP = "stop"
COMPACT = "before compaction"
COMPACTED = "after compaction"
SUBAGENT_START = "subagent start"
SUBAGENT_STOP = "subagent stop"
END = "end"


class Event(NamedTuple):
    kind: str
    #: The harness's own name of the event. Some answers must repeat it.
    name: str
    #: The harness's own id of the session.
    session: str
    #: The id of the subagent, if the event happened in one.
    agent: str | None = None
    agent_type: str | None = None
    folder: str | None = None
    #: The prompt, the assistant's last message, or the summary of a compaction.
    text: str = ""
    #: The path of the harness's record of the conversation, for messages that the payload lacks.
    transcript: str | None = None
    tool: str = ""
    #: The files that the tool writes.
    paths: tuple[str, ...] = ()
    #: What the tool works on, in one line.
    target: str = ""
    failed: bool = False
    #: What caused the event, such as the start of the session or the compaction.
    reason: str = ""
    #: Whether the harness shows the answer's context to the model.
    takes_context: bool = False
    #: Whether the harness may run the hook in the background, and shows its answer only with the model's next request.
    in_background: bool = False
    #: Whether the harness takes a warning about a file only after the tool has run.
    warn_late: bool = False
    #: Whether the harness can ask the person about the tool.
    can_ask: bool = False


class Told(NamedTuple):
    """An event as it is handled: no text has a secret, and nothing has to be looked up on the agent's machine.

    `preparing` makes it from an `Event`. `place` has what is looked up there.
    """

    kind: str
    #: The name of the harness, which is the type of the session.
    harness: str
    #: The external id of the session, or of the subagent in which the event happened.
    session: str
    #: The external id of the session that the subagent works for; None outside of subagents.
    parent: str | None = None
    #: The name of the subagent, and what it is to do.
    name: str | None = None
    task: str = ""
    #: The prompt, or the assistant's last message, as it is stored.
    text: str = ""
    #: The line of the session's log about a tool.
    line: str = ""
    failed: bool = False
    #: Why the session started or is compacted.
    reason: str = ""
    #: As in `Event`.
    takes_context: bool = False
    in_background: bool = False
    warn_late: bool = False
    can_ask: bool = False


class Answer(NamedTuple):
    #: Text for the model; empty for none.
    context: str = ""
    #: Why the tool may not run; empty when it may.
    denied: str = ""
    #: What the person has to decide before the tool may run; empty when there is nothing to decide.
    asked: str = ""
