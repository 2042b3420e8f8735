"""`--micro-batch auto`: by formulas, proved by a trial, the same on all ranks, and kept."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dtlib import launch
from dtlib.config import RunConfig
from dtlib.config.values import AUTO
from dtlib.errors import BadInput
from dtlib.ranks import dist
from dtlib.sim.fitting import SPARE, peak
from dtlib.training import micro_batch, oom, start
from dtlib.training.record import Run
from dtlib.training.tasks.text import Text

pytestmark = pytest.mark.usefixtures("own_folder")

PLAIN = {
    "tokenizer": "characters", "model": "nano", "max_length": 64, "global_batch": 8, "steps": 2,
    "device": "cpu",
}  # fmt: skip


def asked(story: str, **settings) -> RunConfig:
    plain = {**PLAIN, "data": story, "micro_batch": AUTO, "strategy": "single"}
    return RunConfig("text", **{**plain, **settings})


def room_for(micro: int, config: RunConfig, ranks: int = 1) -> float:
    """Bytes with which a micro-batch fits by the formulas, and no larger one."""
    fixed = RunConfig(**{**vars(config), "micro_batch": micro})
    resolved = fixed.resolved("cpu")
    vocabulary = Text(resolved, dist.world()).vocab_size
    return (peak(oom.setup_of(resolved, fixed.plan(ranks), vocabulary)) + 1) / (1 - SPARE)


def trained(config: RunConfig) -> Run:
    """Train in this process, a world of one."""
    return Run.load(Path(start.train_on_rank(start.prepare(config))))


def full_above(most: int, monkeypatch, rank: int | None = None) -> None:
    """Let a rank (default: all) have no room for more samples than that."""
    loss = Text.training_loss

    def training_loss(self, model, inputs, labels):
        if len(inputs) > most and rank in (None, self.world.rank):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.")
        return loss(self, model, inputs, labels)

    monkeypatch.setattr(Text, "training_loss", training_loss)


@pytest.mark.parametrize(("micro", "accumulation"), [(8, 1), (4, 2), (1, 8)])
def test_the_most_that_fits_by_the_formulas_is_chosen(
    story, micro, accumulation, monkeypatch, capsys
):
    config = asked(story)
    room = room_for(micro, config)
    monkeypatch.setattr(micro_batch, "free", lambda world: room)
    run = trained(config)
    assert (run.config["micro_batch"], run.config["accumulation"]) == (micro, accumulation)
    said = f"micro-batch {micro} × accumulation {accumulation}: the ledger predicts "
    said += f"{oom.in_gib(room * (1 - SPARE))} of {oom.in_gib(room)}, and a 2-step trial fits.\n"
    assert said in capsys.readouterr().out


def test_a_run_has_the_bits_of_one_that_was_told_the_number(story, monkeypatch):
    config = asked(story, out="auto", dropout=0.1)
    monkeypatch.setattr(micro_batch, "free", lambda world: room)
    room = room_for(4, config)
    chose, told = trained(config), trained(asked(story, out="told", micro_batch=4, dropout=0.1))
    assert [line["loss"] for line in chose.history] == [line["loss"] for line in told.history]


def test_a_trial_without_room_takes_the_next_smaller(story, monkeypatch, capsys):
    full_above(3, monkeypatch)
    assert trained(asked(story)).config["micro_batch"] == 2
    said = capsys.readouterr().out
    assert said.startswith("micro-batch 2 × accumulation 4: the ledger predicts ")
    assert "; 8 and 4 ran out of memory, and a 2-step trial fits.\n" in said


def test_where_not_even_1_fits_the_run_says_what_is_missing(story, monkeypatch, capsys):
    full_above(0, monkeypatch)
    with pytest.raises(oom.OutOfMemory, match=r"it asked for 1\.0 GiB more"):
        trained(asked(story))
    assert "but a trial ran out of memory" in capsys.readouterr().out


def on_ranks(config: RunConfig, rooms: list[float], full: bool) -> int:
    """Choose as one of two ranks, of which the second may have no room for more than 1 sample."""
    world = dist.world()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(micro_batch, "free", lambda world: rooms[world.rank])
        if full:
            full_above(1, patch, rank=1)
        return micro_batch.chosen(config.resolved("cpu"), config.plan(2), world).micro_batch


def out_of_memory_on_rank_1(prepared: start.Prepared) -> str:
    with pytest.MonkeyPatch.context() as patch:
        full_above(2, patch, rank=1)
        return start.train_on_rank(prepared)


def test_a_rank_of_a_sharding_strategy_without_room_does_not_leave_the_others_waiting(
    story, monkeypatch, capfd
):
    """The other rank waits in an all_gather, so a new launch tries the smaller micro-batch."""
    monkeypatch.setattr(start, "train_on_rank", out_of_memory_on_rank_1)
    monkeypatch.setattr(micro_batch, "LATE", 0.5)
    run = start.train(asked(story, strategy="fsdp"), ranks=2)
    assert (run.config["micro_batch"], run.config["accumulation"]) == (2, 2)
    assert "; 4 ran out of memory, and a 2-step trial fits.\n" in capfd.readouterr().out


@pytest.mark.parametrize("full", [False, True])
def test_two_ranks_take_the_smaller_of_their_numbers(story, full):
    """By room, and where one of them finds in a trial that it has less."""
    config = asked(story, strategy="ddp")
    rooms = [room_for(4, config, 2), room_for(2, config, 2)]
    assert launch(on_ranks, config, rooms, full, ranks=2, timeout=30) == [1 if full else 2] * 2


def test_a_resumed_run_keeps_its_micro_batch(story, monkeypatch):
    config = asked(story, out="run")
    room = room_for(2, config)
    monkeypatch.setattr(micro_batch, "free", lambda world: room)
    trained(config)
    monkeypatch.setattr(micro_batch, "free", lambda world: 1e12)
    again = trained(asked(story, out="run", resume=True, steps=4))
    assert (again.config["micro_batch"], len(again.history)) == (2, 4)


def test_a_number_of_ranks_that_the_old_micro_batch_does_not_suit_chooses_anew(story):
    trained(asked(story, out="run", micro_batch=8))
    config = asked(story, out="run", resume=True, strategy="ddp")
    assert micro_batch.kept(config, config.plan(1)).micro_batch == 8
    assert micro_batch.kept(config, config.plan(2)).micro_batch == AUTO


def test_on_a_cpu_ranks_share_the_memory_that_is_free():
    world = dist.world()
    assert 0 < micro_batch.free(world) < 1e15


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"accumulation": 2}, "micro_batch auto chooses the accumulation too, and accumulation is"),
        ({"micro_batch": "most"}, "micro_batch is 'most'; it must be a whole number, or auto."),
        ({"micro_batch": 0}, "micro_batch is 0; it must be at least 1."),
    ],
)
def test_what_auto_does_not_go_with_is_refused(settings, words):
    for make in (lambda **given: RunConfig(**given), lambda **given: RunConfig.from_mapping(given)):
        with pytest.raises(BadInput) as caught:
            make(**{"task": "text", "micro_batch": AUTO, **settings})
        assert words in str(caught.value)
