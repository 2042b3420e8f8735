"""Lesson 03 says what is true: its documents, its worked examples and its what-if."""

from __future__ import annotations

from .docs import docstrings
from .exercises.packed import pack
from .exercises.shards import rows_of
from .what_if import loader_curve, needed, waiting


def test_documents_are_different_and_of_any_length():
    texts = docstrings(400)
    assert len(set(texts)) == 400 and texts == docstrings(400)
    lengths = sorted(map(len, texts))
    assert lengths[0] >= 40 and lengths[-1] > 20 * lengths[200]


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
