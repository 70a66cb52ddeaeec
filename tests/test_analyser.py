"""The analyser: which words of a text find it again."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from engram.memory import analyser

pytestmark = pytest.mark.requirement("WORDS-1")


@pytest.mark.parametrize(
    "forms",
    [
        "walk walks walked walking Walking WALKED",
        "run runs running ran",
        "go goes going went gone",
        "child child's children children's",
        "index indexes indices indexing",
        "write wrote written writing writes",
        "query queries querying queried",
        "crash crashes crashed crashing",
        "person people people's",
        "dog dogs dog's dog’s",
    ],
)
def test_all_forms_of_a_word_are_one_term(forms: str) -> None:
    assert len(set(analyser.terms(forms))) == 1
    assert len(analyser.terms(forms)) == len(forms.split())


@pytest.mark.parametrize("one, other", [("cat", "dog"), ("router", "routine"), ("port", "portal"), ("v1", "v2")])
def test_different_words_stay_different(one: str, other: str) -> None:
    assert set(analyser.terms(one)).isdisjoint(analyser.terms(other))


@pytest.mark.parametrize(
    "text",
    ["the", "The", "what did you do", "Who was that?", "I've", "don’t", "It's", "they'll", "Why isn't it?", "a an and"],
)
def test_words_without_a_meaning_of_their_own_are_dropped(text: str) -> None:
    assert analyser.terms(text) == []


def test_terms_come_in_order_and_as_often_as_they_occur() -> None:
    assert analyser.terms("The router, the table; a Router!") == ["router", "tabl", "router"]


@pytest.mark.parametrize(
    "token, parts",
    [
        ("src/userStore.py", "src user store py"),
        ("/etc/nginx/nginx.conf", "etc nginx conf"),
        (r"C:\Temp\build.log", "c temp build log"),
        ("max_retry-count", "max retry count"),
        ("parseHTTPResponse", "parse http response"),
        ("HTTPServer", "http server"),
        ("std::vector", "std vector"),
        ("os.path.join", "os path join"),
        ("help@mailbox.org", "help mailbox org"),
        ("https://docs.rs/serde", "https docs rs serde"),
        ("2023-05-07", "2023 05 07"),
        ("v1.2.3", "v1 2 3"),
        ("front-end", "front end"),
    ],
)
def test_a_compound_is_found_by_its_parts_and_as_a_whole(token: str, parts: str) -> None:
    found = analyser.terms(f"See {token}, please.")
    assert set(analyser.terms(parts)) <= set(found)
    assert analyser.tokens(f"({token})") == [token.removeprefix("/")]
    whole = analyser.tokens(token)[0].lower()
    assert whole in found
    assert whole not in analyser.terms(parts)


@pytest.mark.parametrize("token", ["to-do", "is/was", "who's-who", "in_out", "it.has"])
def test_a_compound_of_words_without_meaning_is_still_found_as_a_whole(token: str) -> None:
    assert analyser.terms(token)[-1] == token


@pytest.mark.parametrize(
    "one, other",
    [
        ("café naïve Ångström", "cafe naive Angstrom"),
        ("cafe\u0301", "caf\u00e9"),
        ("ＦＵＬＬ　ｗｉｄｔｈ", "full width"),
        ("ﬁle eﬃcient", "file efficient"),
        ("Việt Nam", "Viet Nam"),
        ("ÉCOLE", "école"),
        ("ΑΘΉΝΑ", "αθηνα"),
        ("МОСКВА", "москва"),
        ("ｶﾞｲﾄﾞ", "ガイド"),
        ("한국어", "\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165"),
    ],
)
def test_spellings_that_look_alike_to_a_reader_are_the_same(one: str, other: str) -> None:
    assert analyser.terms(one) == analyser.terms(other) != []


@pytest.mark.parametrize(
    "text, expected",
    [
        ("東京都", ["東京", "京都"]),
        ("猫", ["猫"]),
        ("データベース", ["デー", "ータ", "タベ", "ベー", "ース"]),
        ("한국어", ["한국", "국어"]),
        ("ภาษา", ["ภา", "าษ", "ษา"]),
        ("𠮷野家", ["𠮷野", "野家"]),
        ("版本2をinstallした", ["版本", "2", "を", "instal", "した"]),
    ],
)
def test_scripts_without_spaces_give_overlapping_pairs(text: str, expected: list[str]) -> None:
    assert analyser.terms(text) == expected


def test_a_part_of_a_chinese_sentence_has_only_terms_of_the_sentence() -> None:
    assert set(analyser.terms("数据库迁移")) <= set(analyser.terms("我们昨天完成了数据库迁移。"))


@pytest.mark.parametrize(
    "text", ["हिन्दी में", "كِتَاب جديد", "שָׁלוֹם", "தமிழ்", "ქართული", "አማርኛ", "ᏣᎳᎩ", "Ünïcödé", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "ßtraße", "Iİıi"]
)
def test_words_of_any_script_are_words(text: str) -> None:
    found = analyser.terms(text)
    assert len(found) == len(text.split())
    assert all(found)


@pytest.mark.parametrize(
    "text", ["", "   \n", "?!…—", "🎉🔥👩‍👩‍👧", "'''", "___", "-/-", "::", "\u0301\u0302", "\u200d"]
)
def test_a_text_without_words_has_no_terms_that_matter(text: str) -> None:
    assert not any(character.isalnum() for term in analyser.terms(text) for character in term)


def test_every_character_there_is_can_be_analysed() -> None:
    everything = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    for start in range(0, len(everything), 1_000):
        some = everything[start : start + 1_000]
        for term in analyser.terms(some) + analyser.terms(" ".join(some)):
            assert 0 < len(term) <= analyser.MAX_TERM
            term.encode()


@pytest.mark.parametrize("text", ["a" * 1_000, "x1" * 500, "é" * 1_000, "/".join(["part"] * 300), "aB" * 400])
def test_no_term_is_longer_than_the_index_takes(text: str) -> None:
    found = analyser.terms(text)
    assert found
    assert max(map(len, found)) <= analyser.MAX_TERM


LONG = {
    "prose": "The router drops every second packet when its table is full. ",
    "one word": "a",
    "one path": "src/",
    "links": "a-",
    "colons": "a:/",
    "humps": "aB",
    "underscores": "_",
    "apostrophes": "s'",
    "accents": "é",
    "Chinese": "数",
    "mixed scripts": "数a",
    "ligatures": "\ufdfa",
    "stacked marks": "\u0301\u0316",
    "stacked Hebrew marks": "\u05b0\u05c1",
    "joiners": "\u200d",
    "emoji": "🎉",
}


def seconds(text: str) -> float:
    """How long it takes at best, so that a pause of the machine does not count."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        analyser.terms(text)
        taken.append(time.process_time() - start)
        if taken[-1] > 1:
            break
    return min(taken)


