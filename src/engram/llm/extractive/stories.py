"""The gist of a session without a model: what was asked, what came of it, what is open, which files were touched.

A session of work is told ask by ask, in the person's words and the agent's. A conversation has no asks and no results;
it is told by its most informative sentences, each with its speaker. A line of the story is one ask or one sentence, so
a story that grows loses lines in its middle and stays within its limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from ... import gist_text, outcomes, wording
from ...gist_text import GistText
from ...narration import announces
from ...sentences import parts
from ..protocol import Passage
from . import files, gists, markers, talk, wishes
from .talk import Turn
from .terms import Analyser

LONGEST: Final = 3_000
LONGEST_TITLE: Final = 120
LONGEST_OUTCOME: Final = 600
LONGEST_OPEN: Final = 300
MOST_OPEN: Final = 8
#: Characters of a title that reads as a heading, of an ask, and of a result in the story.
_TITLE: Final = 90
_ASK: Final = 200
_RESULT: Final = 200
_PASTED: Final = 60
_MOST_ASKS: Final = 6
_MOST_SAID: Final = 12
_PER_SAID: Final = 3
FILES: Final = "Files: "
ONLY_COMMANDS: Final = "The session has only commands to the harness:"
_USER, _AGENT = "The user", "The agent"
_ASKED: Final = f"{_USER} asked: "
_THEN: Final = "Then: "
#: The label of the gist that a session has so far.
SO_FAR: Final = "the gist so far"
#: A line of a gist of an earlier release: `2026-01-16 user: …`.
_OLD_LINE: Final = re.compile(r"\A\d{4}-\d\d-\d\d (user|assistant): (.+)\Z")
#: What `gh` prints of a pull request or an issue.
_GH_TITLE: Final = re.compile(r"^[^\n]{0,60}\btitle:\t(\S[^\n]{3,150})$", re.MULTILINE)
_HEADING: Final = re.compile(r"^#{1,3} (\S[^\n]{8,150})$", re.MULTILINE)
_PLAIN_WORD: Final = re.compile(r"(?<![\w/.…@-])[^\W\d_]{2,}(?![\w/]|\.\w)")
_HEADING_WORDS: Final = 5
_NUMBERS: Final = re.compile(
    r"\A\W*(?:address|adress|fix|do|explain|and|let's|lets|now|please|try|\W|\d)++\Z", re.IGNORECASE
)
#: An ask that only says yes.
_CONFIRMS: Final = re.compile(
    r"\A(?:(?:yes|yeah|yep|yup|no|ok|okay|mmk|sure|proceed|continue|go|ahead|do|it|please|right|good|fine|thanks?|great|ah|true"
    r"|sounds|perfect|cool|implement|correct|agreed|now|[\da-d])\b\W*+)++\Z",
    re.IGNORECASE,
)
_LEAD: Final = re.compile(r"\A(?:(?:ok|okay|mmk|ah|um+|hm+|so|and|also|well|oh)\b[\s,.!…—–-]*+)++(?=\S)", re.IGNORECASE)
#: Sentences that say only how it goes, or that somebody knows enough now.
_EMPTY: Final = re.compile(
    r"\A(?:(?:good|great|excellent|perfect|ok(?:ay)?|right|i see|got it|understood|interesting)\b[^.:;!`]{0,60}[.!]?\Z"
    r"|(?:clean|done|fixed|found it|updated|all (?:done|set|green))[.!]?\Z"
    r"|(?:now )?(?:running|checking|verifying|looking|reading|updating|fixing|building)\b[^.:;!]{0,80}[.!]?\Z"
    r"|[^.:;!]{0,200}[—–,-] let me\b"
    r"|(?:good|great|excellent|perfect|sorry|you(?:'re| raise)|that makes)\b[^.:;!]{0,80}[.!]\Z"
    r"|[^.:;!]{0,40}\bi(?: now)? have (?:all|everything|enough|a (?:clear|good|full|complete)|the (?:full|whole))\b[^.:;!]{0,80}[.!]?\Z"
    r"|(?:all |the |both |and |existing |unit |new |\d{1,6} |go |full )*+(?:tests?|test suite|lint(?:er|ing)?|builds?|everything)\b[^.:;]{0,30}"
    r"\b(?:pass(?:es|ed|ing)?|clean|green|succeed(?:s|ed)?|compiles?)\b[^.:;]{0,50}[.!]?\Z"
    r"|[^.:;!]{0,120}\b(?:like|as follows|like this)[.:]?\Z"
    r"|all (?:clean|changes are (?:clean|complete))\b[^.:;]{0,80}[.!]?\Z"
    r"|[^.:;]{0,60}\b(?:diagnostics?|warnings?|lint\w{0,6}|errors?|issues?|failures?)\b[^.:;]{0,60}\b(?:pre-existing|unrelated)\b[^.:;]{0,80}[.!]?\Z)",
    re.IGNORECASE,
)
_NOW: Final = re.compile(r"\b(?:is|are) now\b|\A\w+ed\b|; \w+ed\b", re.IGNORECASE)
_SIGNS: Final = re.compile(r"[✅✔✓☑⚠❌✖☐🔴🟡🟢️]+\s*")
#: Messages among which one that reports a result is preferred to a later one, and the least length of such a result.
_NEAR_THE_END: Final = 4
_SHORT_RESULT: Final = 40
#: A closing message of this length is taken as it is.
_CLOSING: Final = 80
#: A piece of a list with fewer words, at the end, is a heading of something that is left out.
_LOOSE_END: Final = 4
#: What a review is called in its own title.
_REVIEW: Final = re.compile(
    r"\b(?:line-by-line|full|complete)? ?\b(?:code |pr |pull request )?review(?: summary)?\b|\b(?:pr|pull request) ?#?\d+\b|#\d+",
    re.IGNORECASE,
)
#: A question with fewer words needs the sentence before it.
_CLEAR_QUESTION: Final = 10
_COURTESY: Final = re.compile(
    r"\b(?:anything else|what (?:would|do) you (?:like|want)|how can i help|want to dig|any (?:other )?questions"
    r"|let me know|make sense|right\?|ready\?)",
    re.IGNORECASE,
)
#: Somebody speaks of themselves. Such a sentence of a conversation tells more.
_SELF: Final = re.compile(r"\b(?:i|i'm|i've|i'll|i'd|my|we|we're|we've|our)\b", re.IGNORECASE)
_OWN: Final = 1.4
_LEAST_TOLD: Final = 2
_REACTS: Final = re.compile(
    r"\A(?:wow|woah|whoa|hey|hi|hello|thanks?|yeah|yay|aw+|congrats|congratulations|that's|that is|sounds|glad|cool|nice|great"
    r"|awesome|amazing|good|oh|bye|see you|take care)\b[^.?]{0,45}\Z",
    re.IGNORECASE,
)
#: The heading of what is left to do, and sentences that say so.
_LEFT_HEADING: Final = re.compile(
    r"^\W{0,6}(?:next steps?|remaining(?: work| tasks| items)?|left to do|still (?:to do|open)|open (?:points|questions|items)"
    r"|to ?do|follow-?ups?|not (?:yet )?done)\W{0,6}$",
    re.IGNORECASE,
)
_LEFT: Final = re.compile(
    r"\b(?:still (?:needs?|has|have) to\b|(?:remains?|left) to be (?:done|fixed|written|tested)\b|not yet (?:implemented|done"
    r"|tested|fixed|written|wired|supported)\b|left to do\b|needs? a follow-?up\b)",
    re.IGNORECASE,
)
_ITEM: Final = re.compile(r"\A\s*+(?:[-*+•]|\d{1,2}[.)])\s+(?:\[ \]\s+)?(\S[^\n]{3,400})\Z")
_UNTICKED: Final = re.compile(r"\A\s*+[-*+]\s+\[ \]\s+(\S[^\n]{3,400})\Z")


class _Step(NamedTuple):
    """An ask, and the agent's messages until the next one."""

    ask: str
    messages: list[Turn]
    #: Whether the user interrupted the agent, and said nothing after that.
    interrupted: bool


