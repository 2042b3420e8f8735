"""Lesson 03 says what is true: its documents, its worked examples and its what-if."""

from __future__ import annotations

import pytest

from dtlib.errors import BadInput

from .docs import CONTEXT, DOCUMENTS, VOCABULARY, docstrings, refuse_beyond
from .exercises.packed import pack
from .exercises.shards import rows_of
from .what_if import loader_curve, needed, waiting


def test_documents_are_different_and_of_any_length():
    texts = docstrings(400)
    assert len(set(texts)) == 400 and texts == docstrings(400)
    lengths = sorted(map(len, texts))
    assert lengths[0] >= 40 and lengths[-1] > 20 * lengths[200]


def test_parameters_that_a_later_cell_cannot_take_are_refused():
    bounds = DOCUMENTS, CONTEXT, VOCABULARY
    refuse_beyond(*(least for least, _ in bounds))
    refuse_beyond(*(most for _, most in bounds))
    assert len(docstrings(DOCUMENTS[1])) == DOCUMENTS[1]
    for place, (least, most) in enumerate(bounds):
        for value in (least - 1, most + 1):
            given = [400, 64, 1000]
            given[place] = value
            with pytest.raises(BadInput, match=f"is {value}, and this lesson works with {least:,}"):
                refuse_beyond(*given)


def test_the_worked_examples():
    assert pack([[5, 6], [7, 8, 9, 5]], 0, 4) == [[5, 6, 0, 7], [8, 9, 5, 0]]
    assert rows_of([5, 7, 2, 1], 0, 2) == (7, 7)
    assert rows_of([5, 7, 4], 0, 2) == (16, 8)


def test_enough_workers_are_the_fewest_with_which_no_step_waits():
    for step, tokens, rate in ((100, 32_000, 1e5), (10, 1000, 1e5), (250, 128_000, 1e4)):
        enough = needed(step, tokens, rate)
        assert waiting(step, tokens, rate, enough) == 0
        assert enough == 1 or waiting(step, tokens, rate, enough - 1) > 0
    shown = loader_curve(100, 32, 5, 2)
    assert shown["point"] == [2, 60.0] and "waits 60 ms" in shown["says"]
    assert "4 workers would be enough" in shown["says"]
