"""The kit of exercises: a mistake is a program, and what it gives names the sentence."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from dtlib.errors import BadInput
from dtlib.learn.alike import alike, shortened
from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import one_of, several, shown, told_apart
from dtlib.learn.solutions import altered, solution
from dtlib.learn.verdicts import NotJudged, Passed, Wrong


def area(width: float, height: float) -> float:
    """Of a rectangle."""
    return width * height


CASES = [("2 by 2", (2.0, 2.0)), ("1 by 3", (1.0, 3.0)), ("4 by 5", (4.0, 5.0))]


def wrong(exercise: Answer, student: Any) -> Wrong:
    with pytest.raises(Wrong) as caught:
        exercise.check(student)
    return caught.value


def test_a_right_answer_passes_and_says_in_how_many_cases():
    found = Answer(area, CASES).check(lambda w, h: h * w)
    assert found.measures == (("cases", 3, 3, "right"),)


def test_the_program_that_agrees_in_every_case_names_the_sentence():
    """In the first two cases all of them give the same; the student sees the smallest."""
    kit = Answer(
        area,
        CASES[1:],
        mistakes=[("half", lambda w, h: w * h / 2 if w > 1 else w + h), ("sum", {"*": "+"})],
    )
    found = wrong(kit, lambda w, h: h + w)
    assert (found.mistake, found.case) == ("sum", "1 by 3")
    assert found.numbers == {
        "width": 1.0, "height": 3.0, "case": "1 by 3", "got": "4", "want": "3", "seen": "4"
    }  # fmt: skip


def test_where_two_fit_equally_the_first_of_the_list_is_told():
    mistakes = [("first", lambda w, h: w), ("second", lambda w, h: min(w, h))]
    assert wrong(Answer(area, CASES[:1], mistakes), lambda w, h: h).mistake == "first"


def test_a_mistake_that_fits_only_the_case_that_fails_is_told_if_none_fits_better():
    found = wrong(Answer(area, CASES, [("sum", {"*": "+"})]), lambda w, h: w * h + (w == 1))
    assert (found.mistake, found.case) == ("sum", "1 by 3")


def test_what_no_mistake_gives_gets_the_key_of_its_case_or_the_general_one():
    cases = [("2 by 2", (2.0, 2.0), "square"), *CASES[1:]]
    assert wrong(Answer(area, cases), lambda w, h: 7).mistake == "square"
    assert wrong(Answer(area, cases), lambda w, h: w * h or 7 if w != 4 else 7).mistake == "other"


def test_a_family_is_asked_when_no_program_gives_the_same():
    kit = Answer(
        area,
        CASES,
        mistakes=[
            Mistake("negative", lambda w, h: -w * h, when=lambda got: got < 0),
            Mistake("large", when=lambda got, want, width: got > want and {"w": width}),
        ],
    )
    assert wrong(kit, lambda w, h: -9).mistake == "negative"
    found = wrong(kit, lambda w, h: 9)
    assert found.mistake == "large" and found.numbers["w"] == 2.0


def test_facts_may_say_better_what_was_seen_of_an_answer_that_nobody_foresaw():
    assert wrong(Answer(area, CASES), lambda w, h: 7).numbers["seen"] == "7"
    kit = Answer(area, CASES, facts=lambda got: {"seen": f"{got} in all"})
    assert wrong(kit, lambda w, h: 7).numbers["seen"] == "7.0 in all"


def test_the_facts_of_a_family_fill_the_sentence_of_its_program_too():
    kit = Answer(
        area, CASES, [Mistake("sum", {"*": "+"}, when=lambda got: {"rounded": round(got)})]
    )
    assert wrong(kit, lambda w, h: w + h).numbers["rounded"] == 4


def test_errors_compare_by_their_kind_and_only_those_who_name_them_see_them():
    def divides(width: float, height: float) -> float:
        return width / (height - 2)

    kit = Answer(
        area,
        CASES,
        mistakes=[
            Mistake("never_asked", when=lambda got: got > 0),
            ("divides", lambda w, h: 1 / 0),
            Mistake("missing", when=lambda error: error == "KeyError"),
        ],
    )
    assert wrong(kit, divides).mistake == "divides"
    assert wrong(kit, lambda w, h: {}[w]).mistake == "missing"
    found = wrong(kit, lambda w, h: [].pop())
    assert found.mistake == "raised" and found.numbers["error"] == "IndexError"


def test_a_wrong_kind_is_told_at_once_and_no_mistake_runs():
    ran = []
    kit = Answer(area, CASES, [("any", lambda w, h: ran.append(w))], read=several(2, "two"))
    assert wrong(kit, lambda w, h: None).mistake == "none"
    assert wrong(kit, lambda w, h: [w]).mistake == "two"
    assert wrong(kit, lambda w, h: "ab").case == "2 by 2"
    for odd in ((None, None), {1: 2, 3: 4}, {2, 4}, "12", torch.ones(2, 1)):
        found = wrong(kit, lambda w, h, odd=odd: odd)
        assert (found.mistake, found.numbers["got"]) == ("two", shown(odd))
    assert shown({"loss": 1.25, "accuracy": 0.5}, 20) == "{'loss': 1.25, 'accu…"
    assert not ran


def test_a_sentence_never_calls_a_number_wrong_and_prints_it_as_the_right_one():
    kit = Answer(lambda w: w / 7, [("1", (1,))])
    told = wrong(kit, lambda w: round(w / 7, 4)).numbers
    assert (told["got"], told["want"]) == ("0.1429", "0.142857")


@pytest.mark.parametrize(
    "less",
    [
        lambda x: round(x, 3),
        lambda x: int(1e3 * x) / 1e3,
        math.trunc,
        np.half,
        lambda x: float(f"{x:.2g}"),
    ],
)
def test_a_right_answer_that_is_rounded_is_told_so(less):
    cases = [("10", (10,)), ("22", (22,))]
    kit = Answer(lambda w: {"a": [w / 7, "b"]}, cases, read=lambda got: got)
    found = wrong(kit, lambda w: {"a": [float(less(w / 7)), "b"]})
    assert (found.mistake, found.numbers["got"]) != ("other", found.numbers["want"])
    assert found.mistake == "rounded"
    assert wrong(kit, lambda w: {"a": [float(less(10 / 7)), "b"]}).mistake == "other"
    assert wrong(kit, lambda w: {"a": [float(less(w / 7)), "c"]}).mistake == "other"


def test_a_rounded_answer_is_not_taken_for_a_mistake_that_gives_the_same_number_once():
    cases = [("1/3 of 0.3", (0.3,)), ("1/3 of 8", (8.0,))]
    mistakes = [("tenth", lambda w: 0.1 * (w > 1) + 0.1), ("cut", lambda w: int(w / 3) + 0.0)]
    kit = Answer(lambda w: w / 3 + 0.01, cases, mistakes)
    assert wrong(kit, lambda w: round(w / 3 + 0.01, 1)).mistake == "rounded"
    assert wrong(kit, lambda w: 0.1).mistake == "tenth"  # it is not rounded in the other case
    assert wrong(kit, lambda w: int(w / 3 + 0.01)).mistake == "cut"  # a program that gives it all
    assert wrong(kit, lambda w: int(w > 9)).mistake == "cut"


def test_a_zero_is_a_rounded_number_if_another_case_shows_what_is_left():
    kit = Answer(lambda w: w / 3, [("1", (1,)), ("8", (8,))])
    found = wrong(kit, lambda w: w // 3)
    assert (found.mistake, found.numbers["got"], found.case) == ("rounded", "0", "1")
    assert wrong(kit, lambda w: 0).mistake == "other"


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_two_numbers_may_come_in_an_array(kind):
    kit = Answer(lambda w: (w, 2 * w), [("1", (1,))], read=several(2, "two"))
    assert isinstance(kit.check(lambda w: kind([w, 2 * w])), Passed)


def test_numbers_of_numpy_are_read_as_pythons():
    kit = Answer(lambda w: {w: [(w, 0.5)]}, [("1", (1,))], read=lambda got: got)
    assert isinstance(kit.check(lambda w: {np.int64(w): [(np.int8(w), np.float32(0.5))]}), Passed)
    assert wrong(kit, lambda w: {np.int64(w): [(np.int8(w), np.str_("0.5"))]}).mistake == "other"


def test_words_are_read_and_others_refused():
    kit = Answer(
        lambda w: "wide" if w else None, [("1", (1,))], read=one_of(("wide", None), "word")
    )
    assert wrong(kit, lambda w: "narrow").mistake == "word"
    assert wrong(kit, lambda w: None).mistake == "none"


def test_arguments_that_were_changed_are_noticed():
    kit = Answer(sum, [("two numbers", ([1, 2],))], changed="changed")
    assert wrong(kit, lambda iterable: iterable.pop() + iterable[0]).mistake == "changed"
    assert "changed" in kit.keys
    allowed = Answer(sum, [("two numbers", ([1, 2],))])
    assert allowed.check(lambda iterable: iterable.pop() + iterable[0])


def test_arguments_may_be_made_anew_for_each_call():
    kit = Answer(lambda numbers: sum(numbers), [("a generator", lambda: (iter([3]),))])
    assert kit.check(lambda numbers: next(numbers))


def test_an_argument_that_a_case_leaves_out_has_its_default():
    kit = Answer(lambda a, b=2: a * b, [("a = 3", (3,))], facts=lambda b: {"twice": 2 * b})
    assert wrong(kit, lambda a, b=2: a).numbers["twice"] == 4


def test_a_run_shows_what_a_call_alone_would_not():
    def run(step: Any, start: float) -> dict[str, float]:
        values = {"weight": start}
        step(values)
        return values

    def right(values: dict[str, float]) -> None:
        values["weight"] -= 1

    kit = Answer(right, [("from 3", (3.0,))], [("adds", {"-=": "+="})], run=run)
    found = wrong(kit, lambda values: values.update(weight=4.0))
    assert found.mistake == "adds" and found.numbers["start"] == 3.0
    assert kit.check(lambda values: values.update(weight=2.0))


def test_a_judge_serves_where_several_answers_are_right():
    def judge(got: float, width: float) -> bool | Wrong:
        return Wrong("below") if got < 0 else got > width

    kit = Answer(area, CASES, [("zero", lambda w, h: 0)], judge=judge)
    assert kit.check(lambda w, h: w + 1)
    assert wrong(kit, lambda w, h: 0.0).mistake == "zero"
    assert wrong(kit, lambda w, h: -1).mistake == "below"
    assert wrong(kit, lambda w, h: w).mistake == "other"


def test_an_answer_that_is_judged_alone_runs_without_the_solution():
    def never(width: float, height: float) -> float:
        raise AssertionError("the solution ran")

    def read(got: float) -> float:
        if got < 0:
            raise Wrong("below")
        return got

    kit = Answer(never, CASES, [("zero", lambda w, h: 1 / 0)], read=read, alone=True)
    assert kit.check(lambda w, h: w + 1)
    assert wrong(kit, lambda w, h: -1).mistake == "below"
    assert wrong(kit, lambda w, h: 2 / 0).mistake == "zero"
    assert wrong(kit, lambda w, h: int("x")).mistake == "raised"


def test_a_pass_tells_what_its_function_says():
    kit = Answer(area, CASES, passed=lambda got, want: Passed((("last", got[-1], want[-1], ""),)))
    assert kit.check(area).measures == (("last", 20.0, 20.0, ""),)


def test_prints_are_seen_up_to_the_case_that_fails(capsys):
    def noisy(width: float, height: float) -> float:
        print("at", width)
        return width + height

    mistakes = [("sum", {"*": "+"}), ("again", {"*": "+"})]
    assert wrong(Answer(area, CASES, mistakes), noisy).case == "1 by 3"
    assert capsys.readouterr().out == "at 2.0\nat 1.0\n"


def test_a_function_that_names_what_it_will_not_get_is_refused_at_load():
    with pytest.raises(
        BadInput, match="facts of area asks for depth; it may ask for width, height, got"
    ):
        Answer(area, CASES, facts=lambda depth: {})
    with pytest.raises(BadInput, match="when of area, odd asks for rank"):
        Answer(area, CASES, [Mistake("odd", when=lambda rank: True)])


def test_words_that_change_must_stand_in_the_solution_once():
    assert altered(area, {"width *": "2 *"})(5, 3) == 6
    with pytest.raises(BadInput, match="'breadth' occurs 0 times in the solution of area"):
        Answer(area, CASES, [("odd", {"breadth": "width"})])
    with pytest.raises(BadInput, match="'width' occurs 2 times"):
        altered(area, {"width": "height"})
    with pytest.raises(BadInput, match="area is not valid Python"):
        altered(area, {"return": "return return"})


def test_a_solution_comes_from_its_lesson_and_needs_its_names():
    here = {"__name__": "28_gpu_gpt2_strategies.exercises.tokens"}
    with pytest.raises(BadInput, match="tokens_per_second in lesson 28 uses statistics: import"):
        solution("tokens_per_second", here)
    import statistics

    found = solution("tokens_per_second", here | {"statistics": statistics})
    assert found([(2.0, [[5, -100]])], 1, 0) == (0.5, 0.5)
    with pytest.raises(BadInput, match="lesson 28 has no solution 'tokens'"):
        solution("tokens", here)
    with pytest.raises(BadInput, match="elsewhere is in no lesson's room"):
        solution("tokens", {"__name__": "elsewhere"})


def test_what_judges_alone_has_to_judge():
    with pytest.raises(BadInput, match="area has `alone`, but no"):
        Answer(area, CASES, alone=True)


def test_an_answer_is_not_right_because_the_solution_was_late_too(monkeypatch):
    def endless(n: int) -> int:
        while True:
            n += 1

    monkeypatch.setattr("dtlib.learn.calls.LIMIT", 0.05)
    with pytest.raises(NotJudged, match="own solution of endless did not finish in time"):
        Answer(endless, [("n = 1", (1,))]).check(endless)


@pytest.mark.parametrize(("a", "b", "same"), [
    (1.0, 1.0 + 1e-9, True),
    (1, 1.001, False),
    (0.0, 1e-15, True),
    (math.nan, math.nan, True),
    (math.nan, 1.0, False),
    (math.inf, math.inf, True),
    (True, 1, False),
    ([1, (2, 3)], (1, [2, 3]), True),
    ([1, 2], [1], False),
    ({"a": 1.0}, {"a": 1.0 + 1e-9}, True),
    ({"a": 1.0}, {"b": 1.0}, False),
    ("ab", ["a", "b"], False),
    (None, 0, False),
    ({1, 2}, {2, 1}, True),
    (torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.nan]), True),
    (torch.ones(2), torch.ones(2, 1), False),
    (torch.ones(2), torch.ones(2).double(), False),
    (torch.ones(1), 1.0, False),
    (np.array(["a", "b"]), np.array(["a", "b"]), True),
    (np.array(["a", "b"]), np.array(["a", "c"]), False),
    (object(), object(), False),
])  # fmt: skip
def test_outcomes_are_alike(a, b, same):
    assert alike(a, b) is same and alike(b, a) is same


def test_a_quoted_object_shows_that_it_was_cut():
    assert shown([1, 2]) == "[1, 2]"
    assert shown({"median": 1.25}, 14) == "{'median': 1.2…"  # and not a number that nobody returned


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        (2.5, 1.0, ("2.5", "1")),
        (0.3636, 4 / 11, ("0.3636", "0.363636")),
        (701.01, 701.0, ("701.01", "701")),
        ([1.0, 2221.9], [1.0, 2222.0], ("1, 2221.9", "1, 2222")),
    ],
)
def test_two_numbers_that_differ_are_told_apart(got, want, words):
    assert told_apart(got, want) == words
    kit = Answer(lambda: want, [("it", ())], read=lambda value: value)
    told = wrong(kit, lambda: got).numbers
    assert (told["got"], told["want"]) == words


def test_a_number_that_lost_decimals_is_not_one_that_lost_a_part():
    want = 2222.2
    assert shortened(2222.0, want) and shortened(0.57, 4 / 7)
    assert not shortened(2220.0, want)  # without the last ones of 10000 + 1000 + 100 + 10 + 1
    assert not any(shortened(got, 4 / 7) for got in (1.0, 0.0, 4 / 7, float("nan")))


def test_an_answer_that_returns_nothing_is_told_so_where_none_may_be_right():
    kit = Answer(
        lambda w: w if w > 1 else None,
        [("3", (3,)), ("1", (1,)), ("2", (2,))],
        [("gave_up", lambda w: None if w > 2 else w)],
        read=lambda got: got,
    )
    assert wrong(kit, lambda w: None).mistake == "none"
    assert wrong(kit, lambda w: w if w == 2 else None).mistake == "gave_up"
    assert wrong(kit, lambda w: None if w > 2 else w).mistake == "gave_up"
