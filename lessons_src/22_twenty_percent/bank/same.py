"""More answers to `same_experiment`, for the tests only."""

import math

from ..exercises.same import same_experiment

BATCH = 'one["ranks"] * one["micro_batch"] * one["accumulation"]'
SEEN = 'one["micro_batch"] if one["norm"] == "batch" else None'
SAME = 'before["precision"] == after["precision"]'


def batch_norm_wants_all_alike(before, after):
    keys = ("ranks", "micro_batch", "accumulation")
    if before["norm"] == "batch" and any(before[k] != after[k] for k in keys):
        return "another"
    return same_experiment(before, after)


def batch_norm_at_as_many_ranks(before, after):
    if before["ranks"] != after["ranks"] and before["norm"] == after["norm"]:
        before, after = ({**one, "norm": "group"} for one in (before, after))
    return same_experiment(before, after)


def another_cut_is_other_numbers(before, after):
    word = same_experiment(before, after)
    cut = before["micro_batch"] != after["micro_batch"]
    return "numbers" if word == "same" and cut else word


def batch_norm_if_it_grows(before, after):
    if before["micro_batch"] > after["micro_batch"]:
        before, after = ({**one, "norm": "group"} for one in (before, after))
    return same_experiment(before, after)


def learning_rate_per_sample(before, after):
    rates = [s["lr"] / math.prod(s[k] for k in ("ranks", "micro_batch", "accumulation"))
             for s in (before, after)]  # fmt: skip
    if rates[0] != rates[1]:
        return "another"
    return same_experiment({**before, "ranks": 1}, {**before, "ranks": 1, "seed": after["seed"],
                           "norm": after["norm"], "precision": after["precision"]})  # fmt: skip


def any_norm_counts(before, after):
    if before["norm"] in ("batch", "layer") and before["micro_batch"] != after["micro_batch"]:
        return "another"
    return same_experiment(before, after)


def batch_norm_wants(key):
    def judge(before, after):
        if before["norm"] == "batch" and before[key] != after[key]:
            return "another"
        return same_experiment(before, after)

    return judge


def takes_out_precision(before, after):
    other = before.pop("precision") != after.pop("precision")
    return "numbers" if other else "same"


def by_what_is_left(before, after):
    def experiment(one):
        kept = {k: one[k] for k in ("lr", "seed", "norm")}
        cut = one["micro_batch"] * (one["norm"] == "batch")
        return kept, cut, math.prod(one[k] for k in ("ranks", "micro_batch", "accumulation"))

    if experiment(before) == experiment(after):
        return ("numbers", "same")[before["precision"] == after["precision"]]
    return "another"


def by_differences(before, after):
    other = {key for key in before if before[key] != after[key]} - {"workers", "bucket_cap_mb"}
    batches = [math.prod(s[k] for k in ("ranks", "micro_batch", "accumulation"))
               for s in (before, after)]  # fmt: skip
    if batches[0] != batches[1] or other & {"lr", "seed", "norm"}:
        return "another"
    if "micro_batch" in other and after["norm"] == "batch":
        return "another"
    return "numbers" if "precision" in other else "same"


ALSO_WRONG = [
    ("lr", {'one["lr"], ': ""}),
    ("lr", {'one["lr"], ': 'round(one["lr"], 3), '}),
    ("lr", {'one["lr"], ': 'round(one["lr"], 6), '}),
    ("lr", {'one["lr"], ': "float('%.2g' % one['lr']), "}),
    ("seed", {'one["seed"], ': ""}),
    ("norm", {'one["norm"], seen': "seen", SEEN: "None"}),
    ("norm", {'one["norm"], seen': "seen"}),
    ("cut", {BATCH: 'one["micro_batch"]'}),
    ("ranks", {'one["ranks"] * ': ""}),
    ("ranks_shared", {"(batch, ": '(batch, one["ranks"], '}),
    ("precision_ignored", {SAME: "True"}),
    ("precision_ignored", {SAME: SAME.replace("==", "<=")}),
    ("precision_is_another", {"(batch, ": '(batch, one["precision"], '}),
    ("scaled_lr", learning_rate_per_sample),
    ("cut", any_norm_counts),
    ("speed_only", batch_norm_wants("workers")),
    ("precision_is_another", batch_norm_wants("precision")),
    ("batch_norm", {SEEN: "None"}),
    ("batch_norm", batch_norm_if_it_grows),
    ("batch_norm", batch_norm_at_as_many_ranks),
    ("unchanged", lambda before, after: "another"),
    ("speed_only", lambda before, after: "same" if before == after else "another"),
    ("worst", {"learnt = []": f"if not ({SAME}):\n        return 'numbers'\n    learnt = []"}),
    ("batch_norm_ranks", batch_norm_wants_all_alike),
    ("numbers_too_often", another_cut_is_other_numbers),
    ("word", lambda before, after: same_experiment(before, after) == "same"),
    ("changed", takes_out_precision),
]
ALSO_RIGHT = [by_what_is_left, by_differences]
