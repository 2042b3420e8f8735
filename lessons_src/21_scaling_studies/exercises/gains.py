"""Exercise 21.2: is it a gain? A word for what the throughputs of paired repeats show."""

import operator
import statistics

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import one_of
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

verdict = solution("verdict", globals())


def case(key, before, after):
    """Label the throughputs before and after; `key` names the mistake of a wrong answer here."""
    told = (", ".join(f"{value:g}" for value in values) for values in (before, after))
    return "before [{}], after [{}]".format(*told), (before, after), key


def by(change):
    """A mistake: a single number, computed from all repeats, decides."""

    def program(before, after):
        if len(before) < 2 or change(before, after) == 0:
            return "noise"
        return "gain" if change(before, after) > 0 else "loss"

    return program


def of_ranges(before, after):
    """Return 1 if every `after` is above every `before`, -1 if every one is below, else 0."""
    return (min(after) > max(before)) - (max(after) < min(before))


EXERCISE = Answer(
    verdict,
    other="unrecognised",
    read=one_of(("gain", "loss", "noise"), "not_a_word"),
    cases=[
        case("blind", [100, 100, 100], [105, 106, 104]),
        case("loss", [100, 100, 100], [95, 94, 97]),
        case("median_only", [100, 100, 100], [120, 99, 110]),
        case("median_only", [100, 100, 100], [80, 90, 101]),
        case("unpaired", [100, 50, 80], [105, 53, 84]),
        case("sorted", [100, 50, 80], [55, 90, 104]),
        case("threshold", [100, 100, 100], [101, 102, 101.5]),
        case("zero", [100, 100, 100], [100, 101, 102]),
        case("zero", [100, 100, 100], [100, 99, 98]),
        case("two", [100, 100], [105, 104]),
        case("two", [100, 100], [95, 96]),
        case("one", [100], [150]),
        case("one", [100], [60]),
    ],
    mistakes=[
        ("two", {"len(before) > 1 and signs == {1}": "len(before) > 2 and signs == {1}",
                 "len(before) > 1 and signs == {-1}": "len(before) > 2 and signs == {-1}"}),
        ("zero", {"(b < a)": "(b <= a)"}),
        Mistake("swapped", lambda before, after: verdict(after, before),
                when=lambda got, want: {got, want} == {"gain", "loss"}),
        ("blind", lambda before, after: "noise"),
        ("loss", {'return "loss"': 'return "noise"'}),
        ("median_only", by(lambda *both: statistics.median(map(operator.sub, *reversed(both))))),
        ("unpaired", by(of_ranges)),
        ("sorted", lambda before, after: verdict(sorted(before), sorted(after))),
        ("threshold", {"(b > a) - (b < a)": "(b > 1.02 * a) - (b < 0.98 * a)"}),
        ("zero", {"(b > a) - (b < a)": "1 if b >= a else -1"}),
        ("one", {'len(before) > 1 and signs == {1}': "signs == {1}",
                 'len(before) > 1 and signs == {-1}': "signs == {-1}"}),
    ],
    passed=lambda got: Passed((("13 pairs of lists", "as judged", "as judged", ""),)),
)  # fmt: skip
