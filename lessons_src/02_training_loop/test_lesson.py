"""Lesson 02 says what is true: its predictions, the numbers it names, what its checks see."""

import math

import pytest
import torch
from torch.nn import functional as F

from dtlib.learn import source
from dtlib.learn.quiz import drawn
from dtlib.learn.solutions import altered
from dtlib.measure.ledger.saved import SavedTensors
from dtlib.models.resnet import resnet18
from tests.prediction_cases import right_options

from .bank.accumulate import ONE_GRAPH
from .exercises import accumulate, pick_rate, train_step
from .exercises.returned import graph_size, told

LESSON = source.find("02")
SIDECAR = LESSON.sidecar


@pytest.mark.parametrize(
    ("key", "value", "right"),
    [
        ("two_workers", "default_rng(0)", "default_rng(0)"),
        ("threads", 0.0, "exactly 0, since the seed is the same"),
        ("threads", 4e-7, "small, and not 0"),
        ("threads", 0.02, "a percent or more"),
    ],
)
def test_one_option_of_a_prediction_is_right(key, value, right):
    assert right_options("02", key, value) == [right]


def test_the_numbers_in_the_prose():
    parameters = sum(p.numel() for p in resnet18(8).parameters())
    assert round(parameters, -3) == 176_000 and "176,000 weights" in LESSON.text.replace(
        "\n# ", " "
    )
    best = torch.eye(10)[:1]
    assert F.cross_entropy(best, torch.tensor([0])).item() == pytest.approx(1.461, abs=5e-4)
    assert "= 1.461" in SIDECAR["quiz"][2]["options"][0]["why"]


def test_accumulating_without_weights_is_right_for_even_micro_batches_alone():
    unweighted = altered(accumulate.accumulate, {accumulate.WEIGHT: "(1 / len(micro_batches))"})
    even = accumulate.run(unweighted, ((1, 3), (5, 7)))
    assert (even.gradient, even.loss) == (4, 4)
    uneven = accumulate.run(unweighted, ((4,), (1, 1, 1)))
    assert uneven.gradient == 2.5  # field bug 1.05, where 1.75 is right


def test_pictures_held_at_once_are_counted():
    lists = accumulate.CASES[1]
    assert accumulate.run(accumulate.accumulate, lists).held == 2
    assert accumulate.run(altered(accumulate.accumulate, ONE_GRAPH), lists).held == 5


def test_a_loss_keeps_activations_until_backward():
    """The cell's figures for the course's own model: all of them before backward, none after."""
    model, x = resnet18(8), torch.zeros(16, 3, 32, 32)
    known = {t.untyped_storage().data_ptr() for t in (x, *model.parameters(), *model.buffers())}
    with SavedTensors(lambda storage: storage.data_ptr() in known) as saved:
        losses = [F.cross_entropy(model(x), torch.zeros(16).long()) for _ in range(3)]
        before = saved.bytes
        [loss.item() for loss in losses]
        assert saved.bytes == before > 3 * 5e6  # .item() frees nothing
        for k, loss in enumerate(losses, 1):
            loss.backward()
            assert saved.bytes == pytest.approx(before * (1 - k / 3), rel=1e-9)
    assert all(graph_size(loss) > 50 for loss in losses)  # the record of operations stays


def test_an_answer_with_two_mistakes_is_told_one_by_one():
    cases = [
        case.words if hasattr(case, "words") else case[0] for case in train_step.EXERCISE.cases
    ]
    ways = ("training mode and without", "evaluation mode", "old gradients")
    assert all(way in words for way, words in zip(ways, cases, strict=False))


def test_a_graph_is_counted_and_a_range_test_ends_at_nan():
    w = torch.ones((), requires_grad=True)
    assert graph_size((w * 2).exp()) == 3
    assert pick_rate.pick_rate([1.0, 2.0, 3.0], [2.0, math.nan, 1.0]) == 0.1


def test_the_quiz_asks_for_the_students_own_spread():
    runs = [{"lesson": "02", "what": "spread of the accuracy over seeds", "measured": "1.6"}]
    assert drawn(SIDECAR["quiz"], runs)[0]["variants"][0]["text"].startswith("In your runs")
    assert drawn(SIDECAR["quiz"], [])[0]["variants"][0]["text"].startswith("Say that")


def test_a_loss_that_is_a_tensor_can_be_written_into_a_file():
    (cell,) = (cell.text for cell in LESSON.cells if "def step(" in cell.text)
    code = cell[cell.index("def step(") : cell.index("def no_zero_grad(")]
    for loss in (2.5, torch.tensor(2.5), torch.tensor([2.5]).numpy()):
        names = {"torch": torch, "one_step": lambda *given, loss=loss: loss}
        exec(code, names)
        assert str(names["step"](None, None, None, None)) == "2.5"  # and not tensor(2.5000)


def test_losses_are_told_in_as_many_digits_as_tell_them_apart():
    assert told(1.25, 1.5, 3) == ("1.250", "1.500")
    assert told(1.656, 1.65599, 3) == ("1.656", "1.65599")
