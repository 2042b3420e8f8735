"""Stage 3's schedule, with no process at all: what is whole when, and what is sent."""

import pytest
import torch
from torch import nn

from dtlib.errors import BadInput
from dtlib.models.gpt import GPT, GPTConfig
from dtlib.scratch.blocks import blocks_of, needs
from dtlib.scratch.zero.schedule import (
    AllGather,
    Backward,
    Forward,
    Free,
    OptimizerStep,
    ReduceScatter,
    schedule,
)
from tests.scratch_cases import elements_sent, most_gathered

THREE = [[0], [1], [2]]
TIED = [[0], [1], [0, 2]]  # the last block also computes with the first one's weight
PSI = {0: 10, 1: 20, 2: 7}


def carry_out(steps, wanted):
    """Follow a schedule and refuse what a worker could not do."""
    whole, outputs, gradients = set(), [], {}
    for step in steps:
        match step:
            case AllGather(k):
                assert k not in whole
                whole.add(k)
            case Free(k):
                whole.remove(k)
            case Forward(k):
                assert whole >= set(wanted[k])
                assert len(outputs) == k
                outputs.append(k)
            case Backward(k):
                assert whole >= set(wanted[k])
                assert outputs.pop() == k
                for owner in wanted[k]:
                    gradients.setdefault(owner, set()).add(k)
            case ReduceScatter(k):
                assert gradients.pop(k) == {user for user, used in enumerate(wanted) if k in used}
            case OptimizerStep():
                assert not (whole or outputs or gradients)


@pytest.mark.parametrize("wanted", [THREE, TIED, [[0]], [[0], [], [2]], [[], [1], [1]], []])
@pytest.mark.parametrize("micro_batches", [1, 3])
def test_every_instruction_finds_what_it_needs(wanted, micro_batches):
    steps = schedule(wanted, micro_batches)
    carry_out(steps, wanted)
    owners = {owner for used in wanted for owner in used}
    assert steps.count(OptimizerStep()) == 1
    for kind, times in ((AllGather, 2), (Free, 2), (ReduceScatter, 1)):
        done = [step.block for step in steps if isinstance(step, kind)]
        assert sorted(done) == sorted([*owners] * times * micro_batches)
    for kind in (Forward, Backward):
        assert sum(isinstance(step, kind) for step in steps) == len(wanted) * micro_batches


def test_two_blocks_word_by_word():
    assert schedule([[0], [1]]) == [
        AllGather(0), Forward(0), Free(0), AllGather(1), Forward(1), Free(1),
        AllGather(1), Backward(1), Free(1), ReduceScatter(1),
        AllGather(0), Backward(0), Free(0), ReduceScatter(0), OptimizerStep(),
    ]  # fmt: skip
    assert AllGather(0) != Forward(0)  # instructions of two kinds are never equal


def test_only_one_block_is_whole_at_a_time_unless_two_are_tied():
    assert most_gathered(schedule(THREE), PSI) == 20
    # The tied weight stays whole from its first use to its last: sent once, held longer.
    assert most_gathered(schedule(TIED), PSI) == 30


@pytest.mark.parametrize("wanted", [THREE, TIED])
@pytest.mark.parametrize("k", [1, 4])
def test_three_psi_are_sent_a_micro_batch(wanted, k):
    # ⌈10/4⌉ + ⌈20/4⌉ + ⌈7/4⌉ = 10 elements a shard, times N - 1 = 3 that a ring passes on.
    assert elements_sent(schedule(wanted, k), PSI, 4) == 3 * k * 3 * 10
    assert elements_sent(schedule(wanted, k), PSI, 1) == 0


def test_blocks_of_a_gpt_are_the_gpt_and_share_its_embedding():
    gpt = GPT(GPTConfig(vocab_size=11, context=4, layers=2, heads=2, width=8))
    blocks = blocks_of(gpt)
    tokens = x = torch.tensor([[1, 2, 3]])
    for block in blocks:
        x = block(x)
    assert torch.equal(x, gpt(tokens))
    assert needs(blocks) == [[0], [1], [2], [0, 3]]
    assert {p for b in blocks for p in b.parameters()} == set(gpt.parameters())


def test_blocks_without_parameters_and_models_without_blocks():
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2).requires_grad_(False))
    assert needs(blocks_of(model)) == [[0], [], []]
    with pytest.raises(BadInput, match=r"a Linear has no known blocks: give a GPT, or an nn\.Seq"):
        blocks_of(nn.Linear(2, 2))
