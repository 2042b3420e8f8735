"""Out of memory is a sentence: what is missing, what holds the rest, what would fit."""

import dataclasses
from collections.abc import Callable

import pytest
import torch

import dtlib
from dtlib.config import RunConfig
from dtlib.ranks import launcher
from dtlib.sim.estimate import Setup
from dtlib.sim.fitting import SPARE, peak, ways
from dtlib.strategies.base import Strategy
from dtlib.training import oom, start, tasks

GIB = 2**30
# torch's text (2.4 to 2.14, `Allocator::malloc` of CUDACachingAllocator.cpp), with made numbers
TEXT = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 40.00 GiB of"
    " which 512.00 MiB is free. Including non-PyTorch memory, this process has 39.50 GiB memory in"
    " use. Of the allocated memory 37.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by"
    " PyTorch but unallocated. If reserved but unallocated memory is large try setting …"
)
XL = Setup("gpt2-xl", "ddp", 4, 8, 1, "bf16")


def test_torchs_numbers_are_read_in_bytes():
    found = oom.numbers(TEXT)
    assert (found.wanted, found.free, found.total) == (2 * GIB, GIB / 2, 40 * GIB)
    assert (found.in_use, found.allocated, found.reserved) == (39.5 * GIB, 37 * GIB, GIB)


def test_the_sentence_says_what_is_missing_and_what_would_fit():
    found = oom.numbers(TEXT)
    found.peak = 37.5 * GIB
    said = oom.sentence("rank 1 ran out of memory on cuda:1", found, XL)
    assert said.startswith(
        "rank 1 ran out of memory on cuda:1 (40.0 GiB): it asked for 2.0 GiB more and 0.5 GiB is"
        " free, so 1.5 GiB is missing; 37.0 GiB is in tensors, 37.5 GiB at the peak, and 1.0 GiB is"
        " reserved but unused; `dtlib sim memory` predicts that this run needs"
        f" {peak(XL) / GIB:.1f} GiB per rank;"
    )
    assert "--strategy zero1" in said and "other processes" not in said and said.endswith(".")
    assert said.count(".") == said.count("GiB") + 1  # one sentence: all other points are in numbers


def test_memory_of_others_and_pieces_too_small_are_named():
    others = TEXT.replace("39.50 GiB memory", "19.50 GiB memory")
    assert "other processes hold 20.0 GiB" in oom.sentence("here", oom.numbers(others), None)
    pieces = TEXT.replace("1.00 GiB is reserved", "9.00 GiB is reserved")
    assert "expandable_segments" in oom.sentence("here", oom.numbers(pieces), None)
    assert "expandable_segments" not in oom.sentence("here", oom.numbers(TEXT), None)


def test_a_run_that_should_fit_gets_no_advice_to_shrink():
    small = Setup("gpt2", "ddp", 4, 1, 1, "bf16")
    said = oom.sentence("here", oom.numbers(TEXT), small)
    assert "that fits in 40.0 GiB, so look for what else uses the memory" in said
    assert "would fit" not in said


def test_checkpointing_is_proposed_as_the_flag_that_it_is():
    """And no more, where the run has it already: `oom` tells `sim` of it, and of chunks."""
    tight = (peak(dataclasses.replace(XL, checkpointing="full")) + 1) / (1 - SPARE)
    assert "--activation-checkpointing full" in [way.flags for way in ways(XL, tight)]
    config = RunConfig("text", model="gpt2", micro_batch=8, activation_checkpointing="full")
    setup = oom.setup_of(config.resolved("cpu"), config.plan(2), 50_257)
    assert (setup.checkpointing, setup.is_chunked) == ("full", True)
    assert not [way for way in ways(setup, peak(setup) / 2) if "checkpointing" in way.flags]


def test_where_nothing_fits_it_says_so():
    found = dataclasses.replace(oom.numbers(TEXT), total=GIB / 4)
    said = oom.sentence("here", found, dataclasses.replace(XL, strategy="infinity"))
    assert "no smaller micro-batch and no strategy fits" in said


@pytest.mark.parametrize("memory", [24, 32, 40, 80])
@pytest.mark.parametrize("strategy", ["ddp", "zero2", "offload"])
def test_ways_fit_and_keep_the_global_batch(memory, strategy):
    setup = dataclasses.replace(XL, strategy=strategy)
    for way in ways(setup, memory * GIB):
        assert way.peak == peak(way.setup) <= (1 - SPARE) * memory * GIB
        batch = way.setup.micro_batch * way.setup.accumulation * way.setup.ranks
        assert batch == setup.micro_batch * setup.accumulation * setup.ranks
        assert way.setup.model == setup.model


