"""Lesson 05 says what is true: its predictions' options, and what it claims of torch."""

import pytest
import torch
from torch.nn import functional as F

from dtlib.learn import predictions, source
from dtlib.measure import ledger
from dtlib.measure.ledger.allocator import Allocations
from dtlib.sim import activations
from dtlib.sim.estimate import Setup, estimate
from tests.prediction_cases import right_options

from .activation_checkpointing import saved_for_backward
from .exercises import by_hand, chunked, fitting, recompute

LESSON = source.find("05")
SIDECAR = LESSON.sidecar
WEIGHT = torch.ones(3, 8, requires_grad=True)


@pytest.mark.parametrize(
    ("value", "right"),
    [
        (0.0, "there is none"),
        (-3.0, "it is lower, since the first step has to set everything up"),
        (8.0002, "it is higher by 8 bytes for every weight"),
        (16.0, "it is higher by 16 bytes for every weight"),
    ],
)
def test_one_option_of_the_prediction_is_right(value, right):
    assert right_options("05", "second_step", value) == [right]


@pytest.mark.parametrize(
    ("key", "value", "right", "wrong"),
    [
        ("flop_again", 30.95, [33, 30, 100 / 3], [100, 50, 25]),
        ("logits", 4.94, [4.94, 5], [1.65, 3.3, 0.4]),
    ],
)
def test_a_number_is_right_only_near_what_is_measured(key, value, right, wrong):
    spec = SIDECAR["predictions"][key]
    assert all(predictions.verdict(spec, guess, value) for guess in right)
    assert not any(predictions.verdict(spec, guess, value) for guess in wrong)


# --- The numbers of the prose -------------------------------------------------------------------


def test_the_first_lines_say_what_is_computed():
    """124 million weights, 0.5 GB; more than a card of 11 GB has; the rest is ten GB."""
    told = estimate(Setup("gpt2", "single", micro_batch=8))
    moment, most = told.peak()
    assert moment == "when backward begins"
    assert round(told.parameters / 1e6) == 124
    assert 0.45e9 < 4 * told.parameters < 0.55e9
    assert 11e9 < most < 11.5e9
    assert 10e9 < most - 4 * told.parameters < 11e9
    assert 1.9e9 < 4 * 4 * told.parameters < 2.05e9  # what an estimate by states alone says


def test_attention_keeps_less_than_the_half_that_is_counted():
    for width, heads in ((128, 4), (768, 12), (1600, 25)):
        block = activations.gpt_block(64, 8, width, heads, "fp32")
        half = by_hand.mlp_bytes(8, 64, width, "gelu")
        assert block / 2 < half < block


@pytest.mark.parametrize(
    ("operation", "numbers"),
    [
        (lambda x: F.linear(x, WEIGHT), 5 * 8),
        (F.gelu, 5 * 8),
        (lambda x: F.layer_norm(x, (8,)), 5 * (8 + 2)),
        (lambda x: x + 1.0, 0),
    ],
)
def test_the_table_of_what_operations_keep(operation, numbers):
    x = torch.randn(5, 8, requires_grad=True)
    with saved_for_backward(WEIGHT) as saved:
        operation(x)
        assert saved() == 4 * numbers


def test_relu_keeps_its_output_and_not_its_input():
    x = torch.randn(5, 8, requires_grad=True)
    for operation, kept in ((F.relu, 4 * 5 * 8), (F.gelu, 0)):
        with saved_for_backward(x) as saved:  # the input is not counted
            _ = operation(x)
            assert saved() == kept


def test_inside_of_a_function_nothing_is_recorded():
    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(torch.is_grad_enabled())
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            seen.append(torch.is_grad_enabled())
            return 2 * gradient

    Look.apply(torch.ones(1, requires_grad=True)).backward()
    assert seen == [False, False]


# --- The checks' own worlds ---------------------------------------------------------------------


def test_the_usual_wrong_ways_give_different_answers_in_the_first_world():
    states, each, (few, many), want, rest = fitting.WORLDS[0]
    small, large = ((b, states + b * each) for b in (few, many))
    budget = states + want * each + rest
    step = large[1] - small[1]
    ways = [
        want, want + 1, want - 1, budget // (small[1] // small[0]), budget // each,
        (budget - small[1]) // each, (budget - (small[1] - few * step)) // step,
        (budget - large[1]) // each, (budget - (large[1] - few * each)) // each,
        budget * many // large[1], many,
    ]  # fmt: skip
    assert len(set(ways)) == len(ways), ways
    assert fitting.largest_batch(budget, small, large) == want


@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_by_hand_is_what_autograd_saves(activation):
    for b, s, h in ((1, 1, 1), (2, 3, 8), (3, 5, 7)):
        assert by_hand.mlp_bytes(b, s, h, activation) == by_hand.measured(b, s, h, activation)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_plain_blocks_keep_more_than_their_inputs(dropout):
    plain, own = (
        recompute.passes(way, dropout, 3) for way in (recompute.plainly, recompute.checkpoint)
    )
    assert own.kept == 3 * recompute.INPUT < plain.kept / 3
    assert own.calls == (3, 6)
    assert plain.calls == (3, 3)
    assert own.next_number == plain.next_number


def test_a_check_leaves_the_random_numbers_as_they_were():
    torch.manual_seed(5)
    want = torch.rand(1)
    torch.manual_seed(5)
    recompute.EXERCISE.check(recompute.checkpoint)
    assert torch.equal(torch.rand(1), want)


def test_whole_logits_are_seen_in_forward_and_backward():
    with chunked.Largest() as seen:
        x = torch.ones(7, 3, requires_grad=True)
        (x @ torch.ones(3, 11)).sum().backward()
    assert seen.numel == 7 * 11


def test_a_chunked_loss_ends_at_three_times_the_weight_whatever_the_chunk():
    """The sum so far, the next chunk's part, and both added up, with hardly any logits."""
    weight = torch.randn(4096, 64, requires_grad=True)
    hidden, labels = torch.randn(64, 64, requires_grad=True), torch.arange(64)
    for chunk in (8, 2):
        weight.grad = hidden.grad = None
        with Allocations(torch.device("cpu")) as made:
            chunked.chunked_loss(hidden, weight, labels, chunk).backward()
        assert 3 * weight.nbytes < made.rise < 3.2 * weight.nbytes


def test_a_loss_in_a_list_keeps_no_activation_after_backward():
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
    losses, held = [], []
    for backward in (True, False):
        with ledger.watch(model) as page:
            losses.append(model(torch.randn(64, 8)).sum())
            if backward:
                losses[-1].backward()
        held.append(page.timeline[-1][0])
    assert held[0] == 0 < held[1]


def test_relu_in_place_keeps_as_much():
    kept = []
    for in_place in (False, True):
        half = torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.ReLU(in_place), torch.nn.Linear(32, 8)
        )
        with saved_for_backward(*half.parameters()) as saved:
            half(torch.randn(4, 8, requires_grad=True))
            kept.append(saved())
    assert kept[0] == kept[1]
