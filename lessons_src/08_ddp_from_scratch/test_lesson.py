"""Lesson 08 says what is true: its predictions, its quiz, and what it says of torch's DDP."""

import functools
import inspect

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import distributed

from dtlib import launch
from dtlib.learn import source
from dtlib.learn.quiz import drawn
from dtlib.learn.solutions import compiled
from dtlib.learn.wire import WireLog
from dtlib.scratch import data_parallel as course
from dtlib.sim import collectives
from tests.prediction_cases import right_options

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
    found = right_options("08", "same_cores", value)
    assert [text.startswith(right) for text in found] == [True]


def test_the_network_of_the_prediction_is_the_one_that_is_trained():
    assert "A network has 6 blocks" in SIDECAR["predictions"]["messages"]["question"]
    assert "model = network(8, 6, seed=rank)" in LESSON.text
    assert len(list(network(8, 6).parameters())) == 6 * 4


@pytest.mark.parametrize(
    ("measured", "begins", "times"),
    # (100 + 90) / (100 + 90 · 0.4), and with 80 % (100 + 90) / (100 + 90 · 0.2)
    [(None, "Say that", "1.397"), ("80", "You measured", "1.610")],
)
def test_the_quiz_says_you_measured_only_to_one_who_has(measured, begins, times):
    what = SIDECAR["predictions"]["hidden"]["what"]
    runs = [{"lesson": "08", "what": what, "measured": measured}] if measured else []
    question = drawn(SIDECAR["quiz"], runs)[0]["variants"][0]
    assert question["text"].startswith(begins)
    assert next(o for o in question["options"] if o["right"])["text"].startswith(times)


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


def with_overlap(solution, way):
    """The gradients of three rounds of backward, and the bytes of each message."""
    model = network(8, 6, seed=dist.get_rank())
    course.same_start(model)
    if way == "lesson":
        names = {"torch": torch, "dist": dist, "unpack": course.unpack}
        buckets = course.assign_buckets(list(model.parameters()), 2000)
        start = lambda x: dist.all_reduce(x, async_op=True)  # noqa: E731
        wait = compiled(solution, "overlap", names)(buckets, start, lambda: True)
    elif way == "overlap":
        wait = course.OverlappedDataParallel(model, 2000).wait
    elif way == "buckets":
        wait = functools.partial(course.bucket_all_reduce, model, 2000)
    else:
        wait = functools.partial(course.flat_all_reduce, model)
    found = []
    with WireLog() as log:
        for step in range(3):
            model.zero_grad()
            model(torch.full((4, 8), step + dist.get_rank() + 1.0)).square().sum().backward()
            wait()
            found.append([p.grad.clone() for p in model.parameters()])
    return found, [message.bytes for message in log.messages]


def test_the_overlap_of_the_lesson_is_that_of_the_course():
    solution = LESSON.definition("overlap")
    ways = ("lesson", "flat", "buckets", "overlap")
    runs = {
        way: launch(with_overlap, solution, way, ranks=2, timeout=20, show=False) for way in ways
    }
    gradients, messages = runs["lesson"][0]
    for way in ways:
        for found, sent in runs[way]:
            assert sent == messages or way == "flat"
            for step, wanted in zip(found, gradients, strict=True):
                assert all(torch.equal(*pair) for pair in zip(step, wanted, strict=True))


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
