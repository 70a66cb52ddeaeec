"""Relations between English words: which mean the same, which exclude each other, which carry little meaning.

Plain lists of common knowledge, compared by their stems, with semicolons between groups. They are short on purpose: a
missing word means a duplicate that is not found, which is harmless; a wrong word could lose a memory.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from ...language import STOP_WORDS
from ...memory import analyser

#: Replacements of phrases, made before a text is read. Longer phrases are tried first.
_PHRASES: Final = {
    "atmost": "no more than; not more than; at most; up to; a maximum of",
    "atleast": "no less than; not less than; no fewer than; at least; a minimum of",
    "morethan": "more than; greater than",
    "lessthan": "less than; fewer than",
    "only": "nothing but; nothing except",
    "": "not only; any longer; any more; anymore; kind of; sort of",
    "not": (
        "no longer; not any more; not anymore; under no circumstances; by no means; gave up; gives up; "
        "fails to; failed to; fail to; refuses to; refused to; refuse to"
    ),
    "instead": "rather than; instead of; in place of; as opposed to",
    "not use": "stopped using; stop using; quit using",
    "intends": "wants to; want to; plans to; plan to; planning to; hopes to; thinking about",
    "not can": "unable to",
    "can": "able to",
    "must": "has to; have to; had to; needs to; need to",
    "30 minutes": "half an hour",
    "not like": "can not stand",
    "expires": "runs out",
    "will": "going to",
    "pr": "pull request; merge request",
    "prs": "pull requests; merge requests",
    "happen": "take place",
    "happens": "takes place",
    "happened": "took place",
    "responsible": "in charge of; responsible for",
    "enabled": "turned on; switched on",
    "disabled": "turned off; switched off",
    "because": "due to; because of",
    "weekly": "each week; every week; once a week; on a weekly basis",
    "daily": "each day; every day; once a day; on a daily basis",
    "nightly": "each night; every night; once a night; on a nightly basis",
    "ui": "user interface",
    "frontend": "front end",
    "email": "e mail",
    "login": "log in; sign in; logs in",
    "running on": "hosted on",
    "now": "from now on",
    "name is": "is called; is named; goes by",
}
PHRASES: Final = {phrase: meant for meant, phrases in _PHRASES.items() for phrase in phrases.split("; ")}

#: Groups of words that mean the same, or nearly, and whose vectors do not say so; abbreviations.
_SAME: Final = """
start begin commence launch; live reside dwell; buy purchase; make create produce generate; run execute operate
remove delete erase drop; update refresh; prefer favour favor preference favourite favorite like enjoy love fond
licence license; need require necessary mandatory must; allow permit allowed; store keep save persist retain
big large huge; kid child; own responsible maintain owner maintainer; lead head; speak talk; answer reply respond
allergic allergy; marry wed; price cost; every each all; handle process; mother mom mum; father dad; bike bicycle
postgres postgresql pg; kubernetes k8s; javascript js; typescript ts; database db; repository repo
configuration config; production prod; development dev; environment env; authentication auth
documentation docs doc; application app; administrator admin; directory folder dir; maximum max; minimum min
"""

#: Groups of opposites. Statements with two different words of a group do not say the same.
_APART: Final = """
enable disable; on off; up down; in out; inside outside; into from; open close closed; start end stop; add remove
create remove; increase decrease; grow shrink; more less fewer; most least; high low; higher lower; big small
long short; longer shorter; short detailed verbose; wide narrow; thick thin; deep shallow; fast slow; faster slower
early late; earlier later; before after during; above below; over under; left right; top bottom middle; first last
next previous; old new; older newer latest; oldest latest; morning afternoon evening night; light dark
black white red green blue yellow orange purple pink brown grey gray; tab space; like hate; can must; can should
allow forbid; allow deny; allow block; accept reject decline; approve reject; grant revoke; public private
internal external; local remote; manual automatic; sync async; synchronous asynchronous; static dynamic; read write
upload download; push pull; import export; encode decode; encrypt decrypt; lock unlock; mute unmute
install uninstall; upgrade downgrade; expand collapse; show hide; include exclude; require optional; pass fail
success failure; win lose; buy sell; borrow lend; arrive leave; join leave; come go; single double multiple
single married divorced; horizontal vertical; row column; ascending descending; uppercase lowercase
camelcase snakecase; minimum maximum; frontend backend; client server; production staging development test
primary secondary replica; master slave; debug release; true false; yes no; hot cold warm cool; hard easy
expensive cheap; clean dirty; full empty; safe dangerous; strong weak; happy sad; right wrong; rich poor; loud quiet
wet dry; sweet sour salty bitter spicy; tea coffee; cat dog; wine beer; meat fish; vegetarian vegan; window aisle
bus train car bike plane; summer winter spring autumn; north south east west; mother father; sister brother
son daughter; wife husband; uncle aunt; boy girl; man woman; male female; daily weekly monthly hourly yearly nightly
second minute hour day week month year; json yaml toml xml csv; http https; tcp udp; rest graphql grpc
rebase merge squash; mysql postgres sqlite mongodb oracle; linux windows macos; aws gcp azure; docker podman
npm yarn pnpm; vim emacs nano; python java rust go ruby javascript typescript; merge revert; commit revert
grow fall; rise fall; always sometimes rarely; often rarely; every some most few; many few; both neither
mandatory optional; online offline; indoor outdoor; front back; forward backward; frequent rare; keep remove
save discard; sender receiver; input output; request response; source target; parent child; ally enemy
atleast atmost morethan lessthan exactly; weekday weekend; bold italic; british american; metric imperial
paper digital; printed electronic; tall short; heavy light; employee contractor; junior senior; in-person remote
office home; call email chat; inner outer; stable unstable beta; encourage discourage; agree disagree
trust distrust; succeed fail; gain lose; advance delay; hire fire; attach detach; mount unmount
"""

#: Words with little meaning of their own.
_LIGHT: Final = """
use make do get go have take give put set let keep happen there thing way time people someone something occur
really very quite just actually basically simply please also still already now currently always
remember note mention say tell fact rule policy habit remind be become remain stay exist consist
user person team everyone everybody all every each whole any ensure must should can will need require
setup configure default value option setting particular given certain kind sort type name
place located found part around about responsible
usually normally generally typically whenever schedule mean seem appear look come well back done good
choice prefer important like perform conduct
"""


def _inverted(lists: dict[str, str]) -> dict[str, str]:
    """The key of the list that each word is in."""
    return {word: meant for meant, words in lists.items() for word in words.split()}


#: Words that weaken a statement. Two statements that say the same have the same ones.
QUALIFIERS: Final = _inverted(
    {
        "maybe": "might may maybe perhaps possibly probably likely presumably supposedly",
        "sometimes": "sometimes occasionally",
        "rarely": "rarely seldom hardly barely scarcely",
        "about": "almost nearly roughly approximately about around",
        "formerly": "formerly previously originally once",
        "some": "some few most",
        "only": "only solely exclusively",
        "except": "except unless excluding",
        "intends": "considering considered proposed proposes suggested suggests intends",
    }
)
#: The same for amounts.
LIMITS: Final = frozenset({"atleast", "atmost", "morethan", "lessthan"})
#: These qualify only a number.
OF_NUMBERS: Final = frozenset({"about", "around", "once"})

NEGATIONS: Final = frozenset(
    ["not", "no", "never", "none", "nobody", "nothing", "nowhere", "neither", "without", "cannot", "nor", "against"]
)
#: Words that negate a simpler word.
NEGATED: Final = _inverted(
    {
        "use": "avoid avoids avoided avoiding",
        "like": "dislike dislikes disliked hate hates hated loathes detests",
        "allow": "forbid forbids forbidden prohibited prohibits banned bans disallowed disallows",
        "have": "lack lacks lacked lacking",
        "want": "refuses refused",
        "agree": "disagrees disagree disagreed",
        "person": "nobody",
        "": "stopped stops quit",
    }
)
PREFIXES: Final = ("un", "non", "dis", "in", "im", "ir", "mis")

#: Words with two sides: exchanging what is before and after changes the meaning.
TURNS: Final = frozenset(
    (
        *("over", "than", "before", "after", "instead", "from", "to", "into", "by", "for", "of", "if"),
        *("without", "not", "no", "never", "except"),
    )
)

#: Limits in time or place. Two statements that say the same have the same ones.
BOUNDS: Final = {
    **{word: word for word in ("before", "after", "since", "during", "between", "above", "below", "under", "within")},
    "until": "until",
    "till": "until",
}

PERSONS: Final = _inverted(
    {
        "i": "i me my mine myself",
        "we": "we our ours us ourselves",
        "you": "you your yours yourself",
        "he": "he him his himself",
        "she": "she her hers herself",
        "they": "they them their theirs",
    }
)

NUMBERS: Final = {
    name: value
    for value, name in enumerate(
        [
            "zero",
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
        ]
    )
} | {
    name: 10 * value
    for value, name in enumerate(
        ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], start=2
    )
}
SCALES: Final = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
ORDINALS: Final = {
    name: value
    for value, name in enumerate(
        [
            "first",
            "second",
            "third",
            "fourth",
            "fifth",
            "sixth",
            "seventh",
            "eighth",
            "ninth",
            "tenth",
            "eleventh",
            "twelfth",
        ],
        start=1,
    )
}
MONTHS: Final = {
    name: number
    for number, names in enumerate(
        [
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ],
        start=1,
    )
    for name in names.split()
}
WEEKDAYS: Final = {
    name: names.split()[0]
    for names in [
        "monday mondays mon",
        "tuesday tuesdays tue tues",
        "wednesday wednesdays wed",
        "thursday thursdays thu thur thurs",
        "friday fridays fri",
        "saturday saturdays sat",
        "sunday sundays sun",
    ]
    for name in names.split()
}
#: Units and their size in the base unit: seconds, bytes, or the unit itself.
UNITS: Final = {
    name: (base, factor)
    for base, factor, names in (
        ("second", 0.001, "ms msec millisecond milliseconds"),
        ("second", 1, "s sec secs second seconds"),
        ("second", 60, "min mins minute minutes"),
        ("second", 3_600, "h hr hrs hour hours"),
        ("second", 86_400, "day days"),
        ("second", 604_800, "week weeks"),
        ("month", 1, "month months"),
        ("month", 12, "year years"),
        ("byte", 1, "b byte bytes"),
        ("byte", 1_000, "kb kilobyte kilobytes"),
        ("byte", 1_000_000, "mb megabyte megabytes"),
        ("byte", 1_000_000_000, "gb gigabyte gigabytes"),
        ("byte", 1_000_000_000_000, "tb terabyte terabytes"),
        ("byte", 1_024, "kib"),
        ("byte", 1_048_576, "mib"),
        ("byte", 1_073_741_824, "gib"),
        ("percent", 1, "% percent pct"),
        ("dollar", 1, "$ usd dollar dollars"),
        ("euro", 1, "€ eur euro euros"),
        ("pound", 1, "£ gbp"),
        ("metre", 1, "metre metres meter meters"),
        ("metre", 1_000, "km kilometre kilometres kilometer kilometers"),
        ("gram", 1, "gram grams"),
        ("gram", 1_000, "kg kilo kilos kilogram kilograms"),
        ("pixel", 1, "px pixel pixels"),
    )
    for name in names.split()
}  # fmt: skip


def _groups(lists: str) -> list[list[str]]:
    return [group.split() for line in lists.strip().splitlines() for group in line.split(";")]


def stem(word: str) -> str:
    """The stem of a word. A word without a meaning of its own is returned unchanged."""
    found = analyser.terms(word)
    return found[-1] if found else word


@cache
def _heads() -> dict[str, str]:
    """The first word of the group that each word is in. Of two groups, the first counts."""
    heads: dict[str, str] = {}
    for group in _groups(_SAME):
        for word in group:
            heads.setdefault(stem(word), stem(group[0]))
    return heads


def canonical(word: str) -> str:
    """The word that represents all words of the same meaning."""
    plain = stem(word)
    return _heads().get(plain, plain)


@cache
def opposites() -> dict[str, frozenset[str]]:
    """The opposites of each word."""
    found: dict[str, set[str]] = {}
    for group in _groups(_APART):
        heads = [canonical(word) for word in group]
        for word in heads:
            found.setdefault(word, set()).update(other for other in heads if other != word)
    return {word: frozenset(others) for word, others in found.items()}


@cache
def light() -> frozenset[str]:
    return frozenset(canonical(word) for word in _LIGHT.split())


@cache
def common() -> frozenset[str]:
    """Words that are not names, even with a capital at the beginning of a sentence."""
    listed = {word for lists in (_SAME, _APART) for group in _groups(lists) for word in group}
    plain = listed | set(_LIGHT.split()) | STOP_WORDS | NEGATIONS | set(QUALIFIERS) | set(NEGATED)
    return frozenset(plain | {stem(word) for word in plain})


def positive(word: str, there: frozenset[str]) -> str | None:
    """The word without its negative prefix, if the other statement has it that way."""
    for prefix in PREFIXES:
        rest = word.removeprefix(prefix)
        if rest != word and len(rest) > 2 and canonical(rest) in there:
            return canonical(rest)
    return None
