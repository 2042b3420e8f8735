"""Answers to lesson 21's core exercises: to be refused, and to be accepted."""

import statistics


def pairs_of(kind, rows):
    one = {row["repeat"]: row["step_time_s"] for row in rows if row["ranks"] == 1}
    found = {}
    for row in rows:
        more = row["ranks"] if kind == "strong" else 1
        value = one[row["repeat"]] / (more * row["step_time_s"])
        found.setdefault(row["ranks"], []).append(value)
    return found


def times_of(rows):
    found = {}
    for row in sorted(rows, key=lambda row: row["repeat"]):
        found.setdefault(row["ranks"], []).append(row["step_time_s"])
    return found


# --- 21.1 efficiency ------------------------------------------------------------------------


def speed_up(kind, rows):
    return right("weak", rows)


def divides_always(kind, rows):
    return right("strong", rows)


def scaled_speed_up(kind, rows):
    found = right("weak", rows)
    return {n: value * n for n, value in found.items()} if kind == "weak" else right(kind, rows)


def upside_down(kind, rows):
    return {n: 1 / value for n, value in right(kind, rows).items()}


def in_percent(kind, rows):
    return {n: 100 * value for n, value in right(kind, rows).items()}


def against_two(kind, rows):
    times, found = times_of(rows), right(kind, rows)
    if kind == "strong":
        base = min((n for n in times if n > 1), default=1)
        for n in times:
            if n > 2:
                found[n] = base * times[base][0] / (n * times[n][0])
    return found


def medians_first(kind, rows):
    middle = {n: statistics.median(several) for n, several in times_of(rows).items()}
    return {n: middle[1] / ((n if kind == "strong" else 1) * t) for n, t in middle.items()}


def mean_of_pairs(kind, rows):
    return {n: statistics.mean(values) for n, values in pairs_of(kind, rows).items()}


def best_of_pairs(kind, rows):
    return {n: max(values) for n, values in pairs_of(kind, rows).items()}


def last_row_wins(kind, rows):
    return {n: values[-1] for n, values in pairs_of(kind, rows).items()}


def several_only(kind, rows):
    return {n: value for n, value in right(kind, rows).items() if n > 1}


def a_list(kind, rows):
    return list(right(kind, rows).values())


def sorts_the_rows(kind, rows):
    rows.sort(key=lambda row: (row["ranks"], row["repeat"]))
    return right(kind, rows)


def one_for_all(kind, rows):
    return dict.fromkeys(right(kind, rows), 0.123)


def ratio_of_means(kind, rows):
    middle = {n: statistics.mean(several) for n, several in times_of(rows).items()}
    return {n: middle[1] / ((n if kind == "strong" else 1) * t) for n, t in middle.items()}


def ratio_of_medians_undivided(kind, rows):
    middle = {n: statistics.median(several) for n, several in times_of(rows).items()}
    return {n: middle[1] / t for n, t in middle.items()}


# Right.
def right(kind, rows):
    return {n: statistics.median(values) for n, values in pairs_of(kind, rows).items()}


