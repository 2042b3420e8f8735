"""The picture of four ways: weights have keepers, samples have workers, and the table agrees."""

import matplotlib
import pytest

from .pictures import BORROWS, COLUMNS, GPUS, KEEPS, NOT_HERE, WAYS, draw, rows

matplotlib.use("Agg")
BY_NAME = {way.name: way for way in WAYS}
PIECES = [(layer, column) for layer in range(GPUS) for column in range(GPUS)]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_every_piece_and_every_sample_meets(way):
    keepers = [sum(way.weight(g, *piece) == KEEPS for g in range(GPUS)) for piece in PIECES]
    assert set(keepers) == {GPUS if way.name == "data" else 1}
    for sample in range(GPUS):
        workers = [gpu for gpu in range(GPUS) if way.works_on(gpu, sample)]
        assert workers == ([sample] if way.own_samples else list(range(GPUS)))
        # whoever works on it alone needs all the weights at hand
        lacking = [way.weight(gpu, *p) for gpu in workers for p in PIECES].count(NOT_HERE)
        assert (lacking == 0) == way.own_samples


def test_only_sharding_borrows():
    borrowers = {w.name for w in WAYS for p in PIECES if w.weight(0, *p) == BORROWS}
    assert borrowers == {"sharded"}
    assert [BY_NAME[name].kept() for name in ("data", "tensor", "pipeline", "sharded")] == [
        16, 4, 4, 4,
    ]  # fmt: skip


def test_table_and_figure():
    table = rows(7e9)
    assert [row[2] for row in table] == [112, 28, 28, 28]
    assert all(len(row) == len(COLUMNS) for row in table)
    figure = draw()
    assert len(figure.axes) == len(WAYS) * GPUS
    assert [axes.get_ylabel() for axes in figure.axes[::GPUS]] == [way.name for way in WAYS]
    patches = [patch.get_hatch() for patch in figure.axes[-1].patches]
    assert patches.count("///") == GPUS * (GPUS - 1)
