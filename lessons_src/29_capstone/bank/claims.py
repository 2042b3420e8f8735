"""More answers to `find_the_error`, for the tests only."""

import statistics

from ..exercises.claims import find_the_error


def step_by_step(kind, rows, claimed):
    for row in rows:
        for other in rows:
            same = row["batch"] == other["batch"]
            if kind == "weak":
                same = row["batch"] * other["ranks"] == other["batch"] * row["ranks"]
            if not same:
                return "mixed"
    if min(row["ranks"] for row in rows) > 1:
        return "no baseline"
    most = max(row["ranks"] for row in rows)
    found = []
    for row in rows:
        for one in rows:
            if one["ranks"] == 1 and row["ranks"] == most and one["repeat"] == row["repeat"]:
                found.append(one["step_time_s"] / row["step_time_s"])
    if kind == "strong":
        found = [value / most for value in found]
    if len(found) == 1:
        return "one repeat"
    middle, largest = f"{statistics.median(found):.2f}", f"{max(found):.2f}"
    if f"{claimed:.2f}" == middle:
        return "fine"
    return "best of" if f"{claimed:.2f}" == largest else "not measured"


def with_sorting(kind, rows, claimed):
    each_rank = kind == "weak"
    sizes = sorted(row["batch"] / (row["ranks"] if each_rank else 1) for row in rows)
    if sizes[0] != sizes[-1]:
        return "mixed"
    alone = {row["repeat"]: row["step_time_s"] for row in rows if row["ranks"] == 1}
    most = max(row["ranks"] for row in rows)
    ideal = 1 if each_rank else most
    each = sorted(
        alone[row["repeat"]] / ideal / row["step_time_s"]
        for row in rows
        if row["ranks"] == most and row["repeat"] in alone
    )
    if not alone:
        return "no baseline"
    if len(each) == 1:
        return "one repeat"
    words = {round(each[-1], 2): "best of", round(statistics.median(each), 2): "fine"}
    return words.get(claimed, "not measured")


ALSO_WRONG = [
    ("not_a_word", lambda *asked: find_the_error(*asked) == "fine"),
    ("not_a_word", lambda *asked: find_the_error(*asked).upper()),
    ("strong_is_mixed", lambda *asked: "mixed"),
    ("blind", lambda *asked: "one repeat"),
    ("none", lambda *asked: print(find_the_error(*asked))),
]
ALSO_RIGHT = [step_by_step, with_sorting]
RARE = {"other"}
