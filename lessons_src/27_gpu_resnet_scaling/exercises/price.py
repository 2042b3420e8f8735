"""`cheapest_in_time`: how many GPUs to ask for, from a scaling table."""

import math

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.ratios import short
from dtlib.learn.readers import number
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

WORK = 36e6  # pictures: 10 hours on one GPU
ON_THE_DOT = "a deadline that is met to the second"
IN_TIME, CHEAPER = "hours <= deadline", "cost < found[1]"  # words of the solution

cheapest_in_time = solution("cheapest_in_time", globals())


def table(**rates):
    """Rows of a scaling table: `g4=3400` is 3,400 images/s on 4 GPUs together."""
    return [{"gpus": int(k[1:]), "images_per_second": v} for k, v in rates.items()]


USUAL = table(g1=1000, g2=1900, g4=3400, g8=4800, g16=5200)
MIXED = table(g8=4800, g1=1000, g16=5200, g2=1900, g4=3400)
# Two GPUs that are more than twice as fast as one, because what each holds fits its cache.
SUPER = table(g1=100, g2=210, g4=380)
ONE = table(g1=1000)


def hours_of(rows, images):
    """The hours of each row, by its number of GPUs."""
    return {row["gpus"]: images / row["images_per_second"] / 3600 for row in rows}


def read(got):
    """Read a number of GPUs and their GPU hours, or None."""
    if got is None:
        return None
    if not isinstance(got, (tuple, list)) or len(got) != 2:
        raise Wrong("pair", got=type(got).__name__)
    gpus, cost = map(number, got)
    return int(gpus) if gpus.is_integer() else gpus, cost


def linear(rows, images, deadline):
    """A mistake: the fewest GPUs that would be in time if N of them were N times as fast."""
    hours = hours_of(rows, images)
    found = [n for n in sorted(hours) if hours[1] / n <= deadline]
    return (found[0], found[0] * hours[found[0]]) if found else None


def cost_as(way):
    """A mistake in the GPU hours of the right row, which `way` computes."""

    def program(rows, images, deadline):
        found = cheapest_in_time(rows, images, deadline)
        return found and (found[0], way(*found, hours_of(rows, images)))

    return program


def chosen(which):
    """Recognise a wrong number of GPUs, whatever cost the answer gives for them."""

    def when(got, want, rows, images, deadline):
        other = got is not None and want is not None and got[0] != want[0]
        return other and which(got[0], hours_of(rows, images), deadline)

    return when


def facts(got, want, rows, images):
    """The row that was chosen and the right one; if they are the same, the two costs."""
    if got is None or want is None:
        return {"got": repr(got), "n": want and want[0]}
    hours, (gpus, cost), (right, cheap) = hours_of(rows, images), got, want
    if gpus == right:
        seen = {"got": short(cost), "want": short(cheap)}
        return seen | {"n": gpus, "hours": short(hours[gpus])}
    seen = {"got": short(gpus), "want": right, "cheap": short(cheap), "n": short(cost)}
    took = hours.get(gpus, 0.0)
    seen |= {"measured": ", ".join(map(str, hours)), "hours": short(took)}
    return seen | {"cost": short(gpus * took)}


def passed(want):
    """Compare the GPU hours of the second case."""
    gpus, cost = want[1]
    return Passed(
        (("cost of 36 million pictures within 6 hours", cost, cost, "GPU hours"),),
        f"That is on {gpus} GPUs; 16 would take {16 * WORK / 5200 / 3600:.1f} GPU hours.",
    )


EXERCISE = Answer(
    cheapest_in_time,
    changed="changed",
    read=read,
    cases=[
        ("one GPU, all the time in the world", (ONE, WORK, 100)),
        ("five numbers of GPUs, 6 hours", (USUAL, WORK, 6)),
        ("five numbers of GPUs, 2.5 hours", (USUAL, WORK, 2.5)),
        ("two GPUs that are 2.1 times as fast, 100 hours", (SUPER, 3.6e6, 100)),
        ("the rows in another order, 6 hours", (MIXED, WORK, 6)),
        (ON_THE_DOT, (ONE, WORK, 10)),
        ("five numbers of GPUs, 1 hour", (USUAL, WORK, 1)),
    ],
    mistakes=[
        Mistake("nothing_is_in_time", lambda rows, images, deadline: (
            cheapest_in_time(rows, images, deadline) or cheapest_in_time(rows, images, math.inf)),
            when=lambda want: want is None),
        Mistake("on_the_dot", {IN_TIME: "hours < deadline"},
                when=lambda got, case: got is None and case == ON_THE_DOT),
        Mistake("gave_up", {f"if {IN_TIME}": f"if hours > deadline:\n            return None\n"
                            f"        if {IN_TIME}"}, when=lambda got: got is None),
        ("swapped", lambda *asked: (found := cheapest_in_time(*asked)) and found[::-1]),
        Mistake("not_measured", when=chosen(lambda gpus, hours, deadline: gpus not in hours)),
        Mistake("as_if_linear", linear, when=chosen(lambda gpus, hours, deadline: (
            hours[gpus] > deadline >= hours[1] / gpus))),
        Mistake("late", {IN_TIME: "True"},
                when=chosen(lambda gpus, hours, deadline: hours[gpus] > deadline)),
        Mistake("fewest", {CHEAPER: 'row["gpus"] < found[0]'},
                when=chosen(lambda gpus, hours, deadline: (
                    gpus == min(n for n in hours if hours[n] <= deadline)))),
        Mistake("fastest", {CHEAPER: 'row["gpus"] > found[0]'},
                when=chosen(lambda gpus, hours, deadline: hours[gpus] == min(hours.values()))),
        Mistake("dearer", when=chosen(lambda gpus, hours, deadline: True)),
        ("wall_hours", cost_as(lambda gpus, cost, hours: cost / gpus)),
        ("seconds", cost_as(lambda gpus, cost, hours: 3600 * cost)),
        ("per_gpu", cost_as(lambda gpus, cost, hours: cost / gpus**2)),
        ("ideal", cost_as(lambda gpus, cost, hours: hours[1])),
        ("rounded", cost_as(lambda gpus, cost, hours: round(cost))),
        ("rounded", cost_as(lambda gpus, cost, hours: math.ceil(cost))),
    ],
    other="cost",
    facts=facts,
    passed=passed,
)  # fmt: skip
