"""More answers to `diagnose_silent`, for the tests alone: other words in the solution."""

ALSO_WRONG = [
    ("p07_kind", {'"p07": (None, 6, "seeds")': '"p07": (None, 6, "epoch")'}),
    ("p07_line", {'"p07": (None, 6, "seeds")': '"p07": (None, 8, "seeds")'}),
    ("p08_kind", {'"p08": (None, 9, "epoch")': '"p08": (None, 9, "seeds")'}),
    ("p08_line", {'"p08": (None, 9, "epoch")': '"p08": (None, 10, "epoch")'}),
    ("p09_kind", {'"p09": (None, 10, "padding")': '"p09": (None, 10, "weighting")'}),
    ("p09_line", {'"p09": (None, 10, "padding")': '"p09": (None, 11, "padding")'}),
    ("p10_kind", {'"p10": (None, 12, "division")': '"p10": (None, 12, "stale")'}),
    ("p10_line", {'"p10": (None, 12, "division")': '"p10": (None, 9, "division")'}),
    ("p11_kind", {'"p11": (None, 10, "weighting")': '"p11": (None, 10, "division")'}),
    ("p11_line", {'"p11": (None, 10, "weighting")': '"p11": (None, 11, "weighting")'}),
    ("p12_kind", {'"p12": (None, 11, "batch_norm")': '"p12": (None, 11, "seeds")'}),
    ("p12_line", {'"p12": (None, 11, "batch_norm")': '"p12": (None, 8, "batch_norm")'}),
    ("p13_kind", {'"p13": (0, 13, "branch")': '"p13": (0, 13, "clipping")'}),
    ("p13_line", {'"p13": (0, 13, "branch")': '"p13": (0, 11, "branch")'}),
    ("p13_rank", {'"p13": (0, 13, "branch")': '"p13": (1, 13, "branch")'}),
    ("p14_kind", {'"p14": (None, 11, "stale")': '"p14": (None, 8, "division")'}),
    ("p14_line", {'"p14": (None, 11, "stale")': '"p14": (None, 8, "stale")'}),
    ("p15_kind", {'"p15": (None, 13, "scheduler")': '"p15": (None, 13, "stale")'}),
    ("p15_line", {'"p15": (None, 13, "scheduler")': '"p15": (None, 8, "scheduler")'}),
    ("p16_kind", {'"p16": (None, 10, "clipping")': '"p16": (None, 14, "division")'}),
    ("p16_line", {'"p16": (None, 10, "clipping")': '"p16": (None, 8, "clipping")'}),
    ("p17_kind", {'"p17": (2, 12, "skip")': '"p17": (2, 12, "branch")'}),
    ("p17_line", {'"p17": (2, 12, "skip")': '"p17": (2, 9, "skip")'}),
    ("p17_rank", {'"p17": (2, 12, "skip")': '"p17": (0, 12, "skip")'}),
    ("all_alike", {'"p07": (None, 6, "seeds")': '"p07": (1, 6, "seeds")'}),
    ("word", {'"p07": (None, 6, "seeds")': '"p07": (None, 6, "seed")'}),
    ("form", {'"p07": (None, 6, "seeds")': '"p07": 6'}),
    ("form", {'"p07": (None, 6, "seeds")': '"p07": (None, 6.0, "seeds")'}),
    ("none", {'"p07": (None, 6, "seeds")': '"p07": None'}),
]
ALSO_RIGHT = [
    {'"p15": (None, 13, "scheduler")': '"p15": (None, 14, "scheduler")'},
    {'"p17": (2, 12, "skip")': '"p17": [2, 14, "skip"]'},
]
LADDER = (
    "def diagnose_silent(patient):\n    return (1, 6, 'seeds')",
    "def diagnose_silent(patient):\n    found = (1, 6, 'seeds')\n    return found",
)
