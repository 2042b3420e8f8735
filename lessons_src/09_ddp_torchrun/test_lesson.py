"""Lesson 09 says what is true: its predictions, its quiz, its sentences, the numbers it names."""

import pytest
import torch
from torch.utils.data import DistributedSampler

from dtlib.learn import source
from dtlib.learn.quiz import drawn
from dtlib.ranks.launcher import launch
from tests.prediction_cases import right_options

from .bank import indices as bank
from .exercises import ddp_loss, exact_mean, indices

LESSON = source.find("09")
SIDECAR = LESSON.sidecar


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("two_against_one", "identical, bit for bit", "identical, bit for bit"),
        ("another_cut", 0.0, "exactly 0"),
        ("another_cut", 1.2e-7, "about 1e-7, what fp32 rounds to"),
        ("another_cut", 5e-6, "well above rounding, and growing"),
        ("another_cut", 0.02, "a percent or more"),
    ],
)
def test_one_option_of_a_prediction_is_right(key, value, right):
    assert right_options("09", key, value) == [right]


@pytest.mark.parametrize(
    ("runs", "begins"),
    [
        ([], "Say that you measure 150 images/s"),
        ([{"lesson": "09", "what": "throughput of a rank", "measured": "88.2"}],
         "You measured 88 images/s"),
    ],
)  # fmt: skip
def test_the_quiz_says_you_measured_only_to_one_who_has(runs, begins):
    question = drawn(SIDECAR["quiz"], runs)[0]["variants"][0]
    assert question["text"].startswith(begins)
    assert 'learn.my_run("throughput of a rank"' in LESSON.text


# --- What the lesson and its checks claim of torch ----------------------------------------------


def test_the_sampler_pads_as_the_table_shows():
    hands = [list(DistributedSampler(range(10), 3, r, shuffle=False)) for r in range(3)]
    assert hands == [[0, 3, 6, 9], [1, 4, 7, 0], [2, 5, 8, 1]]  # field bug 1.02
    values = [[float(i) for i in hand] for hand in hands]
    assert exact_mean.dealt(tuple(map(float, range(10))), 3) == values


def test_the_reference_deals_like_torchs_sampler():
    """Field bug 1.01: [4, 7, 2, 1] in every epoch without set_epoch, then [5, 2, 7, 1]."""
    assert [indices.EXERCISE.reference(8, 0, epoch, 0, 2) for epoch in (0, 1)] == [
        [4, 7, 2, 1],
        [5, 2, 7, 1],
    ]
    for samples, n, epoch in ((10, 3, 2), (1, 4, 0), (12, 4, 5)):
        for rank in range(n):
            sampler = DistributedSampler(range(samples), n, rank, seed=3)
            sampler.set_epoch(epoch)
            assert indices.EXERCISE.reference(samples, 3, epoch, rank, n) == list(sampler)


def test_only_an_answer_that_seeds_the_global_generator_gets_a_remark():
    def draws_and_seeds_none(*given):
        torch.rand(3)
        return bank.torchs_own(*given)

    answers = bank.seeds_everything, bank.by_a_hash_of_numbers, bank.torchs_own, bank.by_numpy
    notes = [indices.EXERCISE.check(one).note for one in (*answers, draws_and_seeds_none)]
    assert ["remark" in note for note in notes] == [True, True, False, False, False]
    assert "generator of torch," in notes[0] and "generator of Python," in notes[1]


def gradient(loss_of):
    from torch.nn.parallel import DistributedDataParallel

    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    x = [torch.tensor([4.0]), torch.ones(3)][torch.distributed.get_rank()]
    ddp = DistributedDataParallel(model)  # a name keeps it alive: without it nothing is averaged
    loss_of(ddp(x[:, None]).flatten()).backward()
    return model.weight.grad.item()


@pytest.mark.parametrize(("loss_of", "expected"), [(torch.mean, 2.5), (ddp_loss.ddp_loss, 1.75)])
def test_ddp_averages_ranks_and_not_samples(loss_of, expected):
    """Field bug 1.06: one token on rank 0, three on rank 1."""
    assert launch(gradient, loss_of, ranks=2, timeout=20, show=False) == [expected] * 2
