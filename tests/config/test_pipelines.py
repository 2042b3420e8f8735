"""Which stages lie where, and what a schedule refuses, before any rank starts."""

import pytest

from dtlib.config import RunConfig, pipelines
from dtlib.errors import BadInput


@pytest.mark.parametrize(("schedule", "layers", "ranks", "many"), [
    ("gpipe", 12, 4, 1), ("1f1b", 12, 6, 1), ("zero-bubble", 4, 2, 1),
    ("interleaved", 12, 4, 3), ("interleaved", 24, 4, 2), ("zbv", 24, 4, 2),
    ("dualpipe-v", 4, 2, 2),
])  # fmt: skip
def test_every_stage_has_as_many_layers_and_every_layer_one_stage(schedule, layers, ranks, many):
    assert pipelines.chunks(schedule, layers, ranks) == many
    assert layers % (many * ranks) == 0
    by_rank = [pipelines.stages_of(rank, ranks, schedule, many) for rank in range(ranks)]
    assert sorted(stage for own in by_rank for stage in own) == [*range(many * ranks)]
    # the first and the last stage are on one rank exactly under a schedule that is folded
    assert (many * ranks - 1 in by_rank[0]) == (schedule in ("zbv", "dualpipe-v"))


@pytest.mark.parametrize(("schedule", "layers", "ranks", "words"), [
    ("1f1b", 4, 3, "4 layers cannot be divided evenly among 3 pipeline stages; use a pipeline of "
                   "2, 4 ranks"),
    ("1f1b", 4, 8, "4 layers cannot be divided evenly among 8"),
    ("interleaved", 4, 4, "4 layers on 4 ranks are 1 for each; use --pipeline-schedule 1f1b"),
    ("zbv", 12, 4, "12 layers on 4 ranks are 3 for each"),
])  # fmt: skip
def test_layers_that_stages_cannot_share_are_refused(schedule, layers, ranks, words):
    with pytest.raises(BadInput) as caught:
        pipelines.chunks(schedule, layers, ranks)
    assert words in str(caught.value)


@pytest.mark.parametrize(("schedule", "ranks", "given", "words"), [
    ("1f1b", 4, 3, "needs at least 4 micro-batches in a step, and accumulation is 3"),
    ("dualpipe-v", 2, 3, "needs at least 4 micro-batches in a step, and accumulation is 3"),
    ("interleaved", 3, 7, "that 2 rounds share evenly, and accumulation is 7; use 6 or 9"),
    ("zero-bubble", 2, 5, "that 2 rounds share evenly, and accumulation is 5; use 4 or 6"),
])  # fmt: skip
def test_micro_batches_that_a_schedule_cannot_arrange_are_refused(schedule, ranks, given, words):
    with pytest.raises(BadInput) as caught:
        pipelines.refuse_micro_batches(schedule, ranks, given)
    assert words in str(caught.value)
    for right in (2 * ranks, 4 * ranks):
        pipelines.refuse_micro_batches(schedule, ranks, right)


@pytest.mark.parametrize(("settings", "accumulation", "micro_batch"), [
    ({}, 4, 4), ({"pipeline_schedule": "dualpipe-v"}, 8, 2), ({"accumulation": 8}, 8, 2),
    ({"micro_batch": 1}, 16, 1), ({"mesh": "data=2,pipeline=2"}, 2, 4),
])  # fmt: skip
def test_a_step_has_enough_micro_batches_to_fill_the_stages(settings, accumulation, micro_batch):
    plan = RunConfig("text", strategy="pipeline", global_batch=16, **settings).plan(4)
    assert (plan.accumulation, plan.micro_batch) == (accumulation, micro_batch)