def story(turns: Sequence[Turn], passages: Sequence[Passage], known: Sequence[Passage], longest: int) -> GistText:
    """The parts of a session's gist, together with its gist so far."""
    before = _so_far(known)
    if _is_work(turns):
        steps = _steps(turns)
        new = GistText(
            _title(steps, turns),
            _outcome(steps),
            tuple(_open(turns, steps)),
            "\n".join(_work_lines(steps, bool(before.story))),
        )
    else:
        new = _conversation(turns, passages, longest)
    if not new.story and not before.story:
        new = new._replace(story=_nothing(turns))
    lines = _joined(before.story.splitlines(), new.story.splitlines(), longest)
    return GistText(
        wording.shorten(before.title or new.title, LONGEST_TITLE),
        wording.shorten(new.outcome or before.outcome, LONGEST_OUTCOME),
        tuple(_still_open(before, new, turns))[:MOST_OPEN],
        "\n".join(lines),
    )


def _so_far(known: Sequence[Passage]) -> GistText:
    """The gist so far. The lines of one of an earlier release become sentences."""
    text = next((passage.text for passage in known if passage.label.startswith(SO_FAR)), "")
    found = gist_text.parse(text)
    lines: list[str] = []
    for line in found.story.splitlines():
        old = _OLD_LINE.match(line)
        if old:
            lines.append(_quoted(f"{_USER if old[1] == 'user' else _AGENT} said: ", old[2]))
        elif line.strip() and not line.startswith(gists.ALSO):
            lines.append(line.strip())
    return found._replace(story="\n".join(lines))


