"""Exercise 2.5: a learning rate from a range test.

The rule is that of fastai's `minimum`: a tenth of the rate at which the loss was lowest, before it
diverged. https://docs.fast.ai/callback.schedule.html
"""

import itertools
import math

from dtlib.learn.alike import alike, rounded
from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

from .returned import FP32, number_of

NAN = math.nan
# A tenth of a rate that loses digits, in the words of the solution.
CUT = ("chosen // 10", "int(chosen) / 10", *(f"round(chosen / 10, {n})" for n in range(6)))

pick_rate = solution("pick_rate", globals())


def case(what, rates, losses):
    """A range test on paper."""
    tried, gave = (", ".join(f"{value:g}" for value in values) for values in (rates, losses))
    return f"{what}: rates {tried} gave losses {gave}", (rates, losses)


def run(answer, rates, losses):
    """The rate, and whether both lists are as they were."""
    own = list(rates), list(losses)
    got = number_of(answer(*own))
    return got, alike(own, (rates, losses))


def judge(got, want):
    """A right rate; lists that changed are a mistake of their own."""
    return _same(got, want) and (got[1] or Wrong("changed"))


def _same(a, b):
    return math.isclose(a[0], b[0], rel_tol=FP32)


def place(rates, losses):
    """Where the rule finds the lowest loss."""
    want = 10 * pick_rate(rates, losses)
    return min(range(len(rates)), key=lambda k: abs(rates[k] - want))


def steepest(rates, losses):
    """A mistake: where the loss fell fastest."""
    falls = [(b - a, k) for k, (a, b) in enumerate(itertools.pairwise(losses), 1) if a > b]
    return rates[min(falls)[1] if falls else 0] / 10


def against_previous(rates, losses):
    """A mistake: 4 times the loss before."""
    pairs = enumerate(itertools.pairwise(losses), 1)
    end = next((k for k, (a, b) in pairs if not b <= 4 * a), None)
    return rates[losses.index(min(losses[:end]))] / 10


def last_divergence(rates, losses):
    """A mistake: the test goes on until the loss diverges for the last time."""
    lowest = list(itertools.accumulate(losses, min))
    ends = [k for k in range(1, len(losses)) if not losses[k] <= 4 * lowest[k - 1]]
    return rates[losses.index(min(losses[: ends[-1] if ends else None]))] / 10


def nan_wins(rates, losses):
    """A mistake: nan is the smallest of all."""
    found = [rate for rate, loss in zip(rates, losses, strict=True) if loss != loss]
    return found[0] / 10 if found else pick_rate(rates, losses)


def earlier(got, rates, losses):
    """Whether it is a tenth of a rate before the right one."""
    return any(_same(got, (rate / 10,)) for rate in rates[: place(rates, losses)])


EXERCISE = Answer(
    pick_rate,
    run=run,
    judge=judge,
    same=_same,
    cases=[
        case("one rate", [0.1], [2.3]),
        case("the loss falls all the way", [0.001, 0.01, 0.1], [2.3, 2.0, 1.5]),
        case("the loss turns", [0.002, 0.03, 0.2, 2.0], [2.3, 1.8, 2.0, 5.0]),
        case("a small step down at the end of the slope",
             [0.001, 0.02, 0.1, 1.0], [2.3, 1.2, 1.1, 1.9]),
        case("nan, and then a lower number", [0.003, 0.02, 0.3, 3.0], [2.3, 1.2, NAN, 0.1]),
        case("far up, and then a lower number", [0.004, 0.03, 0.4, 4.0], [2.3, 1.2, 11.0, 0.1]),
        case("a small rise, and then a lower number",
             [0.001, 0.02, 0.3, 4.0], [2.3, 1.2, 1.5, 1.0]),
        case("3.5 times the lowest, and then a lower number",
             [0.002, 0.03, 0.4, 5.0], [2.3, 1.0, 3.5, 0.9]),
        case("4 times the lowest, and then a lower number",
             [0.006, 0.07, 0.8, 9.0], [2.5, 1.0, 4.0, 0.9]),
        case("4.1 times the lowest, and then a lower number",
             [0.003, 0.04, 0.5, 6.0], [2.3, 1.0, 4.1, 0.9]),
        case("far up twice", [0.004, 0.03, 0.4, 4.0, 5.0], [2.3, 1.0, 5.0, 0.2, 3.0]),
        case("up to less than 4 times the first", [0.005, 0.06, 0.7, 8.0], [2.3, 0.5, 3.0, 0.1]),
        case("up by less than 4 times in each step",
             [0.001, 0.02, 0.3, 4.0, 5.0], [2.3, 1.0, 3.0, 5.0, 0.5]),
        case("more than 4 times the lowest, and less than 4 above it",
             [0.002, 0.03, 0.4, 5.0], [2.3, 0.5, 2.4, 0.1]),
        case("less than 4 times the lowest, and more than 4 above it",
             [0.004, 0.05, 0.6, 7.0], [2.4, 2.2, 6.8, 1.9]),
        case("small rates of many digits",
             [1.23457e-4, 2.34568e-4, 3.45679e-4, 4.56781e-4], [2.3, 2.1, 1.8, 2.2]),
    ],
    mistakes=[
        Mistake("nan", lambda rates, losses: NAN, when=lambda got: math.isnan(got[0])),
        ("not_a_tenth", {"chosen / 10": "chosen"}),
        ("index", place),
        ("loss", lambda rates, losses: losses[place(rates, losses)]),
        ("index", lambda rates, losses: place(rates, losses) / 10),
        ("loss", lambda rates, losses: losses[place(rates, losses)] / 10),
        ("nan_wins", nan_wins),
        ("against_previous", against_previous),
        ("against_first", {"4 * best": "4 * losses[0]"}),
        ("absolute", {"4 * best": "4"}),
        ("after_divergence", last_divergence),
        ("after_divergence", {"break": "continue"}),
        ("any_rise", {"4 * best": "best"}),
        ("factor", {"4 * best": "3 * best"}),
        ("factor", {"4 * best": "4.5 * best"}),
        ("exactly", {"<=": "<"}),
        ("added", {"4 * best": "4 + best"}),
        *(("rounded", {"chosen / 10": cut}) for cut in CUT),
        Mistake("rounded", when=lambda got, want: bool(rounded(got[0], want[0]))),
        ("last_rate", lambda rates, losses: rates[-1] / 10),
        ("steepest", steepest),
        Mistake("before", lambda rates, losses: rates[max(0, place(rates, losses) - 1)] / 10,
                when=earlier),
    ],
    facts=lambda got, want, rates, losses: {
        "got": got[0], "want": want[0], "low": losses[place(rates, losses)],
    },
    passed=lambda got: Passed(note="A loss that diverged ends the test, whatever comes after it."),
)  # fmt: skip
