"""The page Graph."""

from __future__ import annotations

import re

import pytest

from tests.interfaces._server import Server

from ._person import person


def boxes(page: str) -> list[str]:
    """The labels of the nodes in the drawing."""
    return re.findall(r'<text[^>]*class="label"[^>]*>([^<]*)</text>', page)


@pytest.mark.requirement("GRAPH-3")
def test_a_node_whose_text_was_forgotten_is_no_blank_box(server: Server) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Port the router")
    turn = eng.exchanges.add(session, "user", "The code is 1234 for the door", embed=False)
    eng.exchanges.add(session, "assistant", "I noted it.", embed=False)
    eng.sessions.complete(session, "Noted")
    eng.dream(force=True)
    (gist,) = eng.memories.list(kind="gist")
    eng.forget(exchange=turn)
    with person(server) as someone:
        page = someone.see("graph", kind="memory", id=gist.id).response.text
    labels = boxes(page)
    assert len(labels) > 1 and all(labels)
    assert "(emptied by forgetting)" in labels
    assert 'aria-label="memory: (emptied by forgetting)"' in page
    assert ">(emptied by forgetting)</strong>" in page
    assert "<a></a>" not in re.sub(r"<a [^>]*>", "<a>", page)


@pytest.mark.requirement("GRAPH-1")
def test_the_graph_of_a_file_shows_what_leads_to_it(server: Server) -> None:
    eng = server.eng
    session = eng.sessions.register("codex", "Port the router", project="acme/shop")
    eng.sessions.log(session, "Edit src/router.py: done")
    eng.remember("# Routes\n\nThey are in src/router.py", kind="gist", project="acme/shop", embed=False)
    with person(server) as someone:
        pages = [
            someone.see("graph", kind="file", id=id).response.text
            for id in ("acme/shop:src/router.py", "src/router.py")
        ]
    for page in pages:
        assert "Nothing is linked to it" not in page
        assert {"src/router.py", "Port the router"} <= set(boxes(page)) and len(boxes(page)) == 3