@pytest.mark.parametrize("unit", LONG.values(), ids=LONG.keys())
def test_the_time_grows_with_the_length_and_no_faster(unit: str) -> None:
    analyser.terms("warm " + unit)
    quarter, whole = (seconds("a" + unit * (size // len(unit))) for size in (25_000, 100_000))
    # Four times is linear, sixteen times is quadratic.
    assert whole < 0.05 or whole < 9 * quarter
    assert whole < 2


def test_threads_at_once_get_the_same_terms() -> None:
    texts = [f"worker{number} was running children's jobs in src/pool_{number}.py" for number in range(200)]
    expected = [analyser.terms(text) for text in texts]
    analyser._known.clear()
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: [analyser.terms(text) for text in texts], range(8)):
            assert found == expected


def test_another_process_gets_the_same_terms() -> None:
    text = "Who ran src/userStore.py on 2023-05-07? 東京の children’s café, naïvely."
    command = "import sys; from engram.memory import analyser; print(analyser.terms(sys.argv[1]))"
    other = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", command, text], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == str(analyser.terms(text))


def test_terms_do_not_depend_on_what_was_analysed_before() -> None:
    text = "indices of the shelves were rebuilt"
    before = analyser.terms(text)
    analyser.terms(" ".join(f"filler{number}" for number in range(60_000)))
    assert analyser.terms(text) == before
