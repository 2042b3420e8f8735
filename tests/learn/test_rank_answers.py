"""An exercise on ranks: a mistake is told by the program that gives the same on every rank."""

import dataclasses

import cloudpickle
import pytest
import torch
import torch.distributed as dist

from dtlib.errors import BadInput
from dtlib.learn import rank_answers
from dtlib.learn.checking import Passed, Wrong
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer


def total(x):
    dist.all_reduce(x)
    return x


def own(x):
    return x * 1


def leaves(x):
    return x if dist.get_rank() == 0 else total(x)


def twice(x):
    return total(2 * x)


def nothing(x):
    total(x)


def dies(x):
    import os

    os._exit(3)


def cases(*ranks):
    return [(n, "10**r", lambda rank, n: torch.tensor([10.0**rank, 0.0])) for n in ranks]


EXERCISE = RankAnswer(
    total,
    cases=cases(1, 3),
    mistakes=[
        ("own", own),
        Mistake("left", leaves, hangs=lambda rank: "all_reduce" if rank else None),
        Mistake("large", when=lambda got, n: n > 1 and {"sum": got[0][0]}),
    ],
    facts=lambda got, x: {"mine": x[1][0].item() if len(x) > 1 else 0},
    waste=lambda seen, n: Wrong("twice") if n > 1 and len(seen[0].messages) > 1 else None,
)


@pytest.fixture(autouse=True)
def by_value():
    import sys

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


def calls_twice(x):
    dist.all_reduce(x.clone())
    return total(x)


def test_all_that_return_are_judged_together():
    answers = [total, own, twice, nothing, calls_twice, lambda x: x + 0]
    found = EXERCISE.verdicts(answers)
    assert isinstance(found[0], Passed)
    told = [wrong.mistake for wrong in found[1:] if isinstance(wrong, Wrong)]
    # alone twice is wrong already, where no mistake is known
    assert told == ["own", "value", "none", "twice", "own"]
    assert found[1].case == "3 ranks, 10**r" and found[1].numbers["mine"] == 10
    assert found[3].case == "1 rank, 10**r"


def test_a_hang_is_told_by_who_waits():
    (wrong,) = EXERCISE.verdicts([leaves], hang=True)
    assert (wrong.mistake, wrong.numbers["waiting"], wrong.numbers["call"]) == (
        "left", "ranks 1 and 2", "all_reduce",
    )  # fmt: skip


def test_a_rank_that_dies_is_told_as_that():
    with pytest.raises(Wrong) as caught:
        EXERCISE.check(dies)
    assert caught.value.mistake == "died"


def test_a_function_may_name_what_it_is_given():
    with pytest.raises(BadInput, match="hangs of total, left names y"):
        RankAnswer(total, cases(1), [Mistake("left", leaves, hangs=lambda y: None)])


def largest(x):
    dist.all_reduce(x, dist.ReduceOp.MAX)
    return x


def test_of_equal_mistakes_the_one_that_agrees_elsewhere_is_told():
    ones = (3, "ones", lambda rank, n: torch.ones(2))  # where the largest is one's own
    exercise = RankAnswer(total, [ones, *cases(3)], [("own", own), ("largest", largest)])
    found = exercise.verdicts([largest, own, lambda x: largest(x) + x])
    assert [wrong.mistake for wrong in found] == ["largest", "own", "value"]
    assert found[0].case == "3 ranks, ones"


def test_a_student_does_not_wait_long_for_the_mistakes(monkeypatch):
    monkeypatch.setattr(rank_answers, "SOON", 0.0)
    exercise = dataclasses.replace(EXERCISE, mistakes=EXERCISE.mistakes[:1])
    with pytest.raises(Wrong) as caught:
        exercise.check(own)
    assert caught.value.mistake == "value"
    (wrong,) = exercise.verdicts([own])  # the tests have time
    assert wrong.mistake == "own"
    with pytest.raises(Wrong) as caught:  # and what they saw is kept
        exercise.check(own)
    assert caught.value.mistake == "own"


def test_a_judge_may_ask_for_more_than_the_right_numbers():
    exercise = RankAnswer(total, cases(2), judge=lambda seen: seen.right and not seen.printed)
    found = exercise.verdicts([total, lambda x: print("sum") or total(x), own])
    assert isinstance(found[0], Passed)
    assert [wrong.mistake for wrong in found[1:]] == ["value", "value"]
