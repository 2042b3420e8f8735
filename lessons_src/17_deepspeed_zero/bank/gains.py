"""More answers to `gains`, for the tests alone."""

from statistics import median

from ..exercises.gains import FACTORS, each, gains


def changed(run, runs):
    return [factor for factor in FACTORS if run[factor] != runs[0][factor]]


def the_first_run_with_it(runs):
    found = {}
    for run in runs:
        for factor in changed(run, runs):
            found.setdefault(factor, runs[0]["seconds"] / run["seconds"])
    return found


def sorts_the_table(runs):
    found = gains(runs)
    runs.sort(key=lambda run: run["seconds"])
    return found


def none_where_unknown(runs):
    return dict.fromkeys(FACTORS) | gains(runs)


def named_by_value(runs):
    return {"bf16" if factor == "precision" else factor: g for factor, g in gains(runs).items()}


def by_groups(runs):
    groups = {}
    for run in runs:
        groups.setdefault(frozenset(changed(run, runs)), []).append(run["seconds"])
    before = median(groups[frozenset()])
    return {
        next(iter(key)): before / median(values) for key, values in groups.items() if len(key) == 1
    }


def by_numpy(runs):
    import numpy

    of = {f: [r["seconds"] for r in runs if changed(r, runs) == [f]] for f in FACTORS}
    before = numpy.median([r["seconds"] for r in runs if not changed(r, runs)])
    return {f: before / numpy.median(seconds) for f, seconds in of.items() if seconds}


ALSO_WRONG = [
    ("mixed", the_first_run_with_it),
    ("mutates", sorts_the_table),
    ("none_for_unknown", none_where_unknown),
    ("no_number", each(lambda gain: None)),
    ("strange_key", named_by_value),
    ("no_number", each(lambda gain: f"{gain:.1f}×")),
    ("no_number", each(str)),
    ("kind", lambda runs: list(gains(runs).values())),
]
ALSO_RIGHT = [by_groups, by_numpy]
