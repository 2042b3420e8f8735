"""Pipeline parallel: what is refused, and that every schedule trains the model that one rank does.

`strategy_runs` has its row, so its checkpoints and its end by a kill are tested with the others'.
"""

from typing import Any

import pytest
import torch

import dtlib
from dtlib import launch
from dtlib.config import RunConfig, pipelines
from dtlib.errors import BadInput
from dtlib.sim import activations, stages
from dtlib.study.differences import compare
from dtlib.study.facts import Facts
from tests.strategy_runs import SMALL, figures, train

pytestmark = pytest.mark.usefixtures("own_folder")

CLOSE = 1e-6  # the tied embedding's gradient is added up in another order than in one process
GIVEN = {"global_batch": 16, "accumulation": 4, "clip": 0.5}


@pytest.mark.parametrize(("settings", "words"), [
    ({"task": "images"}, "cuts dtlib's own GPT into stages of layers, not task images; use"),
    ({"model": "hf:folder"}, "not model hf:folder; use strategy ddp."),
    ({"precision": "fp16"}, "has no loss scaling that all stages share, and precision is fp16"),
    ({"activation_checkpointing": "full"}, "activation_checkpointing does not go with strategy"),
    ({"compile": True}, "compile does not go with strategy pipeline"),
    ({"micro_batch": "auto"}, "give --micro-batch a number"),
    ({"device": "mps"}, "does not run on mps"),
    ({"strategy": "ddp", "pipeline_schedule": "gpipe"}, "gpipe has no effect with strategy ddp"),
    ({"mesh": "data=4"}, "the mesh data=4 has 1; give it pipeline=2, or use strategy ddp."),
    ({"model": "gpt2", "mesh": "pipeline=8"}, "12 layers cannot be divided evenly among 8"),
    ({"accumulation": 2}, "at least 4 micro-batches in a step, and accumulation is 2"),
])  # fmt: skip
def test_what_a_pipeline_cannot_run_is_refused(settings, words):
    world = 8 if "8" in settings.get("mesh", "") else 4
    with pytest.raises(BadInput) as caught:
        from dtlib import strategies

        asked = RunConfig(**{"task": "text", "strategy": "pipeline", **settings})
        kind = strategies.find(asked.strategy)
        kind.check(asked, world)
        kind.check_plan(asked, asked.plan(world))
    assert words in str(caught.value)


def stages_draw(data: str) -> int:
    """The seed of the last step's dropout on this rank."""
    train("pipeline", out="dropped", data=data, dropout=0.5)
    return torch.initial_seed()


def test_stages_drop_by_masks_of_their_own(story):
    first, last = launch(stages_draw, story, ranks=2, timeout=60)
    assert first != last


def train_each(runs: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Train several pipelines one after the other on the ranks that this runs on."""
    return {out: figures(train("pipeline", out=out, **settings)) for out, settings in runs.items()}


def alone(out: str, **settings: Any) -> dict[str, Any]:
    return figures(dtlib.train("text", 1, **{**SMALL, **settings}, strategy="single", out=out))


def assert_as_alone(found: dict[str, Any], runs: dict[str, dict[str, Any]]) -> None:
    """Compare with one process that adds up as many micro-batches."""
    own = ("mesh", "pipeline_schedule", "ledger")
    seen: dict[str, dict[str, Any]] = {}
    for out, settings in runs.items():
        told = {key: value for key, value in settings.items() if key not in own}
        if str(told) not in seen:
            seen[str(told)] = alone(f"alone {out}", **told)
        expected = seen[str(told)]
        for kind in ("losses", "norms", "held_out"):
            assert found[out][kind] == pytest.approx(expected[kind], abs=CLOSE), (out, kind)
        assert found[out]["parameters"] == expected["parameters"]


def test_every_schedule_trains_what_one_process_does(story):
    """With two optimizers in turn: AdamW hides a gradient that is too large, SGD does not."""
    given = {**GIVEN, "data": story}
    runs = {
        schedule: {**given, "pipeline_schedule": schedule, "optimizer": optimizer}
        for schedule, optimizer in zip(pipelines.SCHEDULES, 3 * ("adamw", "sgd"), strict=True)
    }
    runs |= {"fp64": {**given, "precision": "fp64"}, "bf16": {**given, "precision": "bf16"}}
    found = launch(train_each, runs, ranks=2, timeout=100)[0]
    expected = alone("alone bf16", **runs.pop("bf16"))["losses"]
    assert_as_alone(found, runs)
    # each rounds to 8 bits, the embedding's gradients before they are added up or after
    assert found["bf16"]["losses"] == pytest.approx(expected, abs=1e-3)


def in_chunks(runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The same, with logits so large that none are ever stored whole."""
    activations.CHUNK = 100
    return train_each(runs)


def test_four_stages_and_two_pipelines_hold_and_send_what_is_predicted(story):
    """Two ranks along data too; and every byte of each rank has a name."""
    runs = {
        "1f1b": {"optimizer": "sgd"},
        "gpipe": {"pipeline_schedule": "gpipe", "accumulation": 2},
        "both": {"mesh": "data=2,pipeline=2", "pipeline_schedule": "interleaved"},
        "wide": {"mesh": "data=2,pipeline=2", "accumulation": 2},
    }
    runs = {out: {**GIVEN, "data": story, "ledger": True, **each} for out, each in runs.items()}
    assert_as_alone(launch(train_each, runs, ranks=4, timeout=100)[0], runs)
    for out in runs:
        run = dtlib.Run.load(out)
        assert len(run.summary["ledger"]) == 4
        for rank in range(4):
            facts = Facts.of(run, rank)
            lines = {line.what: line for line in compare(facts)}
            assert {"parameters", "optimizer", "activations", "send", "all_reduce"} <= {*lines}
            assert [line for line in lines.values() if line.unexplained] == [], (out, rank)
            setup = facts.setup()
            buffers = stages.buffers(stages.places(setup)[facts.place["pipeline"]], setup)
            count = 8  # the samples that count, which all ranks have summed
            assert facts.page.before_update["communication"] == buffers + count
            assert lines["parameters"].predicted < 4 * run.summary["parameters"] * 2 / 3


@pytest.mark.slow
def test_a_loss_in_chunks_and_another_cut_after_a_checkpoint(story):
    given = {**GIVEN, "data": story}
    in_pieces = {"chunks": given, "chunks zbv": {**given, "pipeline_schedule": "zbv"}}
    assert_as_alone(launch(in_chunks, in_pieces, ranks=2, timeout=60)[0], in_pieces)
    links: list[tuple[int, dict[str, Any]]] = [
        (4, {"strategy": "pipeline"}), (2, {"strategy": "ddp"}),
        (4, {"strategy": "pipeline", "mesh": "data=2,pipeline=2", "pipeline_schedule": "zbv"}),
        (1, {"strategy": "single"}), (2, {"strategy": "pipeline"}),
    ]  # fmt: skip
    for number, (ranks, own) in enumerate(links, start=1):
        settings = {**SMALL, "global_batch": 16, "data": story, "clip": 0.5, "steps": 2 * number}
        run = dtlib.train("text", ranks, **settings, **own, out="chain", resume=True)
    whole = alone("whole", **settings)
    assert figures(run)["losses"] == pytest.approx(whole["losses"], abs=1e-5)
