"""`cheapest_in_time`: how many GPUs to ask for, from a scaling table."""

import math

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.ratios import near, short
from dtlib.learn.readers import several, told_apart
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

WORK = 36e6  # pictures: 10 hours on one GPU
IN_TIME, CHEAPER = "hours <= deadline", "cost < found[1]"  # words of the solution
COST, SPEED = 'row["gpus"] * hours', 'row["images_per_second"]'

cheapest_in_time = solution("cheapest_in_time", globals())


def table(**rates):
    """Rows of a scaling table: `g4=3400` is 3,400 images/s on 4 GPUs together."""
    return [{"gpus": int(k[1:]), "images_per_second": v} for k, v in rates.items()]


USUAL = table(g1=1000, g2=1900, g4=3400, g8=4800, g16=5200)
MIXED = table(g8=4800, g1=1000, g16=5200, g2=1900, g4=3400)
# Two GPUs that are more than twice as fast as one, because what each holds fits its cache.
SUPER = table(g1=100, g2=210, g4=380)
ONE = table(g1=1000)
# Four cost more than two, and eight less: the cost rises and falls again.
HILL = table(g2=1900, g4=3400, g8=8400)


def case(rows, images, deadline):
    """A case, with its table in words."""
    told = ", ".join(f"{row['images_per_second']:,} on {row['gpus']}" for row in rows)
    label = f"images/s by GPUs: {told}; {images:,.0f} images within {deadline} h"
    return label, (rows, images, deadline)


ON_THE_DOT = case(ONE, WORK, 10)


def hours_of(rows, images):
    """The hours of each row, by its number of GPUs."""
    return {row["gpus"]: images / row["images_per_second"] / 3600 for row in rows}


def read(got):
    """Read a number of GPUs and their GPU hours, or None."""
    if got is None:
        return None
    gpus, cost = several(2, "pair")(got)
    return int(gpus) if gpus.is_integer() else gpus, cost


def linear(rows, images, deadline):
    """A mistake: the fewest GPUs that would be in time if N of them were N times as fast."""
    hours = hours_of(rows, images)
    found = [n for n in sorted(hours) if hours[1] / n <= deadline]
    return (found[0], found[0] * hours[found[0]]) if found else None


def stops_early(rows, images, deadline):
    """A mistake: the search ends at the first row in time that costs more than the one before."""
    found = None
    for gpus, hours in sorted(hours_of(rows, images).items()):
        if hours <= deadline:
            if found and gpus * hours > found[1]:
                break
            found = gpus, gpus * hours
    return found


def last_row(rows, images, deadline):
    """A mistake: the row in time that comes last in the table."""
    found = None
    for row in rows:
        hours = images / row["images_per_second"] / 3600
        if hours <= deadline:
            found = row["gpus"], row["gpus"] * hours
    return found


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


def is_rounded(got, want):
    """Whether the GPU hours, or the hours before they were multiplied, are rounded in any way."""
    if got is None or want is None or got[0] != want[0]:
        return False
    pairs = [(got[1], want[1]), (got[1] / got[0], want[1] / want[0])]
    return any(
        near(mine * 10**digits, way(right * 10**digits))
        for mine, right in pairs
        for digits in range(6)
        for way in (round, math.ceil, math.floor)
    )


def facts(got, want, rows, images):
    """The row that was chosen and the right one; if they are the same, the two costs."""
    hours = hours_of(rows, images)
    if got is None or want is None:
        took = short(hours.get(got[0], 0.0)) if got else ""
        return {"got": repr(got), "n": want and want[0], "hours": took}
    (gpus, cost), (right, cheap) = got, want
    if gpus == right:
        seen = dict(zip(("got", "want"), told_apart(cost, cheap), strict=True))
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
        case(ONE, WORK, 100),
        case(USUAL, WORK, 6),
        case(USUAL, WORK, 2.5),
        case(SUPER, 3.6e6, 100),
        case(MIXED, WORK, 6),
        ON_THE_DOT,
        case(USUAL, WORK, 1),
        case(HILL, WORK, 6),
        case(ONE, 0.6004 * WORK, 6),  # 6.004 hours
    ],
    mistakes=[
        ("nearly", {IN_TIME: "round(hours) <= deadline"}),
        ("nearly", {IN_TIME: "int(hours) <= deadline"}),
        ("nearly", {IN_TIME: "hours <= 1.01 * deadline"}),
        ("nearly", {IN_TIME: "round(hours, 2) <= deadline"}),
        Mistake("nothing_is_in_time", lambda rows, images, deadline: (
            cheapest_in_time(rows, images, deadline) or cheapest_in_time(rows, images, math.inf)),
            when=lambda want: want is None),
        Mistake("on_the_dot", {IN_TIME: "hours < deadline"},
                when=lambda got, case: got is None and case == ON_THE_DOT[0]),
        ("dearest", {CHEAPER: "cost > found[1]"}),
        ("last_row", last_row),
        Mistake("gave_up", {f"if {IN_TIME}": f"if hours > deadline:\n            return None\n"
                            f"        if {IN_TIME}"}, when=lambda got: got is None),
        ("cost_in_time", {IN_TIME: "cost <= deadline"}),
        ("stops_early", stops_early),
        ("swapped", lambda *asked: (found := cheapest_in_time(*asked)) and found[::-1]),
        ("times_gpus", {SPEED: f'({SPEED} * row["gpus"])'}),
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
        ("fastest", {COST: "hours"}),
        Mistake("dearer", when=chosen(lambda gpus, hours, deadline: True)),
        ("wall_hours", cost_as(lambda gpus, cost, hours: cost / gpus)),
        ("seconds", cost_as(lambda gpus, cost, hours: 3600 * cost)),
        ("per_gpu", cost_as(lambda gpus, cost, hours: cost / gpus**2)),
        ("ideal", cost_as(lambda gpus, cost, hours: hours[1])),
        ("rounded", cost_as(lambda gpus, cost, hours: math.floor(cost))),
        Mistake("rounded", cost_as(lambda gpus, cost, hours: round(cost, 2)), when=is_rounded),
    ],
    other="cost",
    facts=facts,
    passed=passed,
)  # fmt: skip
