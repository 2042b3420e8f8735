"""Lesson 08 says what is true: its predictions, its quiz, and what it says of torch's DDP."""

import inspect

import pytest
import torch.distributed as dist
from torch.nn.parallel import distributed

from dtlib.learn import predictions, source
from dtlib.learn.quiz import drawn
from dtlib.ranks.launcher import launch
from dtlib.sim import collectives

from . import what_if as overlap
from .exercises import EXERCISES
from .exercises.overlap_world import ADAMW, MICRO, ORDER, PLAIN, SGD, run
from .timed import network

LESSON = source.find("08")
SIDECAR = LESSON.sidecar


@pytest.mark.parametrize(
    ("value", "right"),
    [(0.5, "about a half"), (0.8, "near 1"), (1.0, "near 1"), (1.2, "clearly above 1")],
)
def test_one_option_of_a_prediction_is_right(value, right):
    spec = SIDECAR["predictions"]["same_cores"]
    found = [o["text"] for o in spec["options"] if predictions.verdict(spec, o["text"], value)]
    assert [text.startswith(right) for text in found] == [True]
    assert all(option["why"] for option in spec["options"])


def test_the_network_of_the_prediction_is_the_one_that_is_trained():
    assert "A network has 6 blocks" in SIDECAR["predictions"]["messages"]["question"]
    assert "model = network(8, 6, seed=rank)" in LESSON.text
    assert len(list(network(8, 6).parameters())) == 6 * 4


def test_quiz_has_one_right_answer_in_every_draw():
    questions = drawn(SIDECAR["quiz"], [])
    assert 3 <= len(questions) <= 5
    for question in questions:
        for variant in question["variants"]:
            texts = [o["text"] for o in variant["options"]]
            assert len(set(texts)) == len(texts), texts
            assert not any(text.startswith("-") for text in texts), texts
            assert sum(o["right"] for o in variant["options"]) == 1
    assert {"07"} <= {q["from"] for q in questions}
    assert any(q["variants"][0]["output"] for q in questions)


@pytest.mark.parametrize(
    ("measured", "begins", "waits"), [(None, "Say that", "20.0 ms"), ("80", "You measured", "10.0")]
)
def test_the_quiz_says_you_measured_only_to_one_who_has(measured, begins, waits):
    what = SIDECAR["predictions"]["hidden"]["what"]
    runs = [{"lesson": "08", "what": what, "measured": measured}] if measured else []
    question = drawn(SIDECAR["quiz"], runs)[0]["variants"][0]
    assert question["text"].startswith(begins)
    assert next(o for o in question["options"] if o["right"])["text"].startswith(waits)


def test_ddps_buckets_are_as_large_as_the_lesson_says():
    assert distributed._DEFAULT_BUCKET_CAP_MB == 25
    assert dist._DEFAULT_FIRST_BUCKET_BYTES == 2**20
    wrapper = distributed.DistributedDataParallel
    assert inspect.signature(wrapper).parameters["bucket_cap_mb"].default is None
    assert "DDP's default is 25 MiB" in LESSON.text
    assert (
        "_DEFAULT_FIRST_BUCKET_BYTES, 1 MiB"
        in SIDECAR["notes"]["overlap"]["ask"] + (SIDECAR["notes"]["assign_buckets"]["ask"])
    )


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_the_ring_of_the_page_is_the_ring_of_the_library(ranks):
    given = (12e6, ranks, 5e-5, 1e-10)
    assert overlap.ring_all_reduce_time(*given) == pytest.approx(
        collectives.ring_all_reduce_time(*given)
    )


def numbers_of_the_solution():
    return {
        w: run(EXERCISES["overlap"].reference, w).numbers for w in (PLAIN, MICRO, ORDER, SGD, ADAMW)
    }


def test_the_solution_of_overlap_ends_where_one_process_does():
    """The check takes its word for what is right."""
    alone, together = (launch(numbers_of_the_solution, ranks=n, device="cpu")[0] for n in (1, 3))
    assert together[PLAIN] == pytest.approx([37.0] * 29)
    assert together[MICRO] == pytest.approx([259.0] * 29)
    assert together[ORDER] == pytest.approx([37.0] * 3 + [74.0] * 3)
    for optimizer in (SGD, ADAMW):
        assert together[optimizer] == pytest.approx(alone[optimizer], rel=1e-9)
