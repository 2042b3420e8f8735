"""Exercise 28.2: which rows of a table may be compared, because one setting alone differs."""

from dtlib.learn.answers import Answer
from dtlib.learn.mistakes import Mistake
from dtlib.learn.readers import listed
from dtlib.learn.solutions import solution
from dtlib.learn.verdicts import Passed, Wrong

SETTINGS = (
    "strategy", "model", "precision", "optimizer", "world_size", "global_batch", "micro_batch",
    "max_length",
)  # fmt: skip
BASE = {
    "strategy": "ddp", "model": "gpt2", "precision": "bf16", "optimizer": "adamw", "world_size": 4,
    "global_batch": 32, "micro_batch": 4, "max_length": 1024,
}  # fmt: skip
OTHERS = {
    "model": "gpt2-medium", "optimizer": "fused adam", "world_size": 8, "global_batch": 64,
    "micro_batch": 8, "max_length": 512,
}  # fmt: skip
ZERO2, UNTOLD, FP32 = {"strategy": "zero2"}, {"precision": None}, {"precision": "fp32"}
SMALLER = {"global_batch": 8, "micro_batch": 2}
# Words of the solution.
FAIR, APPEND = "told and differing == [factor]", "pairs.append((i, j))"
TOLD, DIFFER = "(a, b) for key in SETTINGS\n", "key for key in SETTINGS if a[key] != b[key]"

fair_pairs = solution("fair_pairs", globals())


def table(*changes):
    """Rows of the table, each with results of its own."""
    results = ({"tokens_per_s": 1000 + k, "peak_gib": 9.5 - k / 8} for k in range(len(changes)))
    return [BASE | changed | own for changed, own in zip(changes, results, strict=True)]


def kept(which):
    """A mistake: finds only those fair pairs for which `which` is true."""
    return lambda rows, factor: [pair for pair in fair_pairs(rows, factor) if which(*pair)]


def without(*keys):
    """A mistake: does not look at these settings."""
    return {DIFFER: f"key for key in SETTINGS if a[key] != b[key] and key not in {keys}"}


def read(got):
    """Read pairs of indices, in any order."""
    pairs = []
    for pair in listed(got, "not_a_list"):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise Wrong("not_pairs", got=_shown(pair))
        if not all(isinstance(k, int) and not isinstance(k, bool) for k in pair):
            raise Wrong("not_places", got=_shown(pair))
        pairs.append((pair[0], pair[1]))
    return pairs


def _shown(thing):
    text = repr(thing)
    return text if len(text) < 40 else f"a {type(thing).__name__}"


def facts(got, want, rows, factor):
    """The pairs as text; the first unfair one, and why it is unfair; the first missing one."""
    found = {"got": _pairs(got), "want": _pairs(want), "n": len(rows)}
    found["lost"] = next((str(pair) for pair in want if pair not in got), "")
    pair = next((pair for pair in got if pair not in want and max(pair) < len(rows)), (0, 0))
    a, b = (rows[k] for k in pair)
    differ = [key for key in sorted(SETTINGS) if a[key] != b[key]]
    more = [key for key in differ if key != factor]
    more += [key for key in SETTINGS if a[key] is None and b[key] is None]
    which = more[0] if more else factor
    found |= {"i": pair[0], "j": pair[1], "other": ", ".join(differ), "which": which}
    return found | {"values": f"{a[which]} and {b[which]}"}


def _pairs(pairs):
    return ", ".join(map(str, pairs[:5])) or "no pair"


EXERCISE = Answer(
    fair_pairs,
    other="unrecognised",
    read=read,
    same=lambda a, b: sorted(a) == sorted(b),
    cases=[
        ("ddp and zero2, all else equal", (table({}, ZERO2), "strategy")),
        ("ddp in fp32 and zero2 in bf16", (table(FP32, ZERO2), "strategy")),
        ("ddp twice, as repeats", (table({}, {}), "strategy")),
        *(
            (f"ddp and zero2 with another {key}", (table({}, ZERO2 | {key: other}), "strategy"))
            for key, other in OTHERS.items()
        ),
        (
            "ddp and zero2, neither of which states its precision",
            (table(UNTOLD, ZERO2 | UNTOLD), "strategy"),
        ),
        ("bf16, and a row that does not state its precision", (table({}, UNTOLD), "precision")),
        ("a row that does not state its precision, and bf16", (table(UNTOLD, {}), "precision")),
        (
            "ddp, zero1 and zero2 with one batch, ddp and zero3 with a smaller one",
            (
                table({}, {"strategy": "zero1"}, SMALLER, ZERO2, {"strategy": "zero3"} | SMALLER),
                "strategy",
            ),
        ),
        ("zero2 in bf16, ddp in bf16 and ddp in fp32", (table(ZERO2, {}, FP32), "precision")),
    ],
    mistakes=[
        Mistake("itself", {"range(i + 1,": "range(i,", FAIR: f"told and i == j or {FAIR}"},
                when=lambda got: any(i == j for i, j in got)),
        ("from_one", {APPEND: "pairs.append((i + 1, j + 1))"}),
        Mistake("outside", {APPEND: "pairs.append((i + 5, j + 7))"},
                when=lambda got, rows: any(not 0 <= k < len(rows) for pair in got for k in pair)),
        ("both_ways", {APPEND: "pairs.extend([(i, j), (j, i)])"}),
        Mistake("backwards", {APPEND: "pairs.append((j, i))"},
                when=lambda got: any(i > j for i, j in got)),
        Mistake("twice", {APPEND: "pairs.extend([(i, j)] * 2)"},
                when=lambda got: len(set(got)) < len(got)),
        ("results_too", {DIFFER: "key for key in a if a[key] != b[key]"}),
        ("repeats", {FAIR: "told and differing in ([], [factor])"}),
        ("unknown_equal", {"told and ": ""}),
        ("factor_unknown", {TOLD: "(a, b) for key in SETTINGS if key != factor\n"}),
        ("other_factor", {"[factor]": '["strategy"]'}),
        ("confounded", {FAIR: "factor in differing"}),
        ("confounded", without("precision")),
        ("confounder_left", without(*OTHERS)),
        *(("confounder_left", without(key)) for key in OTHERS),
        Mistake("confounder_left", when=lambda got, want: not set(got) <= set(want)),
        ("neighbours", kept(lambda i, j: j == i + 1)),
        ("with_first", kept(lambda i, j: i == 0)),
        Mistake("lost", lambda rows, factor: fair_pairs(rows, factor)[-1:],
                when=lambda got, want: set(got) < set(want)),
    ],
    changed="mutates",
    facts=facts,
    passed=lambda got, want: Passed(
        (("fair pairs, of the ten pairs of five rows", len(got[-2]), len(want[-2]), ""),)
    ),
)  # fmt: skip
