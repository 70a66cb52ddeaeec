"""Turns what was said into a line or two for a reader in a hurry.

People type half sentences, paste logs and run commands of their harness; agents answer in Markdown. The functions here
find what was asked, remove decoration and code, and cut at the end of a sentence. They use no regular expression: the
start hook would pay for compiling it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .emphasis import without_emphasis
from .harness_commands import CONTROLS, without_plan_lead
from .safe_text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: How a harness's own notices begin.
_NOTICES = (
    "<local-command-",
    "<system-reminder",
    "<task-notification",
    "<bash-",
    "<user-prompt-submit-hook",
    "Caveat: ",
    "This session is being continued from a previous conversation",
    "The user just ran /",
)
_INTERRUPTED = "[Request interrupted"
#: Beginnings of lines and sentences that only lead over to what was done.
_LEADS = (
    *("here's", "here is", "here are", "summary", "in summary", "changes made", "changes:", "what changed"),
    *("key changes", "the changes are complete", "everything is done", "looking at", "now i have", "i now have"),
    *("done.", "done!", "all done", "perfect", "great", "excellent", "got it", "you're right", "good point"),
    *("you're absolutely right",),
)
#: A longer line that begins so says more than that.
_LEAD = 70
#: Beginnings of sentences that announce the next step.
_ANNOUNCES = (
    "let me ",
    "now let me ",
    "i'll ",
    "i will ",
    "now i'll ",
    "i'm going to ",
    "next, ",
    "let's ",
    "now add ",
)
#: Says that an ask is nothing but output.
PASTED = "(pasted output) "
#: An ask with fewer words or characters only answers the agent: "yes", "1", "do it".
_FEW_WORDS, _FEW_CHARACTERS = 4, 18
#: A result with fewer words has to name something.
_RESULT_WORDS = 3
#: A longer turn after a command is the text that the command stands for.
_EXPANSION = 300
#: A turn with more lines has probably pasted text.
_MANY_LINES = 4


def asks(turns: Iterable[str]) -> Iterator[str]:
    """What each of a user's turns asks, on one line. Turns that ask nothing are left out."""
    return (asked for _, asked in numbered_asks(turns))


def numbered_asks(turns: Iterable[str]) -> Iterator[tuple[int, str]]:
    """What each of a user's turns asks, with the turn's position."""
    after_command = False
    for position, turn in enumerate(turns):
        name, arguments = command(turn)
        if name:
            after_command = name not in CONTROLS
            if after_command:
                yield position, one_line(f"/{name} {arguments}", 200).strip()
            continue
        # What a command stands for begins with a heading.
        expands = len(turn) > _EXPANSION and (after_command or turn.lstrip().startswith("## "))
        notice = is_notice(turn)
        # A notice may come between a command and its text.
        after_command = after_command and notice
        if not expands and not notice and (asked := _prose(turn)):
            yield position, asked


def is_notice(turn: str) -> bool:
    """Whether a turn of the user was written by the harness."""
    return turn.lstrip().startswith((_INTERRUPTED, *_NOTICES))


def is_interruption(turn: str) -> bool:
    return turn.lstrip().startswith(_INTERRUPTED)


def is_substantial(ask: str) -> bool:
    """Whether an ask says what to do, and is not only an answer to the agent."""
    if ask.startswith(PASTED):
        return False
    return ask.startswith("/") or (len(ask) >= _FEW_CHARACTERS and len(ask.split()) >= _FEW_WORDS)


def result(text: str, longest: int) -> str:
    """What an agent's closing message says was done; empty if it only announces the next step."""
    told = map(_without_lead, sentences(plain(text)))
    said = [sentence for sentence in told if sentence and not sentence.lower().startswith(_ANNOUNCES)]
    while said and said[-1].endswith((":", "?", "？")):
        said.pop()
    return shorten(" ".join(said), longest)


def says_something(text: str, least: int = _RESULT_WORDS) -> bool:
    """Whether a result says what came of it: in three words, or by naming something. "ok" and "Done." do not."""
    words = [word for word in (each.strip(".,:;!?()[]\"'`*…") for each in text.split()) if word.strip("-–—")]
    return len(words) >= least or any(map(_is_name, words))


