"""Checkpoints know no strategy and no number of ranks: save under one, go on under another."""

from typing import Any

import pytest
import torch

import dtlib
from dtlib import launch, strategies
from dtlib.errors import DtlibError
from dtlib.models import gpt
from dtlib.ranks import dist
from dtlib.strategies.single import Single
from dtlib.training import start
from dtlib.training.checkpoint import Checkpoints
from dtlib.training.record import Run
from tests.strategy_runs import (
    CASES,
    SMALL,
    TABLE,
    ZERO,
    by_ranks,
    figures,
    plain,
    ranks_of,
    settings_of,
    state,
)  # fmt: skip
from tests.toy import config, ready

pytestmark = pytest.mark.usefixtures("own_folder")

# The first losses are near 7 and rounded at 2^-24 · 8 = 5e-7; in 20 steps a few roundings add up.
# Measured: 2.4e-6.
CLOSE = 1e-5
SHORT = [("zero3" if ZERO else "ddp", 2), ("fsdp", 3), ("single", 1)]


def chain(names: list[str]) -> list[tuple[str, int]]:
    """What resumes what, at which number of ranks: every row saves, and every one resumes."""
    links = [(name, ranks_of(name, 3 - place % 2)) for place, name in enumerate(names)]
    return [("single", 1), *links, ("ddp", 3)]


EXACT = [name for name in (*CASES, *ZERO) if TABLE[name].close <= CLOSE]
CHAINS = [
    ("adamw", chain([name for name in EXACT if name in plain(EXACT) or TABLE[name].cuts])),
    # Of SGD's momentum the same file is read: by those alone that shard it.
    ("sgd", chain([name for name in EXACT if "o" in TABLE[name].cuts])),
    *(("adamw", chain([name])) for name in (*CASES, *ZERO) if name not in EXACT),
]


def drawn_state(model: torch.nn.Module, optimizer: str) -> dict[str, Any]:
    """Return a neutral state of random numbers, the same on every rank."""
    generator = torch.Generator().manual_seed(7)

    def draw() -> dict[str, torch.Tensor]:
        return {n: torch.rand(p.shape, generator=generator) for n, p in model.named_parameters()}

    kinds = {"adamw": ("exp_avg", "exp_avg_sq"), "sgd": ("momentum_buffer",)}[optimizer]
    found = ready(Single, config(strategy="single", global_batch=12), model).state()
    return {**found, "model": draw(), "optimizer": {kind: draw() for kind in kinds}, "steps": 41}


def small_gpt() -> gpt.GPT:
    # 3 rows of positions on 2 ranks, 7 words on 3: shards are uneven, and some are empty
    return gpt.GPT(gpt.GPTConfig(vocab_size=7, context=3, layers=2, heads=2, width=8))


def what_changes(names: list[str], optimizer: str) -> list[str]:
    """Load a state into each strategy and take it out again; name what is not the same bits."""
    expected = drawn_state(small_gpt(), optimizer)
    different = []
    for name in names:
        settings = config(**settings_of(name), optimizer=optimizer, momentum=0.9, global_batch=12)
        strategy = ready(strategies.find(settings.strategy), settings, small_gpt())
        strategy.load_state(expected)
        found = strategy.state()
        strategy.close()
        if dist.is_main():
            different += [f"{name}: {what}" for what in differing(found, expected)]
    return different


def differing(found: Any, expected: Any, at: str = "") -> list[str]:
    """Return the paths at which two states differ in any bit."""
    if isinstance(expected, dict):
        if found.keys() != expected.keys():
            return [f"{at}: {sorted(found)} and not {sorted(expected)}"]
        return [
            path for key in expected for path in differing(found[key], expected[key], f"{at}/{key}")
        ]
    same = torch.equal(found, expected) if isinstance(expected, torch.Tensor) else found == expected
    return [] if same else [at]


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_state_that_is_loaded_comes_out_with_the_same_bits(optimizer):
    """Whoever saved it: the neutral form is all that a checkpoint has."""
    names = [name for name in CASES if name != "lightning"]  # ddp's state, and 3 s to import
    for ranks, those in by_ranks(names, 3).items():
        assert launch(what_changes, those, optimizer, ranks=ranks, timeout=60)[0] == []


@pytest.mark.spread
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_a_state_that_is_loaded_comes_out_of_every_strategy(optimizer, ranks):
    for number, names in by_ranks([*CASES, *ZERO], ranks).items():
        assert launch(what_changes, names, optimizer, ranks=number, timeout=60)[0] == []


def go_on(chain: list[tuple[str, int]], **settings: Any) -> Run:
    """Take two steps under each strategy in turn, each from the last one's checkpoint."""
    for number, (name, ranks) in enumerate(chain, start=1):
        run = dtlib.train(
            "text",
            ranks,
            **{**SMALL, **settings, **settings_of(name), "steps": 2 * number},
            out="chain",
            resume=True,
        )
    return run


def assert_it_goes_on(chain: list[tuple[str, int]], **settings: Any) -> None:
    settings |= {"clip": 1.0}
    steps = 2 * len(chain)
    expected = dtlib.train("text", 1, strategy="single", **{**SMALL, **settings, "steps": steps})
    run = go_on(chain, **settings)
    assert [line["step"] for line in run.history] == list(range(1, steps + 1))
    close = max([CLOSE, *(TABLE[name].close for name, _ in chain)])
    assert figures(run)["losses"] == pytest.approx(figures(expected)["losses"], abs=close)
    assert figures(run)["norms"] == pytest.approx(figures(expected)["norms"], abs=close)
    found, reference = state(run), state(expected)
    assert found["steps"] == reference["steps"] == steps
    assert found["model"].keys() == reference["model"].keys()
    for kind, moments in reference["optimizer"].items():
        assert found["optimizer"][kind].keys() == moments.keys() == found["model"].keys()


def test_the_loss_goes_on_as_if_nothing_had_happened(story):
    assert_it_goes_on(SHORT, data=story)


@pytest.mark.spread
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("optimizer", "chain"), CHAINS, ids=[f"{o}-{len(c)}-{c[1][0]}" for o, c in CHAINS]
)
def test_the_loss_goes_on_through_every_strategy(story, optimizer, chain):
    assert_it_goes_on(chain, data=story, optimizer=optimizer)


class ShowsEmpty(Single):
    """What a framework does that shards weights: what is asked for its tensors has empty ones."""

    def whole(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.new_empty(0)


def test_a_checkpoint_of_empty_tensors_is_not_written(story, tmp_path, monkeypatch):
    monkeypatch.setattr(strategies, "find", lambda name: ShowsEmpty)
    settings = {**SMALL, "strategy": "single", "data": story, "out": "empty", "steps": 1}
    said = r"no checkpoint of step 1 was written: wte.weight \(model\) is empty instead of 27×128"
    with pytest.raises(DtlibError, match=said):
        start.train_on_rank(start.prepare(dtlib.RunConfig("text", **settings)))
    assert Checkpoints(tmp_path / "empty" / "checkpoints").latest() is None
