"""An exercise on ranks: a mistake is told by the program that gives the same on every rank."""

import dataclasses

import cloudpickle
import pytest
import torch
import torch.distributed as dist

from dtlib.errors import BadInput
from dtlib.learn import rank_answers
from dtlib.learn.explanations import nothing_back, reduced
from dtlib.learn.mistakes import Mistake
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.rounds import Seen
from dtlib.learn.verdicts import Passed, Wrong
from dtlib.learn.wire import Message


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


def calls_twice_and_fails_on_four(x):
    return calls_twice(x) if dist.get_world_size() < 4 else own(x)


def test_too_much_is_told_before_more_ranks_are_tried():
    waste = RankAnswer(total, cases(1, 3, 4), [("own", own)], waste=EXERCISE.waste)
    (found,) = waste.verdicts([calls_twice_and_fails_on_four])
    assert isinstance(found, Wrong) and (found.mistake, found.case) == ("twice", "3 ranks, 10**r")


def in_words(x):
    return ["the", "sum", f"{total(x)[0]:.0f}"]


def test_what_is_no_number_can_be_shown_beside_what_is_wanted():
    said = RankAnswer(
        in_words,
        cases(3),
        [Mistake("last", when=lambda got, want: {"got": got[0][2], "want": want[2][2]})],
    )
    with pytest.raises(BadInput, match="in_words compares list: set `other`"):
        said.verdicts([in_words])
    said = dataclasses.replace(said, other="unrecognised")
    (found,) = said.verdicts([lambda x: ["the", "sum", "0"]])
    assert isinstance(found, Wrong) and found.mistake == "last"
    assert (found.numbers["got"], found.numbers["want"]) == ("0", "111")


def test_a_function_may_name_what_it_is_given():
    with pytest.raises(BadInput, match="hangs of total, left asks for y"):
        RankAnswer(total, cases(1), [Mistake("left", leaves, hangs=lambda y: None)])
    defaulted = Mistake("own", when=lambda got, power=2: got[0][0] ** power == 1)
    (found,) = RankAnswer(total, cases(3), [defaulted]).verdicts([own])
    assert isinstance(found, Wrong) and found.mistake == "own"


def test_families_that_several_exercises_have():
    def ranks(*right):
        messages = [Message("reduce", None, 1, 4, ())]
        return [
            Seen(rank, right=is_right, messages=messages) for rank, is_right in enumerate(right)
        ]

    seen = ranks(True, False)
    facts = {"rank": 1, "got": "3.5", "root": 0, "want": "6"}
    assert reduced([6.0, 3.5], seen) == facts
    assert reduced([6.0, 6.0003], seen)["rank"] == 1  # the check is stricter than a reader
    assert not reduced([3.5, 3.5], ranks(False, False))
    assert not reduced([6.0, 6.0], ranks(True, True))
    assert nothing_back(seen) == {"call": "reduce"}
    assert not nothing_back([*seen, Seen(2)])


def largest(x):
    dist.all_reduce(x, dist.ReduceOp.MAX)
    return x


def test_of_equal_mistakes_the_one_that_agrees_elsewhere_is_told(monkeypatch):
    ones = (3, "ones", lambda rank, n: torch.ones(2))  # where the largest is one's own
    exercise = RankAnswer(total, [ones, *cases(3)], [("own", own), ("largest", largest)])
    found = exercise.verdicts([largest, own, lambda x: largest(x) + x])
    assert [wrong.mistake for wrong in found] == ["largest", "own", "value"]
    assert found[0].case == "3 ranks, ones"
    monkeypatch.setattr(rank_answers, "SOON", 0.0)
    with pytest.raises(Wrong) as caught:  # no time for a second launch
        exercise.check(largest)
    assert caught.value.mistake == "own"


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
