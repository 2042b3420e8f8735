"""Answers to lesson 22's exercises on bounds, prices and what stays the same."""

import math

# --- 22.3 bound -----------------------------------------------------------------------------


def left_of(levers):
    return 1 - sum(s for s, _ in levers) + sum(s / f for s, f in levers)


def one_less(levers):
    return 1 / left_of(levers) - 1


def share_that_is_saved(levers):
    return 1 - left_of(levers)


def forgets_the_rest(levers):
    return 1 / sum(s / f for s, f in levers)


def mean_speed_up(levers):
    return 1 - sum(s for s, _ in levers) + sum(s * f for s, f in levers)


def share_times_speed_up(levers):
    return sum(s * f for s, f in levers)


def the_speed_up(levers):
    return max(f for _, f in levers)


def multiplies(levers):
    return math.prod(1 / (1 - s + s / f) for s, f in levers)


def adds(levers):
    return 1 + sum(1 / (1 - s + s / f) - 1 for s, f in levers)


def the_best_one(levers):
    return max((1 / (1 - s + s / f) for s, f in levers), default=1.0)


def infinity_over_infinity(levers):
    return 1 / (1 - sum(s * (f - 1) / f for s, f in levers))


def none_is_zero(levers):
    return 1 / left_of(levers) if levers else 0.0


def squares(levers):
    return left_of(levers) ** -2


def takes_them_out(levers):
    left = 1.0
    while levers:
        s, f = levers.pop()
        left += s / f - s
    return 1 / left


# Right.
def saved_from_one(levers):
    return 1 / (1 - sum(s * (1 - 1 / f) for s, f in levers))


def part_by_part(levers):
    parts = [*levers, (1 - sum(s for s, _ in levers), 1)]
    return 1 / math.fsum(s / f for s, f in parts)


# --- 22.4 break_even ------------------------------------------------------------------------


def no_case_for_nothing(compile_seconds, before, after):
    return math.ceil(compile_seconds / (before - after))


def none_at_all(compile_seconds, before, after):
    if after < before:
        return math.ceil(compile_seconds / (before - after))
    return None


def negative_steps(compile_seconds, before, after):
    if before == after:
        return math.inf
    return math.ceil(compile_seconds / (before - after))


def never_is_zero(compile_seconds, before, after):
    return math.ceil(compile_seconds / (before - after)) if after < before else 0


def in_old_steps(compile_seconds, before, after):
    return math.ceil(compile_seconds / before)


def in_new_steps(compile_seconds, before, after):
    return math.ceil(compile_seconds / after)


def seconds_until_then(compile_seconds, before, after):
    return no_case_for_nothing(compile_seconds, before, after) * before


def price_times_saving(compile_seconds, before, after):
    return compile_seconds * (before - after)


def price_over_ratio(compile_seconds, before, after):
    return compile_seconds / (before / after)


def a_part_of_a_step(compile_seconds, before, after):
    return compile_seconds / (before - after) if after < before else math.inf


def rounds_down(compile_seconds, before, after):
    return compile_seconds // (before - after) if after < before else math.inf


def a_hundred(*given):
    return 100


def one_more(compile_seconds, before, after):
    return compile_seconds // (before - after) + 1 if after < before else math.inf