def _is_work(turns: Sequence[Turn]) -> bool:
    """Whether an agent works here: commands, code, files, or announced steps. Otherwise it is a conversation."""
    if talk.is_of_two_people(turns):
        return False
    return any(
        turn.ask.startswith("/")
        or "`" in turn.text
        or (turn.role == "assistant" and announces(turn.text))
        or files.named(turn.text[:2_000])
        for turn in turns
    )


def _steps(turns: Sequence[Turn]) -> list[_Step]:
    """The session ask by ask. An ask that only answers the agent ("yes") belongs to the one before."""
    steps: list[_Step] = []
    for turn in turns:
        if turn.role == "assistant":
            if not steps:
                steps.append(_Step("", [], False))
            steps[-1].messages.append(turn)
            steps[-1] = steps[-1]._replace(interrupted=False)
        elif turn.interrupts and steps:
            steps[-1] = steps[-1]._replace(interrupted=True)
        elif turn.ask and (not steps or not _CONFIRMS.match(turn.ask)):
            if steps and not steps[-1].messages and turn.ask.startswith(steps[-1].ask):
                # The command was given again, with its arguments.
                steps.pop()
            steps.append(_Step(_bare(turn.ask), [], False))
        elif turn.ask:
            steps[-1] = steps[-1]._replace(interrupted=False)
    return steps


def _bare(ask: str) -> str:
    """An ask without filler words before it, and with long paths cut to their last part."""
    lead = _LEAD.match(ask)
    ask = ask[lead.end() :] or ask if lead else ask
    return " ".join(_short_path(word) for word in ask.split(" "))


def _short_path(word: str) -> str:
    if len(word) <= 40 or word.count("/") < 3 or "://" in word:
        return word
    return f"…/{word.rstrip('/').rpartition('/')[2]}"


def _result_of(messages: Sequence[Turn]) -> str:
    """What the messages say came of it; empty if they only announce the next step or ask.

    A message with words of somebody who reports a result is preferred to a later one without.
    """
    found: list[str] = []
    for turn in reversed(messages):
        text = _stated(turn.text)
        # The closing message is the report, unless it is short. So is one with a title or a summary.
        closes = turn is messages[-1] and len(text) >= _CLOSING
        if text and (closes or outcomes.is_report(turn.text)):
            return text
        if text and outcomes.says_result(text) and (not found or len(text) >= _SHORT_RESULT):
            return text
        found += [text] if text else []
        if len(found) == _NEAR_THE_END:
            break
    return found[0] if found else ""


