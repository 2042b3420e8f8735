"""The pictures say what was measured, and operations are counted alike."""

import torch

from .operations import count, count_compiled
from .pictures import draw_gains, draw_question, draw_steps

BEFORE = {"input": 30.0, "compute": 22.0, "communication": 9.0, "idle": 4.0}
AFTER = {"input": 3.0, "compute": 12.0, "communication": 3.0, "idle": 1.0}


def test_the_part_that_saves_most_is_in_the_title() -> None:
    figure = draw_steps({"before": BEFORE, "after": AFTER})
    title = "A step takes 65 ms before and 19 ms after; most is saved on input"
    assert figure.get_suptitle() == title
    assert "after: input 3 ms, compute 12 ms" in figure.alt


def test_idle_and_waiting_are_one_part_as_in_the_picture() -> None:
    waits = {"input": 1.0, "compute": 10.0, "communication": 9.0, "idle": 6.0, "waiting": 6.0}
    figure = draw_steps({"before": waits, "after": {**waits, "communication": 1.0, "idle": 1.0,
                                                    "waiting": 1.0}})  # fmt: skip
    assert figure.get_suptitle().endswith("most is saved on waiting or idle")  # 10 against 8


def test_a_gain_within_the_noise_does_not_count_in_the_title() -> None:
    gains = {"the same again": (1.3, 0.9, 1.5), "A": (1.4, 1.3, 1.5), "B": (1.4, 0.5, 3.0)}
    title = draw_gains(gains, ["A"]).get_suptitle()
    assert title == "Beyond the noise, 1 of 2 levers alone reach 1.2 times the throughput"


def test_a_pair_that_is_far_off_leaves_the_other_levers_readable() -> None:
    (axes,) = draw_gains({"A": (1.5, 1.3, 1.7), "B": (1.1, 0.5, 21.3)}, ["A"]).axes
    assert axes.get_xlim()[1] == 2.5
    assert [text.get_text() for text in axes.texts if "→" in text.get_text()] == ["→ 21.3"]


def test_steps_that_noise_may_have_made_differ_say_so() -> None:
    figure = draw_steps({"before": BEFORE, "after": AFTER}, real=False)
    assert figure.get_suptitle().endswith("19 ms after: not proven to be faster")


def test_the_question_is_drawn_with_words() -> None:
    assert "not to scale" in draw_question().alt


def test_an_operation_counts_once_and_a_view_does_not() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    assert count(lambda: (x * 2 + 1).t().view(3, 2)) == 2
    assert count(lambda: x.sum().item()) == 1


def test_both_ways_of_counting_agree_on_a_training_step() -> None:
    model, x = torch.nn.Linear(3, 2), torch.ones(4, 3)

    def step() -> None:
        model(x).relu().square().mean().backward()

    step()  # from now on there are gradients to add to
    assert count(step) == count_compiled(step) > 8
