"""The loss in pieces beside the plain one, and what a step never has: all of its logits."""

import shutil

import pytest
import torch
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from dtlib import launch
from dtlib.config import RunConfig
from dtlib.models.gpt import GPT, GPTConfig
from dtlib.ranks import dist
from dtlib.sim import activations
from dtlib.training.tasks.text import Text
from tests.strategy_runs import HERE, train_each

CONFIG = GPTConfig(vocab_size=61, context=16, layers=1, heads=2, width=8)
TOKENS = torch.randint(0, 61, (3, 7), generator=torch.Generator().manual_seed(0))
LABELS = TOKENS.flip(1).masked_fill(TOKENS % 5 == 0, -100)


class Largest(TorchDispatchMode):
    """Notes the most elements of any tensor of at least fp32 that an operation returns."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in tree_leaves(out):
            if isinstance(t, torch.Tensor) and t.is_floating_point() and t.element_size() >= 4:
                self.most = max(self.most, t.numel())
        return out


@pytest.fixture(autouse=True)
def _pieces(monkeypatch):
    monkeypatch.setattr(activations, "CHUNK", 4 * 61)


def step(call, autocast=False, dtype=torch.float64) -> tuple[list[torch.Tensor], int]:
    """Return loss and gradients of a step, and the elements of its largest tensor."""
    model = GPT(CONFIG, seed=1).to(dtype)
    with Largest() as largest:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = call(model)
        (loss * 0.25).backward()
    return [loss.detach(), *(p.grad for p in model.parameters())], largest.most


def plain(model):
    return F.cross_entropy(model(TOKENS).flatten(0, 1), LABELS.flatten(), reduction="sum")


def pieces(model):
    return model(TOKENS, LABELS)


@pytest.mark.parametrize(
    ("dtype", "autocast", "close"),
    [(torch.float64, False, 1e-12), (torch.float32, False, 1e-5), (torch.float32, True, 2e-2)],
)
def test_the_loss_in_pieces_and_its_gradients_are_those_of_the_whole(dtype, autocast, close):
    (expected, whole), (found, largest) = (step(c, autocast, dtype) for c in (plain, pieces))
    for a, b in zip(expected, found, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(b, a, rtol=close, atol=close)
    assert whole == TOKENS.numel() * CONFIG.vocab_size
    assert largest <= TOKENS.numel() * 4 * CONFIG.width  # inside the MLP; a piece has fewer


def test_all_labels_ignored_is_a_loss_and_a_gradient_of_0():
    found, _ = step(lambda model: model(TOKENS, torch.full_like(LABELS, -100)))
    assert all(not tensor.any() for tensor in found)


def test_a_compiled_model_has_the_same_loss_in_one_graph():
    found, _ = step(pieces)
    model = GPT(CONFIG, seed=1).double()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    loss = compiled(TOKENS, LABELS)
    (loss * 0.25).backward()
    torch.testing.assert_close([loss.detach(), *(p.grad for p in model.parameters())], found)


def trained(names, large, **settings):
    activations.CHUNK = large
    return train_each(names, **settings)


@pytest.mark.usefixtures("own_folder")
def test_strategies_train_to_the_same_losses_in_pieces(story):
    names = [name for name in ("ddp", "fsdp", "zero3") if name in HERE]
    whole = launch(trained, names, 2**26, data=story, steps=2, ranks=2, timeout=100)[0]
    for name in names:
        shutil.rmtree(name)
    found = launch(trained, names, 300, data=story, steps=2, ranks=2, timeout=100)[0]
    for name in names:
        assert found[name]["losses"] == pytest.approx(whole[name]["losses"], abs=1e-5)


def test_fp16_keeps_its_logits_whole_since_only_a_scaled_loss_keeps_small_gradients(story):
    task = Text(RunConfig("text", model="nano", data=story, precision="fp16"), dist.world())
    asked = []

    def model(inputs: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        asked.append(labels)
        return task.model(inputs)

    inputs = labels = torch.zeros(1, 64, dtype=torch.int64)
    task.training_loss(model, inputs, labels)
    assert asked == [None]
