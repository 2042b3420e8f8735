"""Answers to lesson 27's exercises: to be refused, and to be accepted."""

import math

# --- 27.1 share_of_peak -----------------------------------------------------------------------


def without_backward(images_per_second, forward_flop, gpus, peak):
    return images_per_second * forward_flop / (gpus * peak)


def only_backward(images_per_second, forward_flop, gpus, peak):
    return 2 * images_per_second * forward_flop / gpus / peak


def doubled(images_per_second, forward_flop, gpus, peak):
    return 2 * 3 * forward_flop * images_per_second / (gpus * peak)


def in_per_cent(images_per_second, forward_flop, gpus, peak):
    return 100 * images_per_second * 3 * forward_flop / (gpus * peak)


def reached(images_per_second, forward_flop, gpus, peak):
    return images_per_second * 3 * forward_flop / gpus


def of_one_gpu(images_per_second, forward_flop, gpus, peak):
    return images_per_second * 3 * forward_flop / peak


def times_gpus(images_per_second, forward_flop, gpus, peak):
    return images_per_second * 3 * forward_flop / peak * gpus


def a_constant(images_per_second, forward_flop, gpus, peak):
    return 100 * 3 * forward_flop / (gpus * peak)


def falls_with_speed(images_per_second, forward_flop, gpus, peak):
    return 1e4 / images_per_second * 3 * forward_flop / (gpus * peak)


def left_of_the_peak(images_per_second, forward_flop, gpus, peak):
    return -(images_per_second * 3 * forward_flop) / (gpus * peak)


def four_passes(images_per_second, forward_flop, gpus, peak):
    return 4 * images_per_second * forward_flop / (gpus * peak)


def by_time(images_per_second, forward_flop, gpus, peak):
    seconds = 1 / images_per_second
    return (forward_flop + 2 * forward_flop) / seconds / gpus / peak


def in_teraflop(images_per_second, forward_flop, gpus, peak):
    return images_per_second / gpus * (3 * forward_flop / 1e12) / (peak / 1e12)


# --- 27.2 cheapest_in_time --------------------------------------------------------------------


def hours_of(row, images):
    return images / row["images_per_second"] / 3600


def cost_of(row, images):
    return row["gpus"] * hours_of(row, images)


def in_time(rows, images, deadline):
    return [row for row in rows if hours_of(row, images) <= deadline]


def linear(rows, images, deadline):
    alone = next(r for r in rows if r["gpus"] == 1)
    needed = hours_of(alone, images) / deadline
    for row in sorted(rows, key=lambda r: r["gpus"]):
        if row["gpus"] >= needed:
            return row["gpus"], cost_of(row, images)
    return None


def cheapest_of_all(rows, images, deadline):
    row = min(rows, key=lambda r: cost_of(r, images))
    return row["gpus"], cost_of(row, images)


def fewest(rows, images, deadline):
    row = min(in_time(rows, images, deadline), key=lambda r: r["gpus"], default=None)
    return row and (row["gpus"], cost_of(row, images))


def fastest(rows, images, deadline):
    row = min(in_time(rows, images, deadline), key=lambda r: hours_of(r, images), default=None)
    return row and (row["gpus"], cost_of(row, images))


def first_but_one(rows, images, deadline):
    found = sorted(in_time(rows, images, deadline), key=lambda r: r["gpus"])[:2]
    return (found[-1]["gpus"], cost_of(found[-1], images)) if found else None


def stops_at_a_late_row(rows, images, deadline):
    found = None
    for row in rows:
        if hours_of(row, images) > deadline:
            return None
        if found is None or cost_of(row, images) < found[1]:
            found = row["gpus"], cost_of(row, images)
    return found


def strictly(rows, images, deadline):
    found = None
    for row in rows:
        cost = cost_of(row, images)
        if hours_of(row, images) < deadline and (found is None or cost < found[1]):
            found = row["gpus"], cost
    return found


def best_if_none(rows, images, deadline):
    chosen = in_time(rows, images, deadline) or rows
    row = min(chosen, key=lambda r: cost_of(r, images))
    return row["gpus"], cost_of(row, images)


def the_number_alone(rows, images, deadline):
    return right(rows, images, deadline) and right(rows, images, deadline)[0]


def one_to_be_safe(rows, images, deadline):
    alone = hours_of(min(rows, key=lambda r: r["gpus"]), images)
    return math.ceil(alone / deadline) + 1, alone


def in_hours(rows, images, deadline):
    found = right(rows, images, deadline)
    return found and (found[0], found[1] / found[0])


def in_seconds(rows, images, deadline):
    found = right(rows, images, deadline)
    return found and (found[0], 3600 * found[1])


def rates_of_each(rows, images, deadline):
    found = right(rows, images, deadline)
    return found and (found[0], found[1] / found[0] ** 2)


def what_one_takes(rows, images, deadline):
    found = right(rows, images, deadline)
    alone = next(r for r in rows if r["gpus"] == 1)
    return found and (found[0], hours_of(alone, images))


def with_start_up(rows, images, deadline):
    found = right(rows, images, deadline)
    return found and (found[0], found[1] + 0.1)


def sorts_in_place(rows, images, deadline):
    for row in rows:
        row["cost"] = cost_of(row, images)
    return right(rows, images, deadline)


def right(rows, images, deadline):
    found = [(cost_of(r, images), r["gpus"]) for r in in_time(rows, images, deadline)]
    return min(found)[::-1] if found else None


def by_loop(rows, images, deadline):
    best = None
    for row in rows:
        seconds = images / row["images_per_second"]
        if seconds > deadline * 3600:
            continue
        if best is None or row["gpus"] * seconds < best[0] * best[1]:
            best = [row["gpus"], seconds]
    return None if best is None else [best[0], best[0] * best[1] / 3600]


