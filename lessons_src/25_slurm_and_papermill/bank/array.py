"""More answers to `array_run`, for the tests alone."""

import itertools
import math

from ..exercises.array import EXERCISE

array_run = EXERCISE.reference
SETTING, REPEAT = "settings[name] = values[place]", '"repeat": index}'  # words of the solution
END = " if index < repeats else None"


def all_runs(axes, repeats):
    for repeat, *values in itertools.product(range(repeats), *axes.values()):
        yield {**dict(zip(axes, values, strict=True)), "repeat": repeat}


def begins_at_one(index, axes, repeats):
    runs = list(all_runs(axes, repeats))
    return runs[1:][index - 1 if index else len(runs)]


def a_tuple(index, axes, repeats):
    return (*(values[index % len(values)] for values in axes.values()), 0)


def pops(index, axes, repeats):
    return {**{name: values.pop(0) for name, values in axes.items()}, "repeat": 0}


def one_dict_for_all(index, axes, repeats):
    one, runs = {}, []
    for run in all_runs(axes, repeats):
        one.update(run)
        runs.append(one)
    return runs[index] if index < len(runs) else None


def every(stride):
    """Axis k moves on after so many runs."""

    def answer(index, axes, repeats):
        count = math.prod(map(len, axes.values()))
        settings = {
            name: values[index // stride(k) % len(values)]
            for k, (name, values) in enumerate(axes.items())
        }
        return {**settings, "repeat": index // count} if index < count * repeats else None

    return answer


def repeats_first(index, axes, repeats):
    index, repeat = divmod(index, repeats)
    run = array_run(index, axes, 1)
    return run and {**run, "repeat": repeat}


# Right.
def by_product(index, axes, repeats):
    return next(itertools.islice(all_runs(axes, repeats), index, None), None)


ALSO_WRONG = [
    ("first", begins_at_one),
    ("none", {"return {": "{"}),
    ("none_within", lambda index, axes, repeats: array_run(index, axes, 1)),
    ("kind", a_tuple),
    ("keys", {', "repeat": index': ""}),
    ("changed", pops),
    ("repeat_from_1", {REPEAT: '"repeat": index + 1}'}),
    ("repeat",
     lambda index, axes, repeats: {**every(lambda k: 1)(index, axes, 99), "repeat": index}),
    ("no_such_value", {SETTING: "settings[name] = place"}),
    ("whole_axis", {SETTING: "settings[name] = values"}),
    ("repeat_kind", {REPEAT: '"repeat": str(index)}'}),
    ("in_step", every(lambda k: 1)),
    ("lost", every(lambda k: 2**k)),
    ("one_for_all", one_dict_for_all),
    ("not_none", lambda *asked: array_run(*asked) or {}),
    ("one_after_another", repeats_first),
    ("beyond", {REPEAT + END: '"repeat": index % repeats}'}),
    ("raises_beyond", lambda index, axes, repeats: [*all_runs(axes, repeats)][index]),
]  # fmt: skip
ALSO_RIGHT = [{"axes.items()": "reversed(axes.items())"}, by_product]
