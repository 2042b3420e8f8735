"""Exercise 21.2: is it a gain? The rule of `dtlib.measure.noise`, for paired throughputs."""

import operator
import statistics

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import one_of, words
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

MIDDLE, SPREAD = "statistics.median(ratios)", "max(ratios) / min(ratios)"  # parts of the solution
NOISY = "max(middle, 1 / middle) <= spread"

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


def all_agree(before, after):
    """The sign of the change if all repeats have the same, else 0."""
    signs = {(b > a) - (b < a) for a, b in zip(before, after, strict=True)}
    return signs.pop() if len(signs) == 1 else 0


def facts(before, after):
    """Return the ratios' median, their ends and how many they are."""
    ratios = [b / a for a, b in zip(before, after, strict=True)]
    told = {"middle": statistics.median(ratios), "low": min(ratios), "high": max(ratios)}
    told |= {"spread": told["high"] / told["low"], "lost": 1 - told["middle"]}
    return {"n": len(ratios)} | {name: words(value) for name, value in told.items()}


def of_ranges(before, after):
    """Return 1 if every `after` is above every `before`, -1 if every one is below, else 0."""
    return (min(after) > max(before)) - (max(after) < min(before))


EXERCISE = Answer(
    verdict,
    other="unrecognised",
    read=one_of(("gain", "loss", "noise"), "not_a_word"),
    # A gain, a loss, repeats that agree and differ too much, repeats that disagree, a slow turn, a
    # small gain, no change, two repeats, one; then where a mean, another of the middle ratios, a
    # difference instead of a ratio, the lists' medians or the share that is lost would decide.
    cases=[
        case("blind", [100, 100, 100], [105, 106, 104]),
        case("loss", [100, 100, 100], [95, 94, 97]),
        case("agree", [100, 100, 100], [105, 120, 110]),
        case("agree", [100, 100, 100], [95, 80, 90]),
        case("median_only", [100, 100, 100], [120, 99, 110]),
        case("median_only", [100, 100, 100], [80, 90, 101]),
        case("unpaired", [100, 50, 80], [105, 53, 84]),
        case("sorted", [100, 50, 80], [55, 90, 104]),
        case("threshold", [100, 100, 100], [101, 102, 101.5]),
        case("zero", [100, 100, 100], [100, 101, 102]),
        case("zero", [100, 100, 100], [100, 99, 98]),
        case("nothing", [100, 100, 100], [100, 100, 100]),
        case("two", [100, 100], [105, 104]),
        case("two", [100, 100], [95, 96]),
        case("one", [100], [150]),
        case("one", [100], [60]),
        case("mean", [100, 100, 100], [110, 110, 125]),
        case("middle", [100, 100, 100, 100], [110, 104, 112, 104]),
        case("middle", [100, 100, 100, 100], [108, 104, 108.5, 104]),
        case("subtracted", [100, 100, 100], [200, 150, 290]),
        case("columns", [100, 50, 80], [107, 54, 81.6]),
        case("share_lost", [100, 100, 100], [88, 91.2, 96]),
    ],
    mistakes=[
        ("agree", by(all_agree)),
        ("two", {"len(ratios) < 2": "len(ratios) < 3"}),
        ("nothing", {"<= spread": "< spread"}),
        ("zero", {"min(ratios)": "min((one for one in ratios if one != 1), default=1.0)"}),
        Mistake("swapped", lambda before, after: verdict(after, before),
                when=lambda got, want: {got, want} == {"gain", "loss"}),
        ("blind", lambda before, after: "noise"),
        ("loss", {NOISY: "middle <= spread"}),
        ("median_only", by(lambda *both: statistics.median(map(operator.sub, *reversed(both))))),
        ("unpaired", by(of_ranges)),
        ("unpaired", {SPREAD: "max(before) / min(before)"}),
        ("sorted", lambda before, after: verdict(sorted(before), sorted(after))),
        ("threshold", {NOISY: "max(middle, 1 / middle) <= max(spread, 1.02)"}),
        ("one", {"len(ratios) < 2 or ": ""}),
        ("mean", {MIDDLE: "statistics.mean(ratios)"}),
        ("middle", {MIDDLE: "statistics.median_high(ratios)"}),
        ("middle", {MIDDLE: "statistics.median_low(ratios)"}),
        ("middle", {MIDDLE: "ratios[len(ratios) // 2]"}),
        ("subtracted", {SPREAD: "1 + max(ratios) - min(ratios)"}),
        ("columns", {MIDDLE: "statistics.median(after) / statistics.median(before)"}),
        ("share_lost", {NOISY: "abs(middle - 1) <= spread - 1"}),
    ],
    facts=facts,
    passed=lambda got: Passed(((f"{len(got)} pairs of lists", "as judged", "as judged", ""),)),
)  # fmt: skip