# --- 27.3 hours_to_accuracy -------------------------------------------------------------------


def first(curve, target):
    return next((n for n, a in enumerate(curve, start=1) if a >= target), None)


def seconds(curve, images, images_per_second, target):
    epoch = first(curve, target)
    return epoch and epoch * images / images_per_second


def from_zero(curve, images, images_per_second, target):
    for epoch, accuracy in enumerate(curve):
        if accuracy >= target:
            return epoch * images / images_per_second / 3600
    return None


def all_epochs(curve, images, images_per_second, target):
    return len(curve) * images / images_per_second / 3600 if max(curve) >= target else None


def at_its_best(curve, images, images_per_second, target):
    if max(curve) < target:
        return None
    return (curve.index(max(curve)) + 1) * images / images_per_second / 3600


def above(curve, images, images_per_second, target):
    for epoch, accuracy in enumerate(curve, start=1):
        if accuracy > target:
            return epoch * images / images_per_second / 3600
    return None


def in_epochs(curve, images, images_per_second, target):
    return first(curve, target)


def one_epoch(curve, images, images_per_second, target):
    return images / images_per_second / 3600 if first(curve, target) else None


def at_one_speed(curve, images, images_per_second, target):
    epoch = first(curve, target)
    return epoch and epoch * images / 1000 / 3600


def interpolates(curve, images, images_per_second, target):
    before = 0.0
    for epoch, accuracy in enumerate(curve):
        if accuracy >= target:
            part = (target - before) / (accuracy - before) if epoch else 1.0
            return (epoch + part) * images / images_per_second / 3600
        before = accuracy
    return None


def hopes(curve, images, images_per_second, target):
    return (first(curve, target) or len(curve) + 1) * images / images_per_second / 3600


def looks_at_the_end(curve, images, images_per_second, target):
    if curve[-1] < target + 0.1:
        return None
    return first(curve, target) * images / images_per_second / 3600


def two_more(curve, images, images_per_second, target):
    epoch = first(curve, target)
    return epoch and (epoch + 0.5) * images / images_per_second / 3600


def eats(curve, images, images_per_second, target):
    epoch = 1
    while curve:
        if curve.pop(0) >= target:
            return epoch * images / images_per_second / 3600
        epoch += 1
    return None


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


WRONG = [
    ("share_of_peak", "forward_only", without_backward),
    ("share_of_peak", "backward_only", only_backward),
    ("share_of_peak", "multiply_adds", doubled),
    ("share_of_peak", "per_cent", in_per_cent),
    ("share_of_peak", "upside_down", lambda i, f, g, p: g * p / (i * 3 * f)),
    ("share_of_peak", "in_flop", reached),
    ("share_of_peak", "one_gpu", of_one_gpu),
    ("share_of_peak", "gpus_times", times_gpus),
    ("share_of_peak", "fixed", a_constant),
    ("share_of_peak", "slower", falls_with_speed),
    ("share_of_peak", "not_positive", left_of_the_peak),
    ("share_of_peak", "factor", four_passes),
    ("cheapest_in_time", "as_if_linear", linear),
    ("cheapest_in_time", "late", cheapest_of_all),
    ("cheapest_in_time", "fewest", fewest),
    ("cheapest_in_time", "fastest", fastest),
    ("cheapest_in_time", "dearer", first_but_one),
    ("cheapest_in_time", "gave_up", stops_at_a_late_row),
    ("cheapest_in_time", "on_the_dot", strictly),
    ("cheapest_in_time", "nothing_is_in_time", best_if_none),
    ("cheapest_in_time", "pair", the_number_alone),
    ("cheapest_in_time", "not_measured", one_to_be_safe),
    ("cheapest_in_time", "wall_hours", in_hours),
    ("cheapest_in_time", "seconds", in_seconds),
    ("cheapest_in_time", "per_gpu", rates_of_each),
    ("cheapest_in_time", "ideal", what_one_takes),
    ("cheapest_in_time", "cost", with_start_up),
    ("cheapest_in_time", "changed", sorts_in_place),
    ("hours_to_accuracy", "seconds", seconds),
    ("hours_to_accuracy", "counted_from_0", from_zero),
    ("hours_to_accuracy", "whole_curve", all_epochs),
    ("hours_to_accuracy", "best_epoch", at_its_best),
    ("hours_to_accuracy", "above_alone", above),
    ("hours_to_accuracy", "epochs_alone", in_epochs),
    ("hours_to_accuracy", "no_epochs", one_epoch),
    ("hours_to_accuracy", "one_speed", at_one_speed),
    ("hours_to_accuracy", "between", interpolates),
    ("hours_to_accuracy", "never", hopes),
    ("hours_to_accuracy", "gave_up", looks_at_the_end),
    ("hours_to_accuracy", "hours", two_more),
    ("hours_to_accuracy", "changed", eats),
]
RIGHT = [
    ("share_of_peak", by_time),
    ("share_of_peak", in_teraflop),
    ("cheapest_in_time", right),
    ("cheapest_in_time", by_loop),
    ("hours_to_accuracy", walks),
    ("hours_to_accuracy", searches),
]
LADDER = (
    "share_of_peak",
    """def share_of_peak(images_per_second, forward_flop, gpus, peak):
    return images_per_second * forward_flop / (gpus * peak)
""",
    """def share_of_peak(images_per_second, forward_flop, gpus, peak):
    done = images_per_second * forward_flop
    return done / gpus / peak
""",
)
