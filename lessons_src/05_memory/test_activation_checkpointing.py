"""Checkpointing by hand: the gradients of plain autograd, bit for bit, and the bytes it saves."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint as torchs

from dtlib.models.gpt import GPT, GPTConfig
from dtlib.scratch.blocks import blocks_of

from .activation_checkpointing import (
    as_it_was,
    checkpoint,
    dice_of,
    saved_for_backward,
)

LAYERS, B, S, H, VOCAB = 3, 2, 5, 8, 11

WAYS = {
    "plain": lambda block, x: block(x),
    "by hand": checkpoint,
    "torch, reentrant": lambda block, x: torchs(block, x, use_reentrant=True),
    "torch": lambda block, x: torchs(block, x, use_reentrant=False),
}


def gpt(dropout=0.0):
    return GPT(GPTConfig(VOCAB, context=S, layers=LAYERS, heads=2, width=H, dropout=dropout))


def tokens():
    return torch.randint(0, VOCAB, (B, S), generator=torch.Generator().manual_seed(1))


def run(way, dropout=0.0, dtype=None, first_too=False):
    """Forward and backward of a GPT whose blocks are checkpointed in that way."""
    model = gpt(dropout)
    first, *blocks, last = blocks_of(model)
    torch.manual_seed(3)
    with (
        torch.autocast("cpu", dtype=dtype, enabled=dtype is not None),
        saved_for_backward(*model.parameters()) as saved,
    ):
        x = WAYS[way](first, tokens()) if first_too else first(tokens())
        for block in blocks:
            x = WAYS[way](block, x)
        inside = saved()
        loss = F.cross_entropy(last(x).flatten(0, 1), tokens().flatten())
    loss.backward()
    return loss, [p.grad for p in model.parameters()], torch.rand(1), inside


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("dtype", [None, torch.bfloat16], ids=str)
@pytest.mark.parametrize("way", [way for way in WAYS if way != "plain"])
def test_same_loss_gradients_and_random_numbers_bit_for_bit(way, dropout, dtype):
    plain, other = run("plain", dropout, dtype), run(way, dropout, dtype)
    assert torch.equal(plain[0], other[0])
    assert all(map(torch.equal, plain[1], other[1]))
    assert torch.equal(plain[2], other[2])  # the next number drawn after backward


def test_a_first_block_whose_input_needs_no_gradient_still_learns():
    plain, other = run("plain"), run("by hand", first_too=True)
    assert all(map(torch.equal, plain[1], other[1]))
    assert other[1][0].abs().sum() > 0


def test_between_the_passes_only_the_inputs_of_blocks_are_held():
    """L inputs of b·s·h fp32 numbers, beside what the embedding saves: tokens and positions."""
    indices = 8 * (B * S + S)
    assert run("by hand")[3] == indices + 4 * LAYERS * B * S * H
    # The embedding's input is its output's checkpoint, its tokens: no positions are kept.
    assert run("by hand", first_too=True)[3] == 8 * B * S + 4 * LAYERS * B * S * H
    assert run("plain")[3] > 5 * run("by hand")[3]


def test_a_linear_layer_saves_its_input_and_gelu_its_own():
    """What is counted, on a block whose saved tensors are known: [4, 8] and twice [4, 32]."""
    block = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8))
    x = torch.randn(4, 8, requires_grad=True)
    with saved_for_backward(*block.parameters()) as saved:
        block(x)
        assert saved() == 4 * 4 * (8 + 32 + 32)  # x, GELU's input, the second layer's input
        block(x)  # x is counted once, whoever saves it
        assert saved() == 4 * 4 * (8 + 2 * (32 + 32))


def test_other_arguments_and_no_grad():
    x, y = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3)
    out = checkpoint(lambda a, power, b: (a * b) ** power, x, 2, y)
    out.sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach() * y * y)
    with torch.no_grad():
        assert not checkpoint(torch.sin, x).requires_grad


class Dice:
    """A GPU's random numbers, as `torch.cuda` and `torch.mps` hand out their state."""

    def __init__(self):
        self.generator = torch.Generator().manual_seed(5)

    def get_rng_state(self):
        return self.generator.get_state()

    def set_rng_state(self, state):
        self.generator.set_state(state)


def test_a_gpus_own_random_numbers_are_drawn_again_and_then_go_on(monkeypatch):
    gpu = Dice()
    monkeypatch.setattr(torch, "get_device_module", lambda device: {"mps": gpu}[device])
    then = dice_of("mps")
    first = torch.rand(3, generator=gpu.generator), torch.rand(3)
    goes_on = dice_of("mps")
    with as_it_was("mps", then, (False, torch.bfloat16)):
        assert torch.equal(torch.rand(3, generator=gpu.generator), first[0])
        assert torch.equal(torch.rand(3), first[1])
    assert all(map(torch.equal, dice_of("mps"), goes_on))


def test_the_random_numbers_go_on_although_the_block_fails():
    then = dice_of("cpu")
    torch.rand(3)
    (now,) = dice_of("cpu")
    with pytest.raises(ZeroDivisionError), as_it_was("cpu", then, (False, torch.bfloat16)):
        raise ZeroDivisionError
    assert torch.equal(now, torch.get_rng_state())