def _stated(message: str) -> str:
    """What a message states, without its title, remarks on how well it goes, and signs before list items."""
    if message.startswith(outcomes.FAILURE):
        return ""
    text = outcomes.shortened_outcome(message)
    title = outcomes.TITLE.search(message[: outcomes.READ])
    if title and text.startswith(title[1]) and len(text) > len(title[1]) + _SHORT_RESULT:
        text = text.removeprefix(title[1]).lstrip(" ;:.")
    text = _SIGNS.sub("", text).replace("\\`", "").replace("`", "").replace("**", "")
    said = [each for each in wording.sentences(text) if not _EMPTY.match(each)]
    # An identifier in lower case may begin the next sentence.
    first, *rest = parts(said[0]) if said else [""]
    said[:1] = rest if rest and _EMPTY.match(first) else said[:1]
    stated = " ".join(said).rstrip(" :;,")
    before, semicolon, end = stated.rpartition("; ")
    if semicolon and len(end.split()) < _LOOSE_END and not end.endswith("."):
        stated = before
    ended = stated if stated.endswith((".", "!", "?", "…", "。", "！", "？")) else f"{stated}."
    return ended if wording.says_something(stated) else ""


def _work_lines(steps: Sequence[_Step], continued: bool) -> list[str]:
    told = [step for step in steps if step.ask]
    lines: list[str] = []
    for step in _main(told):
        if step.ask.startswith(wording.PASTED):
            line = _quoted(f"{_USER} pasted output: ", wording.shorten(step.ask.removeprefix(wording.PASTED), _PASTED))
        else:
            line = _quoted(_THEN if lines or continued else _ASKED, wording.shorten(step.ask, _ASK))
        result = _result_of(step.messages)
        if result:
            line += f" {_quoted(f'{_AGENT}: ', wording.shorten(result, _RESULT))}"
        lines.append(line)
    if not told and (result := _result_of([turn for step in steps for turn in step.messages])):
        lines.append(_quoted(f"{_AGENT}: ", wording.shorten(result, _RESULT)))
    touched = files.touched(turn.text for step in steps for turn in step.messages)
    return [*lines, *([f"{FILES}{', '.join(touched)}."] if touched else [])]


def _main(steps: Sequence[_Step]) -> list[_Step]:
    """The first and the last ask, and the longest of the others."""
    inner = sorted(range(1, len(steps) - 1), key=lambda place: (-len(steps[place].ask), place))[: _MOST_ASKS - 2]
    return [step for place, step in enumerate(steps) if place in (0, len(steps) - 1) or place in inner]


def _quoted(lead: str, text: str) -> str:
    text = text.strip().rstrip(",;:").replace("“", "‘").replace("”", "’")
    return (
        f"{lead}“{text}”"
        if text.startswith("/") or text.endswith((".", "!", "?", "…", "。", "！", "？"))
        else f"{lead}“{text}.”"
    )


def _title(steps: Sequence[_Step], turns: Sequence[Turn]) -> str:
    """A heading from the first ask that says what the session is about."""
    asks = [step.ask for step in steps if step.ask and not step.ask.startswith(wording.PASTED)]
    telling = [
        ask for ask in asks if not ask.startswith("/") and not _NUMBERS.match(ask) and wording.is_substantial(ask)
    ]
    if asks and asks[0].startswith("/"):
        subject = _subject(turns)
        if subject:
            return wording.shorten(f"{asks[0]}: {subject}", LONGEST_TITLE)
        clear = next((ask for ask in telling if wishes.stands_alone(_heading_of(ask).rstrip("…"))), "")
        telling = [f"{asks[0]}: {_heading_of(clear)}"] if clear else []
    if telling or (asks and asks[0].startswith("/")):
        return _heading_of(telling[0] if telling else asks[0])
    results = [result for step in steps if (result := _result_of(step.messages))]
    return _heading_of(next(iter([*results, *asks]), ""))


def _heading_of(text: str) -> str:
    """The first sentence of a text, as a heading. One that names little takes the next with it."""
    first, *rest = list(wording.sentences(text)) or [""]
    if rest and len(_PLAIN_WORD.findall(first)) < _HEADING_WORDS:
        first = f"{first} {rest[0]}"
    head = wording.shorten(first, _TITLE).rstrip(".:;, ")
    word = head.partition(" ")[0]
    return head[:1].upper() + head[1:] if word.isalpha() and word.islower() else head


