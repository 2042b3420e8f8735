"""What a check brings back from the ranks, and the sentences for what nobody foresaw."""

import pytest
import torch
import torch.distributed as dist

from dtlib.learn import checking, diagnosis, source
from dtlib.learn.cases import Case, Failure, Round, Seen, painted, painted_sum
from dtlib.learn.probe import run_cases

SIDECAR = source.find("07").sidecar
CASES = [
    Case("2 numbers", painted(2), painted_sum(2)),
    Case("3 numbers", painted(3), painted_sum(3)),
]


def summed(x):
    dist.all_reduce(x)
    return x


def wrong_on_rank_1_in_the_second_case(x):
    dist.all_reduce(x)
    return x + (len(x) == 3 and dist.get_rank() == 1)


def loops_for_ever(x):
    rank = dist.get_rank()
    while rank == 1:
        pass
    dist.all_reduce(x)
    return x


def one_shape_each(x):
    x = x[: 1 + dist.get_rank()]
    dist.all_reduce(x)
    return x


def text(x):
    return "111"


def sentence_of(rounds, exercise="ring_all_reduce"):
    wrong = diagnosis.unforeseen(rounds[-1])
    return wrong.mistake, checking.sentence(SIDECAR, exercise, wrong)


def test_right_cases_run_to_the_end():
    rounds = run_cases(summed, 3, CASES)
    assert [r.label for r in rounds] == ["3 ranks, 2 numbers", "3 ranks, 3 numbers"]
    assert all(r.right for r in rounds)
    assert rounds[0].ranks[2].values == [111.0, 111.0]
    assert rounds[0].ranks[0].collectives == ["all_reduce"]


def test_stops_at_the_first_wrong_case_and_names_rank_and_number():
    rounds = run_cases(wrong_on_rank_1_in_the_second_case, 3, [*CASES, CASES[0]])
    assert len(rounds) == 2
    key, said = sentence_of(rounds)
    assert key == "value"
    assert "Rank 1 of 3 returned 112, and 111 is right. 112: rank 0 is in it 2 times." in said


def test_an_endless_loop_is_ended_and_told(monkeypatch):
    from dtlib.learn import probe

    monkeypatch.setattr(probe, "LIMIT", 6.0)
    key, said = sentence_of(run_cases(loops_for_ever, 2, CASES))
    assert key == "loops"
    assert "Rank 1 of 2 was still at work when its time was up, running `while" in said


def test_a_mismatch_names_what_each_rank_brought():
    key, said = sentence_of(run_cases(one_shape_each, 2, CASES))
    assert key == "mismatch"
    assert "rank 0 brought [1] float to ALLREDUCE; rank 1 brought [2] float" in said


def test_another_type_is_named():
    assert sentence_of(run_cases(text, 1, CASES)) == (
        "kind",
        "Rank 0 of 1 returned a str, and numbers are expected. "
        "What should your function hand back?",
    )


def seen(rank, **facts):
    return Seen(rank, want=[6.0], want_shape=(1,), **facts)


@pytest.mark.parametrize(
    ("facts", "key"),
    [
        ({"kind": "none"}, "none"),
        ({"kind": "tensor", "shape": (2,), "values": [1.0, 2.0]}, "shape"),
        ({"kind": "tensor", "shape": (1,), "values": [7.0]}, "value"),
        ({"failure": Failure("KeyError", "'x'", "f", 3, "file")}, "raised"),
        ({"failure": Failure("killed", "signal 6", "", 0, "")}, "died"),
        ({"failure": Failure("RuntimeError", "", "f", 3, "file", "recv")}, "waits"),
    ],
)
@pytest.mark.parametrize("exercise", ["global_mean", "pass_right", "ring_reduce_scatter"])
def test_every_exercise_has_a_sentence_for_the_unforeseen(facts, key, exercise):
    round_ = Round(CASES[0], [seen(0, **facts)])
    found, said = sentence_of([round_], exercise)
    assert found == key
    assert said.endswith("?")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (111.0, ""),
        (101.0, "101: rank 1 is missing."),
        (112.0, "112: rank 0 is in it 2 times."),
        (210.0, "210: rank 0 is missing, rank 2 is in it 2 times."),
        (3.5, ""),
        (-1.0, ""),
        (float("nan"), ""),
        (1111.0, ""),
    ],
)
def test_paint_is_read_aloud(value, words):
    assert diagnosis.read_paint(value, 3) == words


def test_a_tensor_of_many_numbers_is_counted():
    many = Case("100 numbers", painted(100), painted_sum(100))
    (round_,) = run_cases(lambda x: torch.where(torch.arange(100) < 30, x, -x), 1, [many])
    assert diagnosis.contents(round_.ranks[0]) == "70 times -1 and 30 times 1"
