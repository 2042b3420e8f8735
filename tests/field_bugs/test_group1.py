"""Data parallel: what a gradient, a loss and an epoch mean, under every strategy."""

import contextlib
import itertools
from typing import Any

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from dtlib import launch, strategies
from dtlib.config.plan import cut
from dtlib.data.batches import order
from dtlib.ranks import dist
from dtlib.strategies.single import Single
from dtlib.training.loop import global_count
from tests.strategy_runs import CASES, TABLE, ZERO, plain, ranks_of
from tests.toy import IGNORED, Scale, Toy, as_batches, config, ready

DATA = range(8)


# field bug 1.01
def test_epochs_differ_and_ranks_agree_on_them_without_being_told():
    """torch's sampler repeats its order until set_epoch; ranks with other seeds miss a sample."""
    sampler = DistributedSampler(DATA, num_replicas=2, rank=0, seed=0)
    assert [list(sampler), list(sampler)] == [[4, 7, 2, 1]] * 2
    sampler.set_epoch(1)
    assert list(sampler) == [5, 2, 7, 1]
    seeds = [DistributedSampler(DATA, num_replicas=2, rank=r, seed=r) for r in range(2)]
    assert set(DATA) - set(itertools.chain(*seeds)) == {5}

    plan = cut(global_batch=4, micro_batch=None, accumulation=1, world_size=2)
    epochs = []
    for epoch in range(2):
        whole = order(8, seed=0, epoch=epoch)
        ranks = [
            torch.cat([step[plan.micro_slice(0, rank)] for step in whole.split(4)])
            for rank in range(2)
        ]
        assert sorted(torch.cat(ranks).tolist()) == list(DATA)
        epochs.append(whole.tolist())
    assert epochs[0] != epochs[1]


# field bug 1.02
@pytest.mark.parametrize(
    ("n", "world_size", "padded"),
    [(10, 3, [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]), (1, 4, [[0]] * 4)],
)
def test_what_torchs_sampler_pads_is_not_padded_here(n, world_size, padded):
    from dtlib.data.batches import split

    def sampled(rank: int, **more: Any) -> list[int]:
        settings = {"num_replicas": world_size, "rank": rank, "shuffle": False, **more}
        return list(DistributedSampler(range(n), **settings))

    assert [sampled(rank) for rank in range(world_size)] == padded
    if n > world_size:  # and what drop_last drops is lost
        kept = itertools.chain(*(sampled(r, drop_last=True) for r in range(world_size)))
        assert set(range(n)) - set(kept) == {9}
    shares = [split(n, rank, world_size).tolist() for rank in range(world_size)]
    assert sorted(itertools.chain(*shares)) == list(range(n))


