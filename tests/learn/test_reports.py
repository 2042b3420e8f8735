"""What a check brings back from the ranks, and the sentences for what nobody foresaw."""

import os

import numpy as np
import pytest
import torch
import torch.distributed as dist

from dtlib.learn import explanations, rank_runs, reports, source, verdicts
from dtlib.learn.rank_answers import RankAnswer
from dtlib.learn.rank_runs import Task, run_programs
from dtlib.learn.rounds import Failure, Given, Round, Seen, painted
from dtlib.learn.wire import Message
from dtlib.ranks import timeouts

SIDECAR = source.find("07").sidecar
SIDECARS = [lesson.sidecar for lesson in source.lessons()]
EVERY = [(s, exercise) for s in SIDECARS for exercise in s.get("mistakes") or {}]
SIZES = (2, 3)
CASES = [Given(1, f"{size} numbers", painted(size)) for size in SIZES]


def summed(x):
    dist.all_reduce(x)
    return x


TASK = Task(summed, None, None, None, 0.0, collectives=True)


def run(answer, n, *sizes):
    cases = [Given(n, f"{size} numbers", painted(size)) for size in sizes or SIZES]
    return run_programs(TASK, [answer], cases, timeouts.CHECK)[0]


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


def ends_itself(x):
    raise SystemExit(3)


def takes_nothing():
    return 1.0


def misspells(x):
    return x + worl_size  # noqa: F821


def leaves_after_one_of_two(x):
    dist.all_reduce(x)
    if dist.get_rank() != 1:
        dist.all_reduce(x)
    return x


def sentence_of(rounds, exercise="ring_all_reduce", sidecar=SIDECAR):
    wrong = explanations.unforeseen(rounds[-1])
    return wrong.mistake, verdicts.sentence(sidecar, exercise, wrong)


def test_right_cases_run_to_the_end():
    rounds = run(summed, 3)
    assert [r.label for r in rounds] == ["3 ranks, 2 numbers", "3 ranks, 3 numbers"]
    assert all(r.right for r in rounds)
    assert rounds[0].ranks[2].values == [111.0, 111.0]
    assert rounds[0].ranks[0].collectives == ["all_reduce"]


def test_stops_at_the_first_wrong_case_and_names_rank_and_number():
    rounds = run(wrong_on_rank_1_in_the_second_case, 3, 2, 3, 2)
    assert len(rounds) == 2
    key, said = sentence_of(rounds)
    assert key == "value"
    assert "Rank 1 of 3 returned 112, and 111 is right. 112: rank 0 is in it 2 times." in said


def test_what_a_function_printed_is_shown_of_the_case_that_went_wrong(capsys):
    def prints(x):
        print("I have", x.tolist())
        return x

    for sizes in ((2,), SIZES):
        cases = [(n, f"{k} numbers", painted(k)) for n, k in ((1, 2), *((2, k) for k in sizes))]
        with pytest.raises(verdicts.Wrong):
            RankAnswer(summed, cases).check(prints)
        lines = capsys.readouterr().out.splitlines()
        assert lines == ["rank 0 | I have [1.0, 1.0]", "rank 1 | I have [10.0, 10.0]"]


def dies_on_rank_1_in_the_second_case(x):
    if len(x) == 3 and dist.get_rank() == 1:
        os._exit(3)
    dist.all_reduce(x)
    return x


def test_a_lost_rank_is_told_in_the_case_that_the_others_saw():
    rounds = run(dies_on_rank_1_in_the_second_case, 2)
    wrong = explanations.unforeseen(rounds[-1])
    assert (wrong.mistake, wrong.case, wrong.numbers["rank"]) == ("died", "2 ranks, 3 numbers", 1)
    assert rounds[0].right


def test_a_rank_that_is_lost_alone_names_no_case_of_several():
    gone = Seen(0, failure=Failure("killed", "signal 6", "", 0, "", lost=True))
    assert [r.label for r in reports.together(CASES, [[gone]])] == ["1 rank"]
    assert [r.label for r in reports.together(CASES[:1], [[gone]])] == ["1 rank, 2 numbers"]


def test_an_endless_loop_is_ended_and_told(monkeypatch):
    monkeypatch.setattr(rank_runs, "LIMIT", 6.0)
    key, said = sentence_of(run(loops_for_ever, 2))
    assert key == "loops"
    assert "Rank 1 of 2 was still busy when its time ran out, running `while" in said


def test_a_mismatch_names_what_each_rank_brought():
    key, said = sentence_of(run(one_shape_each, 2))
    assert key == "mismatch"
    assert "rank 0 passed [1] float to ALLREDUCE; rank 1 passed [2] float" in said


@pytest.mark.parametrize(("answer", "key", "words"), [
    (ends_itself, "raised", "stopped with SystemExit in line "),
    (takes_nothing, "raised", "with TypeError in the call of your function: takes_nothing()"),
    (misspells, "unknown_name", "of misspells, `return x + worl_size"),
])  # fmt: skip
def test_what_stopped_a_function_is_its_own_line_and_no_death(answer, key, words):
    found, said = sentence_of(run(answer, 1))
    assert found == key
    assert words in said


def test_a_wait_in_a_collective_is_called_so_on_every_rank():
    key, said = sentence_of(run(leaves_after_one_of_two, 3))
    assert key == "waits"
    assert "rank 0 waited in all_reduce (line " in said
    assert "rank 1 had returned" in said
    assert "rank 2 waited in all_reduce (line " in said


def test_a_wait_that_ended_since_its_peer_gave_up_first_keeps_its_line():
    gone = Failure("RuntimeError", "Connection closed by peer", "f", 7, "file", peer_gone=True)
    ranks = [seen(0, failure=gone, messages=[Message("recv", 1, 2, 8, ())]), seen(1)]
    assert explanations.who_waits(Round(CASES[0], ranks)) == (
        "rank 0 waited in recv (line 7), rank 1 had returned"
    )


