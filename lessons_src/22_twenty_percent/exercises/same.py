"""Exercise 22.5: whether it is still the same experiment after a change."""

from operator import eq

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import one_of
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed

BASE = {
    "ranks": 2, "micro_batch": 8, "accumulation": 4, "lr": 0.1, "seed": 0, "precision": "fp32",
    "norm": "group", "bucket_cap_mb": 25, "workers": 0,
}  # fmt: skip

same_experiment = solution("same_experiment", globals())


def case(key, *, both=None, **change):
    """Label a change of `BASE` and `both`; `key` names the mistake of a wrong answer here."""
    before = BASE | (both or {})
    changes = ", ".join(f"{name} {before[name]} → {new}" for name, new in change.items())
    kept = "".join(f", {name} {value} in both" for name, value in (both or {}).items())
    return (changes or "nothing changes") + kept, (before, before | change), key


def facts(before, after):
    """Return the global batches and the micro-batches, before and after."""
    old, new = (s["ranks"] * s["micro_batch"] * s["accumulation"] for s in (before, after))
    sizes = {"micro": after["micro_batch"], "was": before["micro_batch"]}
    return {"old": old, "new": new, "norm": after["norm"], **sizes}


EXERCISE = Answer(
    same_experiment,
    read=one_of(("same", "numbers", "another"), "word"),
    # From no change at all to a batch norm that sees another micro-batch.
    cases=[
        case("unchanged"),
        case("speed_only", workers=2, bucket_cap_mb=5),
        case("lr", lr=0.2),
        case("lr", both={"lr": 1e-3}, lr=2e-3),
        case("lr", both={"lr": 1e-6}, lr=1.001e-6),
        case("seed", seed=1),
        case("cut", micro_batch=32, accumulation=1),
        case("cut", both={"norm": "layer"}, micro_batch=32, accumulation=1),
        case("ranks", ranks=4),
        case("scaled_lr", ranks=4, lr=0.2),
        case("ranks_shared", ranks=4, accumulation=2),
        case("precision_is_another", precision="bf16"),
        case("precision_is_another", both={"precision": "bf16"}, precision="fp32"),
        case("worst", precision="bf16", lr=0.2),
        case("norm", norm="batch"),
        case("norm", norm="layer"),
        case("batch_norm", both={"norm": "batch"}, micro_batch=32, accumulation=1),
        case("batch_norm", both={"norm": "batch"}, micro_batch=4, accumulation=8),
        case("batch_norm", both={"norm": "batch"}, ranks=4, micro_batch=4),
        case("batch_norm_ranks", both={"norm": "batch"}, ranks=4, accumulation=2),
        case("speed_only", both={"norm": "batch"}, workers=2, bucket_cap_mb=5),
        case("precision_is_another", both={"norm": "batch"}, precision="bf16"),
    ],
    mistakes=[
        Mistake("numbers_too_often",
                when=lambda got, before, after: (
                    got == "numbers" and before["precision"] == after["precision"]
                )),
        Mistake("precision_ignored", when=lambda got, want: (got, want) == ("same", "numbers")),
    ],
    other="unrecognised",
    facts=facts,
    changed="changed",
    passed=lambda got, want: Passed(
        (("changes judged as here", sum(map(eq, got, want)), len(want), ""),)
    ),
)  # fmt: skip
