"""`hours_to_accuracy`: how long until a model is good enough, from its curve and its speed."""

from bisect import bisect_left

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.ratios import short
from dtlib.learn.readers import number, told_apart
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

# The curve dips and recovers, as curves do; its last epoch is not its best one.
CURVE = [0.3, 0.5, 0.62, 0.58, 0.66, 0.71, 0.69]
HOUR = 3.6e6  # pictures in an hour at 1,000 a second
HOURS = "epoch * images / images_per_second / 3600"  # words of the solution

hours_to_accuracy = solution("hours_to_accuracy", globals())


def case(curve, images, images_per_second, target):
    """A case, with its curve in words."""
    told = ", ".join(map(str, curve))
    speed = f"{images:,.0f} images at {images_per_second:,.0f} a second"
    return f"curve {told}; {speed}, target {target}", (curve, images, images_per_second, target)


def whole_hours(epochs):
    """A mistake: if the target is reached, the hours of as many epochs as `epochs` says."""

    def program(curve, images, rate, target):
        return epochs(curve) * images / rate / 3600 if max(curve) >= target else None

    return program


def all_below(curve, images, images_per_second, target):
    """A mistake: counts all epochs below the target, also those after it was reached, and one."""
    epochs = 1 + sum(accuracy < target for accuracy in curve)
    return whole_hours(lambda _: epochs)(curve, images, images_per_second, target)


def for_good(curve, images, images_per_second, target):
    """A mistake: waits for the epoch after which no accuracy is below the target."""
    below = [k for k, accuracy in enumerate(curve, start=1) if accuracy < target]
    epoch = below[-1] + 1 if below else 1
    return epoch * images / images_per_second / 3600 if epoch <= len(curve) else None


def as_if_rising(curve, images, images_per_second, target):
    """A mistake: a search that halves the curve, which works only if it never falls."""
    epoch = bisect_left(curve, target) + 1
    return epoch * images / images_per_second / 3600 if epoch <= len(curve) else None


def between(curve, images, images_per_second, target):
    """A mistake: interpolates the curve linearly between epochs."""
    hours = hours_to_accuracy(curve, images, images_per_second, target)
    epoch = next((k for k, accuracy in enumerate(curve) if accuracy >= target), 0)
    if hours is None or epoch == 0:
        return hours
    part = (target - curve[epoch - 1]) / (curve[epoch] - curve[epoch - 1])
    return (epoch + part) * images / images_per_second / 3600


def within(got, want, images, images_per_second):
    """Whether a time lies within the epoch that reaches the target, which is not the first."""
    epoch = images / images_per_second / 3600
    return want is not None and want > 1.5 * epoch and want - epoch < got < want


def facts(got, want, curve, images, images_per_second):
    """The right epoch, and what the sentences say about the curve."""
    seen = {"best": max(curve), "epochs": len(curve)}
    if got is None or want is None:
        return seen | {"got": repr(got)}
    epoch = round(want / (images / images_per_second / 3600))
    return seen | {"epoch": epoch} | dict(zip(("got", "want"), told_apart(got, want), strict=True))


def looks_at_the_end(curve, images, images_per_second, target):
    """A mistake: only a curve whose last point is well above the target counts."""
    enough = curve[-1] >= target + 0.1
    return hours_to_accuracy(curve, images, images_per_second, target) if enough else None


EXERCISE = Answer(
    hours_to_accuracy,
    changed="changed",
    read=lambda got: None if got is None else number(got),
    cases=[
        case([0.7], HOUR, 1000.0, 0.6),
        case(CURVE, HOUR, 1000.0, 0.6),
        case(CURVE, HOUR, 1000.0, 0.5),
        case(CURVE, 2 * HOUR, 4000.0, 0.66),
        case(CURVE, 50_000, 7300.0, 0.6),
        case(CURVE, HOUR, 1000.0, 0.9),
        case([0.3, 0.59999, 0.55, 0.61], HOUR, 1000.0, 0.6),
        case([0.3, 0.7, 0.5, 0.72, 0.65, 0.8, 0.58], HOUR, 1000.0, 0.6),
    ],
    mistakes=[
        ("seconds", {" / 3600": ""}),
        ("minutes", {" / 3600": " / 60"}),
        Mistake("rounded", {HOURS: f"round({HOURS})"}, when=lambda got, want: (
            None not in (got, want) and got in [round(want, digits) for digits in range(9)])),
        ("rounded", {HOURS: f"-(-{HOURS} // 1)"}),
        ("counted_from_0", {"start=1": "start=0"}),
        ("whole_curve", whole_hours(len)),
        ("best_epoch", whole_hours(lambda curve: curve.index(max(curve)) + 1)),
        ("all_below", all_below),
        ("for_good", for_good),
        ("above_alone", {">=": ">"}),
        ("almost", {"accuracy >= target": "round(accuracy, 2) >= target"}),
        ("as_if_rising", as_if_rising),
        ("epochs_alone", {HOURS: "epoch"}),
        ("no_epochs", {"epoch * images": "images"}),
        ("whole_seconds", {"images / images": "images // images"}),
        ("one_speed", {HOURS: "epoch * images / 1000 / 3600"}),
        Mistake("between", between, when=lambda got, want, images, images_per_second: (
            got is not None and within(got, want, images, images_per_second))),
        ("between", lambda curve, *run: (
            (found := between([0.0, *curve], *run)) and found - run[0] / run[1] / 3600)),
        Mistake("never", lambda curve, *run: hours_to_accuracy([*curve, 1.0], *run),
                when=lambda want: want is None),
        Mistake("gave_up", looks_at_the_end, when=lambda got: got is None),
    ],
    other="hours",
    facts=facts,
    passed=lambda got, want: Passed(
        (("time to 0.6 at 7,300 images/s", short(got[4]), short(want[4]), "hours"),)
    ),
)  # fmt: skip