def test_a_wait_for_nobody_is_named():
    late = Failure("RuntimeError", "Wait timeout", "f", 7, "file", "a peer that never came")
    round_ = Round(CASES[0], [seen(0, failure=late)])
    assert explanations.who_waits(round_) == "rank 0 waited for a peer that never came (line 7)"


def test_a_list_of_ranks_is_not_replaced_by_one_rank():
    waits = verdicts.Wrong("waits", n=3, rank=2, who="rank 0 waited, rank 2 had returned")
    said = verdicts.sentence({}, "any", waits)
    assert said.startswith("The 3 ranks did not finish: rank 0 waited, rank 2 had returned.")


def test_another_type_is_named():
    said = " returned a value of type str, but numbers are expected. What should your function"
    for ranks, who in ((1, "Your function"), (2, "Rank 0 of 2")):
        assert sentence_of(run(lambda x: "111", ranks)) == ("kind", f"{who}{said} return?")


def test_a_rounded_number_is_told_from_the_right_one():
    ranks = [seen(0, kind="number", shape=(1,), values=[5.99999])]
    assert "returned 5.99999, but 6 is right" in verdicts.sentence(
        {}, "", explanations.unforeseen(Round(CASES[0], ranks))
    )


def test_a_number_of_numpy_is_a_number():
    assert reports.describe(seen(0), np.float32(0.5)) == 0.5
    assert reports.describe(seen(0), np.bool_(True)) is None


def seen(rank, **facts):
    return Seen(rank, want=[6.0], want_shape=(1,), **facts)


@pytest.mark.parametrize(("facts", "key"), [
    ({"kind": "none"}, "none"),
    ({"kind": "tensor", "shape": (2,), "values": [1.0, 2.0]}, "shape"),
    ({"kind": "tensor", "shape": (1,), "values": [7.0]}, "value"),
    ({"failure": Failure("KeyError", "'x'", "f", 3, "file")}, "raised"),
    ({"failure": Failure("NameError", "name 'x'", "f", 3, "file")}, "unknown_name"),
    ({"failure": Failure("killed", "signal 6", "", 0, "", lost=True)}, "died"),
    ({"failure": Failure("timeout", "", "", 0, "", explanations.OWN_CODE, lost=True)}, "loops"),
    ({"failure": Failure("RuntimeError", "Detected mismatch between collectives", "f", 3, "")},
     "mismatch"),
    ({"kind": "str"}, "kind"),
    ({"failure": Failure("RuntimeError", "", "f", 3, "file", "recv")}, "waits"),
])  # fmt: skip
@pytest.mark.parametrize(("sidecar", "exercise"), EVERY, ids=[name for _, name in EVERY])
def test_every_exercise_has_a_sentence_for_the_unforeseen(facts, key, sidecar, exercise):
    round_ = Round(CASES[0], [seen(0, **facts)])
    found, said = sentence_of([round_], exercise, sidecar)
    assert found == key
    assert said.endswith("?")


@pytest.mark.parametrize(("value", "words"), [
    (111.0, ""),
    (101.0, "101: rank 1 is missing."),
    (112.0, "112: rank 0 is in it 2 times."),
    (210.0, "210: rank 0 is missing, rank 2 is in it 2 times."),
    (0.0, "0: no rank is in it."),
    (3.5, ""),
    (-1.0, ""),
    (float("nan"), ""),
    (1111.0, ""),
])  # fmt: skip
def test_paint_is_read_aloud(value, words):
    assert explanations.read_paint(value, 3) == words


def test_only_painted_numbers_are_read_as_paint():
    """A 1 that is no paint, from a mean say, misses nobody."""
    given = explanations.Round(
        Given(3, "values", lambda rank, n: torch.tensor([float(rank + 3)])),
        [Seen(r, kind="number", values=[1.0], want=[111.0]) for r in range(3)],
    )
    assert explanations.unforeseen(given).numbers["reading"] == ""
    painted = Given(3, "painted", lambda rank, n: torch.tensor([10.0**rank]))
    told = explanations.unforeseen(explanations.Round(painted, given.ranks))
    assert told.numbers["reading"] == "1: rank 1 is missing, rank 2 is missing."
    mean = [Seen(r, kind="number", values=[1.0], want=[37.0]) for r in range(3)]
    assert explanations.unforeseen(explanations.Round(painted, mean)).numbers["reading"] == ""


def test_ranks_that_all_wait_in_one_call_are_not_said_to_loop():
    """As in a `new_group` that each rank makes for itself alone."""
    in_it = Failure("", "", "", 0, "waiting in new_group (cell line 2)", explanations.OWN_CODE)
    told = explanations.unforeseen(Round(CASES[1], [Seen(r, failure=in_it) for r in (0, 1)]))
    assert told.mistake == "waits"
    assert told.numbers["who"].endswith("rank 1 was waiting in new_group (cell line 2)")


def test_a_number_that_is_slightly_off_is_told_apart_from_the_right_one():
    ranks = [Seen(0, kind="number", values=[2221.9], want=[2222.0])]
    told = explanations.unforeseen(Round(CASES[0], ranks)).numbers
    assert (told["got"], told["want"]) == ("2221.9", "2222")


def test_a_tensor_of_many_numbers_is_counted():
    (round_,) = run(lambda x: torch.where(torch.arange(100) < 30, x, -x), 1, 100)
    assert explanations.contents(round_.ranks[0]) == "-1 (70 times) and 1 (30 times)"
    assert "-1 (70 times) and 1 (30 times), and 1 (100 times) is right." in sentence_of([round_])[1]
