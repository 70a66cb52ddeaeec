"""The examples of the documents run."""

from __future__ import annotations

from pathlib import Path

import pytest
from docs import examples

PAGES = list(examples.pages())


@pytest.mark.requirement("DOCS-7")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run_and_print_what_it_says(page: Path) -> None:
    wanted = [block.text for block in examples.blocks(page) if block.language == "python"]
    wanted += [typed for block in examples.blocks(page) for typed in block.commands]
    assert examples.run(page) == sum(examples.why_not(each) is None for each in wanted)


@pytest.mark.requirement("DOCS-7")
def test_every_reason_for_not_running_an_example_is_used() -> None:
    found = [block for page in PAGES for block in examples.blocks(page)]
    shown = [block.text for block in found if block.language == "python"]
    shown += [typed for block in found for typed in block.commands]
    assert [start for start in examples.NOT_RUN if not any(each.startswith(start) for each in shown)] == []
    assert [name for name in examples.PROGRAMS if not any(each.split()[0] == name for each in shown)] == []
    assert examples.BEFORE.keys() <= {page.name for page in PAGES}
    assert sum(examples.why_not(each) is None for each in shown) > 25


@pytest.mark.requirement("DOCS-7")
def test_an_example_that_fails_or_prints_something_else_is_noticed(tmp_path: Path) -> None:
    for text in (
        "```python\nprint(1 + 1)  # 3\n```\n",
        "```console\n$ engram memory show 7\n```\n",
        "```console\n$ rm x\n```\n",
        "```console\n$ engram backup /\n```\n",
    ):
        (tmp_path / "page.md").write_text(text)
        with pytest.raises(examples.Failed):
            examples.run(tmp_path / "page.md")