# Right.
def floor_of_the_negative(compile_seconds, before, after):
    saved = before - after
    return -(-compile_seconds // saved) if saved > 0 else float("inf")


def counts_steps(compile_seconds, before, after):
    steps = 0
    while steps < 10_000:
        if compile_seconds + steps * after <= steps * before and after < before:
            return steps
        steps += 1
    return math.inf


# --- 22.5 same_experiment -------------------------------------------------------------------


def batch_of(one):
    return one["ranks"] * one["micro_batch"] * one["accumulation"]


def by(*keys, batch=batch_of, norm=True, precision=True):
    """An answer that compares these keys, the batch, and what the norm sees."""

    def answer(before, after):
        def what(one):
            seen = one["micro_batch"] if norm and one["norm"] == "batch" else None
            return [batch(one), seen, *(one[key] for key in keys)]

        if what(before) != what(after):
            return "another"
        same = not precision or before["precision"] == after["precision"]
        return "same" if same else "numbers"

    return answer


def named(name, answer):
    answer.__name__ = name
    return answer


def always_another(before, after):
    return "another"


def any_difference(before, after):
    return "same" if before == after else "another"


forgets_the_rate = named("forgets_the_rate", by("seed", "norm"))
forgets_the_seed = named("forgets_the_seed", by("lr", "norm"))
forgets_the_norm = named("forgets_the_norm", by("lr", "seed", norm=False))
compares_micro_batches = named(
    "compares_micro_batches", by("lr", "seed", "norm", "micro_batch", batch=len)
)
forgets_the_ranks = named(
    "forgets_the_ranks",
    by("lr", "seed", "norm", batch=lambda one: one["micro_batch"] * one["accumulation"]),
)
compares_the_ranks = named("compares_the_ranks", by("lr", "seed", "norm", "ranks"))
ignores_precision = named("ignores_precision", by("lr", "seed", "norm", precision=False))
precision_is_another = named("precision_is_another", by("lr", "seed", "norm", "precision"))
forgets_batch_norm = named("forgets_batch_norm", by("lr", "seed", "norm", norm=False))


def asks_precision_first(before, after):
    if before["precision"] != after["precision"]:
        return "numbers"
    return right_words(before, after)


def batch_norm_wants_all_alike(before, after):
    keys = ("ranks", "micro_batch", "accumulation")
    if before["norm"] == "batch" and any(before[k] != after[k] for k in keys):
        return "another"
    return right_words(before, after)


def another_cut_is_other_numbers(before, after):
    word = right_words(before, after)
    cut = before["micro_batch"] != after["micro_batch"]
    return "numbers" if word == "same" and cut else word


def true_or_false(before, after):
    return right_words(before, after) == "same"


def takes_out_precision(before, after):
    other = before.pop("precision") != after.pop("precision")
    return "numbers" if other else "same"


# Right.
right_words = named("right_words", by("lr", "seed", "norm"))


def by_what_is_left(before, after):
    def experiment(one):
        kept = {k: one[k] for k in ("lr", "seed", "norm")}
        cut = one["micro_batch"] * (one["norm"] == "batch")
        return kept, cut, math.prod(one[k] for k in ("ranks", "micro_batch", "accumulation"))

    if experiment(before) == experiment(after):
        return ("numbers", "same")[before["precision"] == after["precision"]]
    return "another"


WRONG = [
    ("bound", "time_left", left_of),
    ("bound", "time_saved", share_that_is_saved),
    ("bound", "excess", one_less),
    ("bound", "rest", forgets_the_rest),
    ("bound", "average", mean_speed_up),
    ("bound", "share_of_speedup", share_times_speed_up),
    ("bound", "speedup", the_speed_up),
    ("bound", "multiplied", multiplies),
    ("bound", "added", adds),
    ("bound", "one_only", the_best_one),
    ("bound", "infinity", infinity_over_infinity),
    ("bound", "nothing", none_is_zero),
    ("bound", "bound", squares),
    ("bound", "changed", takes_them_out),
    ("break_even", "divides_by_zero", no_case_for_nothing),
    ("break_even", "none_for_never", none_at_all),
    ("break_even", "negative", negative_steps),
    ("break_even", "never", never_is_zero),
    ("break_even", "per_step_before", in_old_steps),
    ("break_even", "per_step_after", in_new_steps),
    ("break_even", "seconds", seconds_until_then),
    ("break_even", "times_saved", price_times_saving),
    ("break_even", "ratio", price_over_ratio),
    ("break_even", "fraction", a_part_of_a_step),
    ("break_even", "too_early", rounds_down),
    ("break_even", "too_late", one_more),
    ("break_even", "steps", a_hundred),
    ("same_experiment", "unchanged", always_another),
    ("same_experiment", "speed_only", any_difference),
    ("same_experiment", "lr", forgets_the_rate),
    ("same_experiment", "seed", forgets_the_seed),
    ("same_experiment", "cut", compares_micro_batches),
    ("same_experiment", "ranks", forgets_the_ranks),
    ("same_experiment", "ranks_shared", compares_the_ranks),
    ("same_experiment", "precision_ignored", ignores_precision),
    ("same_experiment", "precision_is_another", precision_is_another),
    ("same_experiment", "worst", asks_precision_first),
    ("same_experiment", "norm", forgets_the_norm),
    ("same_experiment", "batch_norm", forgets_batch_norm),
    ("same_experiment", "batch_norm_ranks", batch_norm_wants_all_alike),
    ("same_experiment", "numbers_too_often", another_cut_is_other_numbers),
    ("same_experiment", "word", true_or_false),
    ("same_experiment", "changed", takes_out_precision),
]
RIGHT = [
    ("bound", saved_from_one),
    ("bound", part_by_part),
    ("break_even", floor_of_the_negative),
    ("break_even", counts_steps),
    ("same_experiment", right_words),
    ("same_experiment", by_what_is_left),
]