#: Question marks, and how many signs at the end of a sentence are looked at for one.
_QUESTION_MARKS = "?？؟"
_SIGNS = 12


def question(text: str, longest: int) -> str:
    """The question that a message ends with; empty if it ends with none."""
    said = [each for each in sentences(plain(text)) if any(map(str.isalnum, each))]
    asked = said[-1] if said else ""
    # Behind the question mark may be quotation marks or a smile.
    end = next((sign for sign in reversed(asked[-_SIGNS:]) if sign.isalnum() or sign in _QUESTION_MARKS), "")
    # An address may end with a question mark, too.
    is_asked = end in _QUESTION_MARKS and "://" not in asked.split()[-1] if end else False
    return shorten(asked, longest) if is_asked else ""


def plain(text: str, *, headings: bool = False) -> str:
    """Markdown as running text on one line: without code, tables, rules and decoration."""
    kept: list[str] = []
    # Whether the last line is a list item, and whether this one is code.
    listed = fenced = False
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith(("```", "~~~")):
            fenced = not fenced
            _end_introduction(kept, listed)
        elif bare.startswith("|"):
            _end_introduction(kept, listed)
        elif not bare:
            kept[-1:] = [_closed(each) for each in kept[-1:]]
        elif fenced or not bare.strip("-=*_~# "):
            continue
        elif bare.lstrip("#")[:1] == " " and bare[0] == "#":
            # A heading of one word says nothing: Summary, Context, Overview.
            if headings and len(bare.split()) > 2:
                kept.append(_closed(bare.lstrip("#").lstrip()))
        elif (item := _item(bare)) != bare:
            kept.append(_closed(item, ";"))
            listed = True
        elif headings or not (bare.rstrip("*_").endswith(":") and _leads(_undecorated(bare))):
            kept.append(bare)
            listed = False
    return one_line(_undecorated(" ".join(kept)), 100_000).rstrip(";")


