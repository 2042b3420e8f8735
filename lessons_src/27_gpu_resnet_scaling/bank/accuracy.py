"""More answers to `hours_to_accuracy`, for the tests alone."""

from ..exercises.accuracy import hours_to_accuracy


def half_an_epoch_more(curve, images, images_per_second, target):
    hours = hours_to_accuracy(curve, images, images_per_second, target)
    return hours and hours + 0.5 * images / images_per_second / 3600


def eats(curve, images, images_per_second, target):
    hours = hours_to_accuracy(curve, images, images_per_second, target)
    curve.clear()
    return hours


def walks(curve, images, images_per_second, target):
    hours = 0.0
    for accuracy in curve:
        hours += images / images_per_second / 3600
        if not accuracy < target:
            return hours
    return None


def searches(curve, images, images_per_second, target):
    good = [n for n, accuracy in enumerate(curve) if accuracy >= target]
    return (good[0] + 1) * (images / (3600 * images_per_second)) if good else None


def to_the_minute(curve, images, images_per_second, target):
    hours = hours_to_accuracy(curve, images, images_per_second, target)
    return hours and round(hours, 2)


def to_seven_digits(curve, images, images_per_second, target):
    hours = hours_to_accuracy(curve, images, images_per_second, target)
    return hours and round(hours, 7)


ALSO_WRONG = [
    ("rounded", to_the_minute),
    ("rounded", to_seven_digits),
    *(("almost", {"accuracy >= target": f"round(accuracy, {n}) >= target"}) for n in (1, 3, 4)),
    ("none", lambda *run: print(hours_to_accuracy(*run))),
    ("hours", half_an_epoch_more),
    ("changed", eats),
]
ALSO_RIGHT = [walks, searches]
