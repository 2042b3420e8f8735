"""`hash` of a text in an answer is another number in every process; of all else it stays."""

import pytest

from dtlib.learn.salt import each_in_a_process, process
from dtlib.learn.verdicts import Wrong


def test_what_contains_a_text_differs_by_process() -> None:
    before = hash("a")
    for thing in ("a", b"a", (1, ("a", 2)), frozenset(["a"])):
        found = []
        for number in (1, 2, 2):
            with process(number) as asked:
                found.append(hash(thing))
            assert asked == [thing]
        assert found[0] != found[1] == found[2]
    assert hash("a") == before


def test_numbers_and_what_the_machinery_hashes_stay() -> None:
    def library(thing: object) -> int:
        return hash(thing)

    theirs = compile("lambda thing: hash(thing)", "/x/site-packages/lib.py", "eval")
    with process(1) as asked:
        assert hash(7) == 7 and hash((1, 2)) == (1, 2).__hash__()
        assert eval(theirs)("a") == "a".__hash__()
        assert {"a": library}["a"] is library
    assert asked == []


def test_only_an_answer_that_depends_on_the_text_is_refused() -> None:
    assert each_in_a_process(lambda k: k + 0 * hash("a"), 3) == [0, 1, 2]
    with pytest.raises(Wrong) as told:
        each_in_a_process(lambda k: hash("seed 0") % 1000, 3)
    assert told.value.mistake == "salted" and told.value.numbers == {"text": "'seed 0'"}