def shorten(text: str, longest: int) -> str:
    """The first sentences of a text, or the first words if its first sentence is too long."""
    line = one_line(text, 100_000)
    if len(line) <= longest:
        return line
    room = line[:longest]
    end = _sentence_end(room)
    if end >= longest // 3:
        cut = room[: end + 1].rstrip(";")
        return cut if cut.endswith((".", "!", "?", "。", "！", "？")) else f"{cut}."
    space = room.rfind(" ", longest // 2)
    return f"{(room[:space] if space > 0 else room).rstrip(' ,;:-–—')}…"


def _sentence_end(room: str) -> int:
    """The place of the last mark that ends a sentence; -1 if there is none."""
    end = len(room)
    while (end := max(room.rfind(mark, 0, end) for mark in (". ", "! ", "? ", "; ", "。", "！", "？"))) > 0:
        if not room[: end + 1].endswith(("e.g.", "i.e.", "vs.", "etc.")):
            break
    return end


def sentences(line: str) -> Iterator[str]:
    """The sentences of one line. A mark ends one if a capital letter, a digit or a quotation mark follows."""
    start = 0
    for place, sign in enumerate(line):
        if sign in "。！？":
            yield line[start : place + 1].strip()
            start = place + 1
        elif sign == " " and place and line[place - 1] in ".!?:;" and place + 1 < len(line):
            following = line[place + 1]
            if line[place - 1] in ":;" or following.islower():
                continue
            yield line[start:place].strip()
            start = place + 1
    if rest := line[start:].strip():
        yield rest


def command(turn: str) -> tuple[str, str]:
    """The name and the arguments of a harness's command; empty if the turn is none."""
    first, _, rest = turn.strip().partition(" ")
    name = first.removeprefix("/")
    if first.startswith("/") and name.replace("-", "").replace(":", "").replace("_", "").isalnum():
        return name, rest
    if not turn.lstrip().startswith(("<command-name>", "<command-message>")):
        return "", ""
    return _tagged(turn, "command-name").lstrip("/"), _tagged(turn, "command-args")


def _tagged(text: str, tag: str) -> str:
    _, found, rest = text.partition(f"<{tag}>")
    inside, closed, _ = rest.partition(f"</{tag}>")
    return " ".join(inside.split()) if found and closed else ""


def _prose(turn: str) -> str:
    """A turn on one line. Of pasted output, only the lines that a person may have written."""
    turn = without_plan_lead(turn)
    lines = turn.splitlines()
    if len(lines) > _MANY_LINES:
        written = [line for line in lines if not _is_pasted(line)]
        if not any(len(line.split()) >= _FEW_WORDS for line in written):
            first = next((line for line in lines if line.strip()), "")
            return f"{PASTED}{one_line(first, 100)}" if first else ""
        turn = "\n".join(written)
    return plain(turn, headings=True) or one_line(turn, 400)


def _is_pasted(line: str) -> bool:
    """Whether a program probably wrote the line: a prompt, a log line, a part of a listing or of code."""
    bare = line.strip()
    if not bare:
        return False
    # Lines of programs begin with brackets, prompts, paths, bars, emoji or blanks.
    if bare[0] in "[]{}()<>|=$%~/\\" or (bare[0] > "\u2000" and not bare[0].isalpha()):
        return True
    if bare[:2] in ("--", "++") or line.startswith(("    ", "\t")):
        return True
    if bare[:4].isdigit() or bare.startswith(("ERROR", "WARN", "INFO", "DEBUG", "FATAL")):
        return True
    letters = sum(sign.isalpha() or sign == " " for sign in bare)
    return len(bare) > 20 and letters < 0.7 * len(bare)


def _is_name(word: str) -> bool:
    """Whether a word looks like the name of a file, a function, a version or a ticket, or is a text without spaces."""
    if any(sign in "._/#" or sign.isdigit() or (sign.isalpha() and sign > "\u2e7f") for sign in word):
        return True
    # CamelCase
    return not word.isupper() and any(sign.isupper() for sign in word[1:])


def _item(line: str) -> str:
    """A line of a list without its bullet or number."""
    if line[:2] in ("- ", "* ", "+ ", "• ", "> "):
        line = line[2:].lstrip()
    else:
        number, mark, rest = line.partition(" ")
        if mark and len(number) <= 4 and number[-1:] in (".", ")") and number[:-1].isdigit():
            line = rest.lstrip()
    for box in ("[ ] ", "[x] ", "[X] "):
        line = line.removeprefix(box)
    return line


def _closed(line: str, mark: str = ".") -> str:
    """A line that stands alone, with a mark at its end, so that it does not run into the next one."""
    return line if not line or line.rstrip("*_`\"')”").endswith(tuple(".!?:;,…。")) else f"{line}{mark}"


def _end_introduction(kept: list[str], listed: bool) -> None:
    """Remove a line that introduces the code or table after it, which is not shown. An item of a list stays."""
    if kept and (last := kept[-1].rstrip("*_")).endswith(":"):
        kept[-1:] = [f"{last[:-1]};"] if listed else []


def _leads(line: str) -> bool:
    return len(line) < _LEAD and line.lower().startswith(_LEADS)


def _without_lead(sentence: str) -> str:
    """`Summary of changes: Deleted a` becomes `Deleted a`."""
    if not sentence.lower().startswith(_LEADS):
        return sentence
    lead, colon, rest = sentence.partition(": ")
    if colon and len(lead) < _LEAD:
        return rest
    return "" if len(sentence) < _LEAD else sentence


def _undecorated(text: str) -> str:
    text = " ".join(without_emphasis(text).replace("`", "").split())
    # [text](address) becomes text.
    parts = text.split("](")
    if len(parts) == 1:
        return text
    shown = parts[0]
    for part in parts[1:]:
        address, closed, rest = part.partition(")")
        if not closed or " " in address or "[" not in shown:
            shown = f"{shown}]({part}"
            continue
        before, _, label = shown.rpartition("[")
        shown = f"{before}{label}{rest}"
    return shown
