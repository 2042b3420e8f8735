"""What lesson 14 says of Accelerate is true: of its loaders, its schedules, its silence."""

import os
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dtlib.learn import source
from dtlib.ranks.launcher import launch
from tests.prediction_cases import right_options

from .exercises import accuracy, batches, schedule
from .what_if import prepared_schedule, rate_left

SIDECAR = source.find("14").sidecar


def counted(settings: list[batches.Setting]) -> list[tuple[int, int]]:
    """For each setting the samples that a rank takes in a full step, and the steps of an epoch."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState
    from accelerate.utils import DataLoaderConfiguration
    from torch.utils.data import DataLoader

    found = []
    for s in settings:
        config = DataLoaderConfiguration(split_batches=s.split_batches)
        accelerator = Accelerator(
            cpu=True, gradient_accumulation_steps=s.accumulation, dataloader_config=config
        )
        loader: Any = DataLoader(list(range(s.samples)), batch_size=s.batch_size)  # type: ignore[arg-type]
        steps = largest = taken = 0
        for batch in accelerator.prepare(loader):
            with accelerator.accumulate():
                taken += len(batch)
                if accelerator.sync_gradients:
                    steps, largest, taken = steps + 1, max(largest, taken), 0
        found.append((largest, steps))
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()
    return found


@pytest.mark.parametrize("ranks", [1, 3, 4])
def test_batches_and_steps_are_those_of_accelerates_own_loaders(ranks: int) -> None:
    settings = [s for s in batches.SETTINGS if s.num_processes == ranks]
    everyone = launch(counted, settings, ranks=ranks, device="cpu", show=False, timeout=30)
    for k, setting in enumerate(settings):
        together = sum(rank[k][0] for rank in everyone)
        assert (together, everyone[0][k][1]) == batches.batch_and_steps(*setting), setting


def prepared_rates(steps: int) -> list[float]:
    from . import rehearsal

    accelerator = rehearsal.accelerator()
    optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=1.0)
    line = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, steps)
    optimizer, line = accelerator.prepare(optimizer, line)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        line.step()
    return seen


def test_the_what_if_computes_what_a_prepared_scheduler_does() -> None:
    seen = launch(prepared_rates, 12, ranks=3, device="cpu", show=False, timeout=30)[0]
    assert seen == pytest.approx([rate_left(k, 12, 3) for k in range(12)], abs=1e-9)
    assert "the rate is 0 from step 25 on, and 75 %" in prepared_schedule(4, 100)["says"]


def test_the_checks_loop_does_what_accelerate_does() -> None:
    def plain(optimizer: Any, steps: int, num_processes: int) -> Any:
        return torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, steps)

    _, arguments = schedule.case(3)
    here = schedule.run(plain, *arguments())[: schedule.STEPS]
    there = launch(prepared_rates, schedule.STEPS, ranks=3, device="cpu", show=False, timeout=30)[0]
    assert here == pytest.approx([schedule.RATE * rate for rate in there], abs=1e-9)


def held(plain: bool) -> tuple[str, str, int, float]:
    """What an FSDP configuration gives: type, wrapper, numbers held, loss of the second step."""
    from accelerate import Accelerator

    from . import rehearsal

    os.environ.update(ACCELERATE_USE_FSDP="true", FSDP_VERSION="2", FSDP_MIN_NUM_PARAMS="10")
    os.environ["FSDP_AUTO_WRAP_POLICY"] = "SIZE_BASED_WRAP"
    accelerator = Accelerator(cpu=True) if plain else rehearsal.accelerator()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    x = torch.arange(16.0).reshape(2, 8) / 16
    for _ in range(2):
        loss = model(x).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    numbers = sum(
        (p.to_local() if hasattr(p, "to_local") else p).numel() for p in model.parameters()
    )
    return accelerator.distributed_type.name, type(model).__name__, numbers, loss.item()


def test_fsdp_on_cpu_ranks_is_ddp_without_a_word_and_fsdp_in_rehearsal() -> None:
    silent = launch(held, True, ranks=2, device="cpu", show=False, timeout=60)
    sharded = launch(held, False, ranks=2, device="cpu", show=False, timeout=60)
    assert [found[:3] for found in silent] == [("MULTI_CPU", "DistributedDataParallel", 81)] * 2
    assert [found[:2] for found in sharded] == [("FSDP", "FSDPSequential")] * 2
    assert sum(found[2] for found in sharded) == 81
    # the same two ranks add the same two gradients, in fp32
    assert sharded[0][3] == pytest.approx(silent[0][3], rel=1e-6)


def refused(shards: int, plain: bool) -> str:
    from accelerate import Accelerator, ParallelismConfig

    from . import rehearsal

    os.environ.update(ACCELERATE_USE_FSDP="true", FSDP_VERSION="2")
    sizes = ParallelismConfig(dp_shard_size=shards)
    try:
        if plain:
            Accelerator(cpu=True, parallelism_config=sizes)
        else:
            rehearsal.accelerator(parallelism=sizes)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("shards", "plain", "says"),
    [(2, True, "but got DistributedType.MULTI_CPU"), (3, False, "does not match num_processes"),
     (2, False, "")],
)  # fmt: skip
def test_a_mesh_needs_as_many_ranks_as_its_sizes_say(shards: int, plain: bool, says: str) -> None:
    found = launch(refused, shards, plain, ranks=2, device="cpu", show=False, timeout=60)
    assert all(bool(error) == bool(says) and says in error for error in found)


def believed() -> tuple[str, int, str]:
    from accelerate import Accelerator

    os.environ["ACCELERATE_USE_FSDP"] = "true"
    accelerator = Accelerator()
    model = accelerator.prepare(torch.nn.Linear(2, 2))
    return accelerator.distributed_type.name, accelerator.num_processes, type(model).__name__


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, which Accelerate takes")
def test_without_a_gpu_and_cpu_true_every_process_trains_alone() -> None:
    assert launch(believed, ranks=2, show=False, timeout=60) == [("NO", 1, "Linear")] * 2


def test_a_variable_goes_before_the_constructors_accumulation() -> None:
    def divides_by() -> int:
        from . import rehearsal

        os.environ["ACCELERATE_GRADIENT_ACCUMULATION_STEPS"] = "2"
        return rehearsal.accelerator(4).gradient_accumulation_steps

    assert launch(divides_by, ranks=1, device="cpu", show=False, timeout=60) == [2]


def test_ranks_beyond_the_gpus_are_cpu_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    from . import rehearsal

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.delenv("RANK", raising=False)
    assert not rehearsal._on_cpu_ranks()
    monkeypatch.setenv("RANK", "0")
    for ranks, on_cpu in (("1", False), ("2", True)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
        assert rehearsal._on_cpu_ranks() == on_cpu


@pytest.mark.parametrize(
    ("value", "right"), [(1.0, "1, since"), (0.5, "0.5, since"), (0, "the last")]
)
def test_one_option_of_the_tail_is_right(value: float, right: str) -> None:
    found = right_options("14", "tail_gradient", value)
    assert len(found) == 1 and found[0].startswith(right)


def test_the_words_that_the_lesson_measures_are_options() -> None:
    texts = {o["text"] for o in SIDECAR["predictions"]["fsdp_without_a_gpu"]["options"]}
    lesson = source.find("14").text
    for words in ("DDP, each rank holding all of the model, without a word",
                  "FSDP, each rank holding a half of the model"):  # fmt: skip
        assert words in texts and words in lesson


@pytest.mark.parametrize(("messages", "note"), [([], accuracy.ALONE), ([object()], "")])
def test_scoring_the_whole_data_set_on_every_rank_gets_a_remark(
    messages: list[Any], note: str
) -> None:
    rank = SimpleNamespace(got=0.5, want=0.5, messages=messages)
    assert accuracy.passed([[rank]]).note == note