def test_a_strategy_with_another_micro_batch_says_the_accumulation_too():
    """The flags are added to a run's own: an --accumulation there would else cut its batch."""
    setup = dataclasses.replace(XL, accumulation=2)
    least = peak(dataclasses.replace(_micro(setup, 1), strategy="zero3"))
    (way, *_) = ways(setup, (least + 1) / (1 - SPARE))
    whole = setup.micro_batch * 2
    assert way.flags.endswith(f" --micro-batch 1 --accumulation {whole}"), way.flags
    assert way.flags.startswith("--strategy") and way.setup.accumulation == whole


def test_the_first_strategy_that_fits_and_the_largest_micro_batch():
    tight = (peak(dataclasses.replace(XL, strategy="zero1")) + 1) / (1 - SPARE)
    found = {way.flags: way for way in ways(XL, tight)}
    assert "--strategy zero1" in found
    larger = [m for m in (4, 2, 1) if peak(_micro(XL, m)) <= tight * (1 - SPARE)]
    assert f"--micro-batch {larger[0]} --accumulation {8 // larger[0]}" in found


def _micro(setup: Setup, micro: int) -> Setup:
    whole = setup.micro_batch * setup.accumulation
    return dataclasses.replace(setup, micro_batch=micro, accumulation=whole // micro)


def test_on_one_rank_sharding_is_no_advice():
    """Stage 1 needs less there only because its weights have 16 bits: a share is the whole."""
    alone = Setup("gpt2-xl", "single", 1, 8, 1, "bf16")
    sharded = dataclasses.replace(alone, strategy="zero1")
    assert peak(sharded) < peak(alone)
    for memory in (24 * GIB, (peak(sharded) + 1) / (1 - SPARE)):
        flags = " ".join(way.flags for way in ways(alone, memory))
        assert "offload" in flags and "zero" not in flags


def fails_with(error: Callable[[], object], monkeypatch, tmp_path) -> None:
    """Train as a rank whose data cannot be opened."""
    monkeypatch.setattr(tasks, "find", lambda name: lambda config, world: error())
    config = RunConfig("text", model="nano", out=str(tmp_path))
    start.train_on_rank(start.Prepared(config, config.plan(1), leads=True))


def test_other_errors_pass_through(monkeypatch, tmp_path):
    def mismatch() -> None:
        raise RuntimeError("shape mismatch")

    with pytest.raises(RuntimeError, match="shape mismatch"):
        fails_with(mismatch, monkeypatch, tmp_path)


def test_a_host_without_room_is_one_too(monkeypatch, tmp_path):
    said = r"rank 0 ran out of memory on cpu: it asked for .* more"
    with pytest.raises(oom.OutOfMemory, match=said):
        fails_with(lambda: torch.empty(2**60, dtype=torch.uint8), monkeypatch, tmp_path)


class Full(Strategy):
    """Rank 1 runs out of memory in its first step."""

    def step(self, lr):
        if self.world.rank == 1:
            raise torch.OutOfMemoryError(TEXT)
        return super().step(lr)


def train_with_a_full_rank(out):
    from dtlib import strategies

    strategies.available = lambda: {"ddp": Full}
    config = RunConfig("text", steps=2, num_samples=8, max_length=8, global_batch=2, out=out)
    return dtlib.train(config)


def test_a_rank_that_is_full_ends_the_run_with_the_sentence(tmp_path):
    with pytest.raises(oom.OutOfMemory) as raised:
        launcher.launch(
            train_with_a_full_rank, str(tmp_path / "run"), ranks=2, device="cpu", timeout=20
        )
    said = str(raised.value)
    assert said.startswith("rank 1 ran out of memory on cpu (40.0 GiB): it asked for 2.0 GiB more")
    assert "this run needs" in said and raised.value.exit_code == 1


def test_dtlib_sim_memory_says_what_would_fit(capsys):
    from dtlib import cli

    words = ["sim", "memory", "--model", "gpt2-xl", "--ranks", "4", "--micro-batch", "8"]
    words += ["--precision", "bf16", "--device"]
    assert cli.main([*words, "a100-40"]) == 0
    said = capsys.readouterr().out
    assert "With 90% of it in use, these would fit:\n  --micro-batch 2 --accumulation 4" in said
    assert cli.main([*words, "h100"]) == 0
    assert "would fit" not in capsys.readouterr().out
