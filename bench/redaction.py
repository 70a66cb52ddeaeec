"""What the search for secrets finds, and how long it takes.

    python bench/redaction.py gitleaks.toml

With a rule file of gitleaks (`config/gitleaks.toml` in its repository; it is not included here) this makes ten random
texts from each rule's own pattern, with a fixed seed, and counts the rules whose secrets are redacted. A rule that
depends on a provider's name gets a line such as `adafruit_api_key = "…"`. A count below all rules is expected: some
rules are about ids and public keys, and some matching texts do not look like real secrets.

It always measures the time for a text without a secret: prose and code, in three lengths.
"""

from __future__ import annotations

import argparse
import random
import string
import tomllib
from pathlib import Path
from re import _constants as sre  # type: ignore[attr-defined, unused-ignore]
from re import _parser as parser  # type: ignore[attr-defined, unused-ignore]
from time import perf_counter
from typing import Any

import engram
from engram.redact import redact

TRIES = 10
#: Rules that are left out, and why.
NO_SECRETS = {
    "pkcs12-file": "the name of a file",
    "kubernetes-secret-yaml": "a whole file; its values are redacted if their names mean a secret",
}
_PROSE = (
    "Deploys never happen on Fridays, as we said in the meeting about the router; see src/engram/router.py line 42 for "
    "the place. The tests were green. "
)


def made(tree: Any, noise: random.Random) -> str:
    """Make a text that a parsed pattern matches. Look-arounds are ignored."""
    text = ""
    for op, value in tree:
        if op is sre.LITERAL:
            text += chr(value)
        elif op in (sre.ANY, sre.NOT_LITERAL):
            text += noise.choice(string.ascii_letters)
        elif op is sre.IN:
            text += _one(value, noise)
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
            least, most, inner = value
            text += _repeated(least, most, inner, noise)
        elif op is sre.SUBPATTERN:
            text += made(value[-1], noise)
        elif op is sre.BRANCH:
            text += made(value[1][0], noise)
    return text


def _repeated(least: int, most: int, inner: Any, noise: random.Random) -> str:
    if (least, most) == (0, 20):
        return "_api_key"  # the text between a provider's name and the operator
    if least == 0 and most in (3, 5) and "`" in {chr(v) for op, v in _members(inner) if op is sre.LITERAL}:
        return ' "'
    return "".join(made(inner, noise) for _ in range(least))


def _members(inner: Any) -> list[tuple[Any, Any]]:
    return [member for op, value in inner if op is sre.IN for member in value]


def _one(members: Any, noise: random.Random) -> str:
    categories = {sre.CATEGORY_DIGIT: string.digits, sre.CATEGORY_SPACE: " "}
    letters = ""
    for op, value in members:
        if op is sre.NEGATE:
            return noise.choice(string.ascii_letters)
        if op is sre.LITERAL:
            letters += chr(value)
        elif op is sre.RANGE:
            letters += "".join(map(chr, range(value[0], value[1] + 1)))
        else:
            letters += categories.get(value, string.ascii_letters + string.digits)
    return noise.choice(letters)


def python_pattern(pattern: str) -> str:
    """Convert a Go pattern to Python's syntax. Flags for case are dropped; they do not matter for making a text."""
    for go, ours in (("(?i)", ""), ("(?-i:", "(?:"), ("(?i:", "(?:"), ("[[:alnum:]]", "[A-Za-z0-9]"), (r"\z", r"\Z")):
        pattern = pattern.replace(go, ours)
    return pattern


def compare(path: Path) -> None:
    rules = tomllib.loads(path.read_text())["rules"]
    noise = random.Random(20261118)
    known, missed = 0, []
    for rule in rules:
        if rule["id"] in NO_SECRETS or "regex" not in rule:
            continue
        pattern = parser.parse(python_pattern(rule["regex"]))
        texts = [made(pattern, noise) for _ in range(TRIES)]
        kept = [text for text in texts if redact(text) == text]
        known += not kept
        if kept:
            missed.append(f"  {rule['id']}: {len(kept)} of {TRIES} texts keep it, such as {kept[0][:100]!r}")
    print(f"{known} of {known + len(missed)} rules: the secret is redacted in every text")
    print("\n".join(missed))


def cost(text: str) -> float:
    """Microseconds of one search, the best of several rounds."""
    assert redact(text) == text
    times = max(5, 200_000 // len(text))
    rounds = []
    for _ in range(7):
        begun = perf_counter()
        for _ in range(times):
            redact(text)
        rounds.append((perf_counter() - begun) / times * 1e6)
    return min(rounds)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("rules", nargs="?", type=Path, help="a rule file of gitleaks")
    chosen = options.parse_args()
    code = (Path(engram.__path__[0]) / "memory" / "blocks.py").read_text()
    for name, text in (("prose", _PROSE * 200), ("code", code * 3)):
        figures = ", ".join(f"{size:,} characters {cost(text[:size]):.1f} µs" for size in (200, 2_000, 20_000))
        print(f"{name}: {figures}")
    if chosen.rules:
        compare(chosen.rules)


if __name__ == "__main__":
    main()
