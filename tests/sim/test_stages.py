"""What a rank of a pipeline holds, keeps and sends, by formulas beside formulas.

That a real step is as predicted is tested in `tests/strategies/test_strategies_pipeline.py`.
"""

import pytest

from dtlib.errors import BadInput
from dtlib.sim import pipeline as formulas
from dtlib.sim import stages, tensors
from dtlib.sim.estimate import estimate
from dtlib.sim.setup import Setup

GPT2 = {
    "model": "gpt2", "strategy": "pipeline", "ranks": 4, "micro_batch": 4, "accumulation": 8,
    "loss": "auto",
}  # fmt: skip


@pytest.mark.parametrize(("schedule", "copies"), [("1f1b", 2), ("interleaved", 2), ("zbv", 1)])
def test_stages_hold_every_parameter_once_and_the_embedding_at_both_ends(schedule, copies):
    setup = Setup(**{**GPT2, "ranks": 2, "pipeline_schedule": schedule})
    everything = setup.tensors()
    held = [name for where in stages.places(setup) for name, _ in stages.held(everything, where)]
    assert {*held} == {name for name, _ in everything}
    assert {name: held.count(name) for name in held if held.count(name) > 1} == (
        {"wte.weight": copies} if copies > 1 else {}
    )


def test_the_estimate_is_that_of_the_rank_that_holds_most():
    """1F1B's first stage keeps most; under GPipe the last one, which has the logits too."""
    for schedule, fullest in (("1f1b", 0), ("gpipe", 3)):
        setup = Setup(**GPT2, pipeline_schedule=schedule)
        found = {row.kind: row for row in estimate(setup).rows}
        where = stages.places(setup)[fullest]
        assert str(where) in found["activations"].why
        own = tensors.count(stages.held(setup.tensors(), where))
        assert found["parameters"].size == 4 * own
        assert found["messages"].size == stages.buffers(where, setup)
    # two pipelines side by side also sum their gradients
    one, two = Setup(**GPT2), Setup(**{**GPT2, "ranks": 8, "mesh": "data=2,pipeline=4"})
    assert "gradients" not in {row.carries for row in estimate(one).traffic}
    (gradients,) = (row for row in estimate(two).traffic if row.carries == "gradients")
    own = tensors.count(stages.held(two.tensors(), stages.places(two)[0]))
    assert gradients.payload == 4 * own


def test_the_order_of_a_rank_keeps_what_the_formulas_say():
    for ranks in (2, 3, 4):
        for rounds in (1, 2, 3):
            many = ranks * rounds
            for schedule, chunks in (("gpipe", 1), ("1f1b", 1), ("interleaved", 2)):
                for rank in range(ranks):
                    where = stages.Place(rank, ranks, schedule, many, chunks * ranks, chunks)
                    each = dict.fromkeys(where.stages, 1)
                    size = rank, ranks, many, chunks
                    assert stages.kept(where, each) == chunks * formulas.kept_activations(
                        schedule, *size
                    )
                    assert sum(stages.messages(where)) == formulas.messages(*size)


def test_a_schedule_that_splits_the_backward_has_no_formula():
    with pytest.raises(BadInput, match="what a stage keeps under the schedule zbv; it predicts"):
        stages.order(stages.place("nano", 2, "zbv", 2))