def by_sorted_columns(kind, rows):
    times = times_of(rows)
    result = {}
    for n in sorted(times):
        share = 1 / n if kind == "strong" else 1
        both = zip(times[1], times[n], strict=True)
        result[n] = sorted(share * a / b for a, b in both)[len(times[n]) // 2]
    return result


# --- 21.2 verdict ---------------------------------------------------------------------------


def never_a_gain(before, after):
    return "noise"


def gains_only(before, after):
    return "gain" if judged(before, after) == "gain" else "noise"


def the_wrong_way(before, after):
    return {"gain": "loss", "loss": "gain"}.get(judged(before, after), "noise")


def by_the_median(before, after):
    if len(before) < 2:
        return "noise"
    change = statistics.median(b / a for a, b in zip(before, after, strict=True))
    return "gain" if change > 1 else "loss" if change < 1 else "noise"


def by_the_mean(before, after):
    if len(before) < 2:
        return "noise"
    change = statistics.mean(after) - statistics.mean(before)
    return "gain" if change > 0 else "loss" if change < 0 else "noise"


def by_the_ranges(before, after):
    if len(before) < 2:
        return "noise"
    if min(after) > max(before):
        return "gain"
    return "loss" if max(after) < min(before) else "noise"


def by_order(before, after):
    return judged(sorted(before), sorted(after))


def from_two_percent_on(before, after):
    changes = [b / a for a, b in zip(before, after, strict=True)]
    if len(changes) > 1 and min(changes) > 1.02:
        return "gain"
    return "loss" if len(changes) > 1 and max(changes) < 0.98 else "noise"


def zero_counts(before, after):
    if len(before) < 2:
        return "noise"
    if all(b >= a for a, b in zip(before, after, strict=True)):
        return "gain"
    return "loss" if all(b <= a for a, b in zip(before, after, strict=True)) else "noise"


def one_is_enough(before, after):
    if all(b > a for a, b in zip(before, after, strict=True)):
        return "gain"
    return "loss" if all(b < a for a, b in zip(before, after, strict=True)) else "noise"


def true_or_false(before, after):
    return judged(before, after) == "gain"


# Right.
def judged(before, after):
    changes = [b - a for a, b in zip(before, after, strict=True)]
    if len(changes) < 2 or min(changes) <= 0 <= max(changes):
        return "noise"
    return "gain" if min(changes) > 0 else "loss"


def counted(before, after):
    up = sum(b > a for a, b in zip(before, after, strict=True))
    down = sum(b < a for a, b in zip(before, after, strict=True))
    if len(before) > 1 and len(before) in (up, down):
        return "gain" if up else "loss"
    return "noise"


WRONG = [
    ("efficiency", "speedup", speed_up),
    ("efficiency", "strong_on_weak", divides_always),
    ("efficiency", "scaled_speedup", scaled_speed_up),
    ("efficiency", "upside_down", upside_down),
    ("efficiency", "percent", in_percent),
    ("efficiency", "baseline", against_two),
    ("efficiency", "unpaired", medians_first),
    ("efficiency", "mean", mean_of_pairs),
    ("efficiency", "best", best_of_pairs),
    ("efficiency", "one_repeat", last_row_wins),
    ("efficiency", "missing", several_only),
    ("efficiency", "not_a_dict", a_list),
    ("efficiency", "changed", sorts_the_rows),
    ("efficiency", "efficiency", one_for_all),
    ("verdict", "blind", never_a_gain),
    ("verdict", "swapped", the_wrong_way),
    ("verdict", "loss", gains_only),
    ("verdict", "median_only", by_the_median),
    ("verdict", "unpaired", by_the_ranges),
    ("verdict", "sorted", by_order),
    ("verdict", "threshold", from_two_percent_on),
    ("verdict", "zero", zero_counts),
    ("verdict", "one", one_is_enough),
    ("verdict", "not_a_word", true_or_false),
]
ALSO_WRONG = [
    ("efficiency", "mean", ratio_of_means),
    ("efficiency", "speedup", ratio_of_medians_undivided),
    ("verdict", "median_only", by_the_mean),
]
RIGHT = [
    ("efficiency", right),
    ("efficiency", by_sorted_columns),
    ("verdict", judged),
    ("verdict", counted),
]

EFFICIENCY = """\
def efficiency(kind, rows):
    one = {{r["repeat"]: r["step_time_s"] for r in rows if r["ranks"] == 1}}
    return {{r["ranks"]: {value} for r in rows}}"""
LADDER = (
    "efficiency",
    EFFICIENCY.format(value='one[r["repeat"]] / r["step_time_s"]'),
    EFFICIENCY.format(value='1 / (r["step_time_s"] / one[r["repeat"]])'),
)
