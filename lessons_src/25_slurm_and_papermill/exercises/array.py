"""`array_run`: from the index of an array's task to the settings of one run of a study."""

import copy
import itertools
import math
import numbers

from dtlib.learn.answers import Answer
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong


def case(axes, repeats):
    """A study."""
    label = " × ".join(f"{len(values)} {name}" for name, values in axes.items())
    return f"{label} × {repeats} repeat{'s' * (repeats > 1)}", (axes, repeats)


def run(answer, axes, repeats):
    """What every index gives, and one index beyond the last, which may raise an error."""
    before, found = copy.deepcopy(axes), []
    count = repeats * math.prod(map(len, axes.values()))
    for index in range(count + 1):
        try:
            found.append(answer(index, axes, repeats))
        except Exception as error:
            if index == 0 and isinstance(error, IndexError):
                raise Wrong("first", message=str(error)) from None
            if index < count:
                raise
            found.append(error)
        if axes != before:
            raise Wrong("changed")
    return found


def read(got, axes):
    """Dicts with all settings, and what the index beyond the last one gave."""
    *runs, _ = got
    for index, settings in enumerate(runs):
        if settings is None:
            raise Wrong("none_within" if any(runs) else "none", index=index, count=len(runs))
        if not isinstance(settings, dict):
            raise Wrong("kind", got=type(settings).__name__)
        if set(settings) != {*axes, "repeat"}:
            keys = ", ".join(map(str, settings))
            raise Wrong("keys", got=keys or "no key", want=", ".join([*axes, "repeat"]))
        if not isinstance(settings["repeat"], numbers.Integral):
            raise Wrong("repeat_kind", index=index, got=repr(settings["repeat"]))
    return got


def judge(got, axes, repeats):
    """Whether every run comes once, all settings before any repeat, and nothing beyond the last."""
    *runs, beyond = got
    if all(one["repeat"] != 0 for one in runs):
        return Wrong("repeat_from_1", got=max(one["repeat"] for one in runs))
    wanted = [
        {**dict(zip(axes, values, strict=True)), "repeat": repeat}
        for values in itertools.product(*axes.values())
        for repeat in range(repeats)
    ]
    for index, one in enumerate(runs):
        if one not in wanted:
            return _unknown(one, index, axes, repeats)
    times = [runs.count(one) for one in wanted]
    if min(times) == 0:
        key = "in_step" if len(axes) > 1 and repeats == 1 else "lost"
        key = "one_for_all" if max(times) == len(runs) else key
        lost, twice = (_words(wanted[times.index(count)]) for count in (0, max(times)))
        return Wrong(key, lost=lost, twice=twice, times=max(times), n=len(runs))
    turns = [one["repeat"] for one in runs]
    if len(set(turns[: len(runs) // repeats])) > 1:
        return Wrong("one_after_another", got=turns)
    return beyond is None or _beyond(beyond, len(runs))


def _unknown(settings, index, axes, repeats):
    if settings["repeat"] not in range(repeats):
        return Wrong("repeat", got=settings["repeat"], last=repeats - 1, index=index)
    name = next(name for name in axes if settings[name] not in axes[name])
    key = "whole_axis" if settings[name] == axes[name] else "no_such_value"
    return Wrong(key, name=name, got=settings[name], values=axes[name], index=index)


def _beyond(got, count):
    """An array may be larger than the study: then its last tasks have nothing to do."""
    if isinstance(got, Exception):
        return Wrong("raises_beyond", index=count)
    if not isinstance(got, dict) or not got:
        return Wrong("not_none", index=count, got=repr(got))
    return Wrong("beyond", index=count, count=count, got=_words(got))


def _words(settings):
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def passed(got):
    """The runs of all studies."""
    count = sum(len(runs) - 1 for runs in got)
    return Passed((("runs, each once", count, count, "runs"),))


EXERCISE = Answer(
    solution("array_run", globals()),
    run=run,
    read=read,
    judge=judge,
    alone=True,
    cases=[
        case({"ranks": [1, 2, 4]}, 1),
        case({"ranks": [1, 2, 4]}, 2),
        case({"ranks": [1, 2], "precision": ["fp32", "bf16"]}, 1),
        case({"ranks": [1, 2, 4], "precision": ["fp32", "bf16"], "bucket": [1, 25]}, 3),
    ],
    other="unrecognised",
    passed=passed,
)