def _subject(turns: Sequence[Turn]) -> str:
    """What a command is about: the title of the pull request in its text, or of the report that the agent wrote."""
    for turn in turns:
        found = _GH_TITLE.search(turn.text[:2_000]) if turn.foreign else None
        if found:
            return found[1].strip()
    for turn in turns:
        found = _HEADING.search(turn.text) if turn.role == "assistant" else None
        subject = _REVIEW.sub("", wording.plain(found[1])).strip("#*:()-–— .") if found else ""
        if len(_PLAIN_WORD.findall(subject)) > 1 and "/" not in subject:
            return subject
    return ""


def _outcome(steps: Sequence[_Step]) -> str:
    """What came of the session: the latest result that reports a change, or else the latest one."""
    results = [result for step in reversed(steps) if (result := _result_of(step.messages))][:_NEAR_THE_END]
    changed = [
        each for each in results if len(each) >= _SHORT_RESULT and (outcomes.says_result(each) or _NOW.search(each))
    ]
    return wording.shorten(next(iter([*changed, *results]), ""), LONGEST_OUTCOME)


def _open(turns: Sequence[Turn], steps: Sequence[_Step]) -> list[str]:
    """What the session leaves open: a question of the agent, an ask without an answer, what the agent says is left."""
    if not steps:
        return []
    found: list[str] = []
    last = steps[-1]
    spoken = next(
        (turn for turn in reversed(turns) if turn.role == "assistant" or (turn.ask and not turn.foreign)), None
    )
    if spoken and spoken.role == "assistant":
        asked = _closing_question(spoken.text)
        if asked and not _COURTESY.search(asked):
            found.append(_quoted(f"{_AGENT} asked: ", asked))
    elif spoken and wording.is_substantial(spoken.ask):
        found.append(_quoted("Not answered: ", wording.shorten(_bare(spoken.ask), LONGEST_OPEN - 40)))
    if last.interrupted and not found and last.ask and not _result_of(last.messages[-1:]):
        found.append(_quoted("Interrupted: ", wording.shorten(last.ask, LONGEST_OPEN - 40)))
    return [*found, *(_left_to_do(last.messages[-1].text) if last.messages else [])][:MOST_OPEN]


def _closing_question(message: str) -> str:
    """The question that a message ends with, and the sentence before it if the question needs one."""
    asked = wording.question(message, LONGEST_OPEN - 40)
    if not asked or (wishes.stands_alone(asked) and len(asked.split()) >= _CLEAR_QUESTION):
        return asked
    said = list(wording.sentences(wording.plain(message)))
    before = said[-2] if len(said) > 1 else ""
    whole = f"{before} {asked}"
    return whole if before and not before.endswith(":") and len(whole) <= LONGEST_OPEN - 40 else asked


def _left_to_do(message: str) -> list[str]:
    """What a closing message says is left."""
    found: list[str] = []
    below = False
    for line in message[: talk.READ].splitlines():
        if _LEFT_HEADING.match(line):
            below = True
            continue
        item = (_ITEM if below else _UNTICKED).match(line)
        if item:
            found.append(item[1])
        elif line.strip():
            below = False
            found += [each for each in wording.sentences(wording.plain(line)) if _LEFT.search(each)]
    plain = [wording.shorten(wording.plain(each), LONGEST_OPEN) for each in found]
    return [each for each in dict.fromkeys(plain) if each and not markers.is_done(each)][:3]


def _still_open(before: GistText, new: GistText, turns: Sequence[Turn]) -> Iterable[str]:
    """What is open now. A question or an ask of before has its answer when the session went on."""
    analyser = Analyser()
    done = [
        {word.term for word in analyser.words(sentence)}
        for turn in turns
        if not turn.foreign
        for sentence in wording.sentences(wording.plain(turn.text[:4_000]))
        if markers.is_done(sentence)
    ]
    answered = (f"{_AGENT} asked: ", "Not answered: ", "Interrupted: ")
    for point in before.open:
        terms = {word.term for word in analyser.words(point)}
        finished = any(2 * len(terms & each) >= len(terms) for each in done if terms)
        if not finished and not (turns and point.startswith(answered)) and point not in new.open:
            yield point
    yield from new.open