class Values(Toy):
    """Held-out numbers 0 to 8 in batches of two, of which the loss is the number itself."""

    def loss_sum(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (logits[:, 0] * (labels != IGNORED)).sum()

    def evaluation_batches(self) -> int:
        return 5

    def evaluation_batch(self, number: int):
        part = torch.arange(9.0)[2 * number : 2 * number + 2]
        return torch.stack([part, part], dim=1), torch.zeros(len(part), dtype=torch.long)


def scored() -> tuple[float, float]:
    """Mean loss of the evaluation, and the mean of what each batch's mean was."""
    settings = config(strategy="single")
    task = Values(settings, dist.world(), [])
    strategy = ready(Single, settings, task.model)
    means = [task.evaluation_batch(n)[0][:, 0].mean() for n in range(5)]
    return task.evaluate(strategy)["loss"], torch.stack(means).mean().item()


# field bug 1.03
def test_a_metric_is_reduced_last():
    """The mean of 0 to 8 is 4.0; a mean of the batches' means would give 4.4, padded or not."""
    for mean, of_means in launch(scored, ranks=2, timeout=20):
        assert mean == 4.0
        assert of_means == pytest.approx(4.4)


SPREAD = [name for name in plain([*CASES, *ZERO]) if ranks_of(name, 2) == 2 and not TABLE[name].gpt]
TORCH = [name for name in SPREAD if TABLE[name].framework == "torch"]
FRAMEWORKS = [name for name in SPREAD if name not in TORCH]
SPLITS = {  # micro-batches of each rank, and the gradient: the mean over all that counts
    "one token against three": ([[[4]], [[1, 1, 1]]], 1.75),  # the mean of the means is 2.5
    "a mean and not a sum": ([[[1]], [[3]]], 2.0),
    "accumulation": ([[[2], [2], [2], [2]]] * 2, 2.0),  # neither 0.5 nor 8
    "a micro-batch without labels": ([[[4], [1]], [[None], [1, 1]]], 1.75),
    "no label at all": ([[[None]], [[None]]], 0.0),
}


def steps_of(name: str, by_rank: list[list[list[Any]]], steps: int) -> list[float]:
    """Take steps of SGD at lr 0.1 from 1; return the weight after each, as far as it is here."""
    world = dist.world()
    accumulation = len(by_rank[0])
    total = 4 * accumulation * world.world_size
    settings = config(strategy=name, lr=0.1, global_batch=total, accumulation=accumulation)
    toy = Toy(settings, world, [])
    toy.model = Scale(dimensions=1)
    weights = []
    with contextlib.closing(ready(strategies.find(name), settings, toy.model)) as strategy:
        for _ in range(steps):
            batches = as_batches(by_rank[world.rank])
            count = global_count(toy, strategy, batches)
            strategy.accumulate(toy, batches, count)
            strategy.step(lr=0.1)
            if "w" not in TABLE[name].cuts:  # the others have it whole on every rank
                weights.append(strategy.module.w.item())
        model = strategy.state()["model"]  # whole on rank 0 at least
        return [*weights, *([model["w"].item()] if world.rank == 0 else [])]


def survey(names: list[str]) -> dict[tuple[str, str], list[float]]:
    """All cases under all strategies in one launch: frameworks take seconds to be imported."""
    uneven = [[[1.0], [2.0]], [[2.0], [2.0]]]
    found = {(name, "replicas"): steps_of(name, uneven, 3) for name in names}
    for case, (by_rank, _) in SPLITS.items():
        found |= {(name, case): steps_of(name, by_rank, 1) for name in names}
    return found


@pytest.fixture(
    scope="module",
    params=[TORCH, pytest.param(FRAMEWORKS, marks=pytest.mark.slow)],
    ids=["torch", "frameworks"],
)
def surveyed(request) -> tuple[list[str], list[dict[tuple[str, str], list[float]]]]:
    names = request.param
    return names, launch(survey, names, ranks=2, timeout=60)


# field bugs 1.05, 1.06 and 1.07
@pytest.mark.parametrize("case", SPLITS)
def test_the_gradient_means_the_same_under_every_strategy(surveyed, case):
    """SGD shows it: the weight moves by -0.1 times the mean over all that counts."""
    names, by_rank = surveyed
    found = {name: by_rank[0][name, case][-1] for name in names}
    expected = 1 - 0.1 * SPLITS[case][1]
    assert found == pytest.approx(dict.fromkeys(names, expected), abs=1e-6)  # fp32 rounding


# field bug 1.09
def test_replicas_are_equal_after_every_step_under_every_strategy(surveyed):
    names, (first, second) = surveyed
    for name in names:  # rank 0 has the whole weight as a last entry
        steps = first[name, "replicas"][:-1]
        assert steps == second[name, "replicas"]
        assert len(steps) == (0 if "w" in TABLE[name].cuts else 3)
    ends = [first[name, "replicas"][-1] for name in names]
    assert ends == pytest.approx([1 - 3 * 0.1 * 1.75] * len(ends), abs=1e-6)


# field bug 1.07
def test_adam_would_not_have_shown_it():
    """Four times the gradient moves SGD four times as far, and Adam not at all further."""
    moved = {}
    for optimizer in ("sgd", "adamw"):
        for factor in (1, 4):
            eps = {"adam_eps": 1e-30} if optimizer == "adamw" else {}
            strategy = ready(Single, config(optimizer=optimizer, **eps), Scale())
            strategy.backward(strategy.model(torch.tensor([2.0 * factor])).sum(), torch.tensor(1))
            strategy.step(lr=0.1)
            moved[optimizer, factor] = strategy.module.w.item() - 1
    assert [moved["sgd", f] for f in (1, 4)] == pytest.approx([-0.2, -0.8])
    assert [moved["adamw", f] for f in (1, 4)] == pytest.approx([-0.1, -0.1])


def gradients_of_wrong_halves() -> list[float]:
    """What torch's DDP gives for each way to place no_sync; inputs are 1 and 3."""
    x = torch.tensor([1.0 + 2 * dist.world().rank])
    found = []
    for forward_inside, backward_inside in ((False, True), (True, False)):
        model = DistributedDataParallel(Scale())
        with model.no_sync() if forward_inside else contextlib.nullcontext():
            loss = model(x).sum()
            if forward_inside and backward_inside:
                loss.backward()
        with model.no_sync() if backward_inside else contextlib.nullcontext():
            loss.backward()
        found.append(model.module.w.grad.item())
    past = DistributedDataParallel(Scale())
    past.module(x).sum().backward()
    return [*found, past.module.w.grad.item()]


# field bug 1.09
def test_why_forward_and_backward_are_inside_together():
    """Sync is decided in forward: only forward inside leaves ranks apart; so does the bare module.

    A strategy's `micro_step` is around both, and the loop calls `strategy.model`.
    """
    assert launch(gradients_of_wrong_halves, ranks=2, timeout=20) == [
        [2.0, 1.0, 1.0],
        [2.0, 3.0, 3.0],
    ]
