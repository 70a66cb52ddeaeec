"""`engram doctor`: what is wrong with the store and this machine, and mending it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ...errors import InvalidInput
from .common import command, load_settings, result
from .counting import counted
from .screen import hanging, one_line, style

if TYPE_CHECKING:
    from ...config import Config
    from ...health_records import Finding

#: Longer than any finding.
_LONGEST = 2_000
_COLOURS = {"ok": "green", "note": "yellow", "wrong": "red"}


@command()
@click.option("--fix", is_flag=True, help="Mend what can safely be mended.")
@click.option("--full", is_flag=True, help="Read everything. This may take minutes in a large store.")
@click.option("--all", "show_all", is_flag=True, help="Show the checks that passed, too.")
@click.pass_context
def doctor(ctx: click.Context, fix: bool, full: bool, show_all: bool) -> int:
    """Check the store, the settings, the hooks and the harnesses.

    Each finding says what it means and what to do. A note is worth knowing; only what is wrong makes the exit code 1.

    --fix does exactly this: takes rights on Engram's own files away from other users; removes drafts of killed
    processes and sockets that nobody serves; empties the write-ahead log; adds to the word index what is missing,
    removes from it what is gone, and corrects its counters; queues texts for missing vectors; frees entries of the
    queue and ends leases of ended sessions; removes tags, links and vectors that belong to nothing, and vectors of a
    wrong length; replaces a heartbeat that is not a valid time by the time of the session's last entry. It never
    changes what was said or remembered, nor the settings of a harness.
    """
    found = _findings(ctx, fix, full)
    result(ctx, found, lambda: _shown(found, show_all))
    return int(any(each.state == "wrong" for each in found))


def _findings(ctx: click.Context, fix: bool, full: bool) -> list[Finding]:
    from ...health_records import Finding, examine
    from ...maintenance import doctor as of_store
    from ..machine_checks import files, harnesses

    try:
        settings: Config = load_settings(ctx, warn=False)
    except InvalidInput as error:
        means = "No command and no hook works."
        return [Finding("settings.user", "wrong", str(error), means, "engram config path shows the file", number=1)]
    return [
        Finding("settings.user", "ok", "The settings can be read."),
        *examine([*files.checks(settings), *harnesses.checks(settings)], fix=fix),
        *of_store(settings, full=full, fix=fix),
    ]


def _shown(found: list[Finding], show_all: bool) -> str:
    lines = []
    for each in found:
        if each.state != "ok" or each.mended or show_all:
            lines += _lines(each)
    well = sum(each.state == "ok" for each in found)
    notes, wrong = (sum(each.state == state for each in found) for state in ("note", "wrong"))
    problems = counted(wrong, "thing is wrong", "things are wrong") if wrong else "nothing wrong"
    last = f"{counted(well, 'check')} passed, {counted(notes, 'note')}, {problems}."
    return "\n".join([*lines, last])


def _lines(each: Finding) -> list[str]:
    where = f" ({each.workspace})" if each.workspace else ""
    state = style(each.state, fg=_COLOURS[each.state], bold=each.state == "wrong")
    lines = [f"{state} {style(each.name, bold=True)}{where}: {hanging(one_line(each.found, _LONGEST))}"]
    if each.mended:
        lines.append(f"  Mended {counted(each.mended, 'thing')}.")
    if each.state != "ok":
        lines += [f"  {hanging(each.means)}"] if each.means else []
        by_itself = " (--fix does it)" if each.mends and each.fix != "engram doctor --fix" else ""
        lines += [f"  To do: {hanging(one_line(each.fix, _LONGEST))}{by_itself}"] if each.fix else []
    return lines