def _nothing(turns: Sequence[Turn]) -> str:
    """What to say of a session in which nothing was asked and nothing came of it."""
    commands = [f"/{name}" for turn in turns if (name := wording.command(turn.text)[0])]
    if commands:
        return f"{ONLY_COMMANDS} {', '.join(dict.fromkeys(commands[:5]))}."
    said = next((turn.text for turn in turns if turn.text.strip() and not turn.foreign), "")
    return _quoted(f"{_USER} said: ", wording.shorten(said, _ASK)) if said else ""


def _conversation(turns: Sequence[Turn], passages: Sequence[Passage], longest: int) -> GistText:
    """A conversation in its most informative sentences."""
    analyser = Analyser()
    names = {turn.source: turn.speaker or (_USER if turn.role == "user" else _AGENT) for turn in turns}
    spoken = [
        Passage(turn.source, "", turn.text, turn.role, turn.at) for turn in turns if not turn.foreign or turn.speaker
    ] or ([] if turns else [passage for passage in passages if passage.text.strip()])
    found = gists.read(spoken, analyser)
    found = found._replace(lines=[line for line in found.lines if _tells(line)] or found.lines)
    worth = gists.weights(found)
    room = max(gists.LEAST, min(_MOST_SAID, -(-len(found.lines) // _PER_SAID)))
    chosen = gists.choose(found.lines, worth, room, longest // 4, lambda line: _OWN if _SELF.search(line.text) else 1.0)
    lines = [
        _quoted(f"{names.get(line.source) or 'A ' + (line.role or 'text')}: ", line.text)
        for line in (found.lines[position] for position in sorted(chosen))
    ]
    head = _head([found.lines[position] for position in sorted(chosen)])
    title = ""
    if head:
        speaker = names.get(head.source, "")
        title = (f"{speaker}: " if speaker not in ("", _USER, _AGENT) else "") + _heading_of(head.text)
    return GistText(title, "", tuple(_asked_last(turns, names)), "\n".join(lines))


def _tells(line: gists.Line) -> bool:
    """Whether a sentence is more than a greeting or a reaction."""
    return sum(word.telling for word in line.words) >= _LEAST_TOLD and not _REACTS.match(line.text)


def _head(lines: Sequence[gists.Line]) -> gists.Line | None:
    """The sentence that is the title: the first that somebody says of themselves and that can be understood alone."""
    stated = [line for line in lines if not line.text.endswith(("?", "？"))] or list(lines)
    own = [line for line in stated if _SELF.search(line.text) and wishes.stands_alone(line.text)]
    return next(iter([*own, *stated]), None)


def _asked_last(turns: Sequence[Turn], names: dict[str, str]) -> list[str]:
    """The question that a conversation ends with."""
    asked = wording.question(turns[-1].text, LONGEST_OPEN - 60) if turns else ""
    if not asked or _COURTESY.search(asked) or len(asked.split()) < 4:
        return []
    return [_quoted(f"{names[turns[-1].source]} asked: ", asked)]


def _joined(old: list[str], new: list[str], longest: int) -> list[str]:
    """The lines of both, and one line of files. Lines from the middle are left out until the text fits."""
    named = [line for line in [*old, *new] if line.startswith(FILES)]
    lines = list(dict.fromkeys(line for line in [*old, *new] if not line.startswith(FILES)))
    touched = list(dict.fromkeys(name for line in named for name in line.removeprefix(FILES).rstrip(".").split(", ")))
    last = [f"{FILES}{', '.join(touched[: files.MOST])}."] if touched else []
    while len(lines) > 1 and len("\n".join([*lines, *last])) > longest:
        del lines[len(lines) // 3 or 1]
    if lines and len(lines) == 1 and len(lines[0]) > longest:
        lines = [wording.shorten(lines[0], longest)]
    return [*lines, *last]
