"""More answers to `diagnose_loud`, for the tests alone: other words in the solution."""

ALSO_WRONG = [
    ("p01_kind", {'"p01": (None, 10, "order")': '"p01": (None, 10, "mismatch")'}),
    ("p01_line", {'"p01": (None, 10, "order")': '"p01": (None, 12, "order")'}),
    ("p02_kind", {'"p02": (2, 12, "mismatch")': '"p02": (2, 12, "uneven")'}),
    ("p02_line", {'"p02": (2, 12, "mismatch")': '"p02": (2, 9, "mismatch")'}),
    ("p02_rank", {'"p02": (2, 12, "mismatch")': '"p02": (0, 14, "mismatch")'}),
    ("p03_kind", {'"p03": (2, 9, "uneven")': '"p03": (2, 11, "mismatch")'}),
    ("p03_line", {'"p03": (2, 9, "uneven")': '"p03": (2, 12, "uneven")'}),
    ("p03_rank", {'"p03": (2, 9, "uneven")': '"p03": (0, 11, "uneven")'}),
    ("p04_kind", {'"p04": (None, 21, "unused")': '"p04": (None, 21, "uneven")'}),
    ("p04_line", {'"p04": (None, 21, "unused")': '"p04": (None, 22, "unused")'}),
    ("p05_kind", {'"p05": (None, 9, "port")': '"p05": (None, 9, "saving")'}),
    ("p05_line", {'"p05": (None, 9, "port")': '"p05": (None, 11, "port")'}),
    ("p06_kind", {'"p06": (None, 20, "saving")': '"p06": (None, 11, "port")'}),
    ("p06_line", {'"p06": (None, 20, "saving")': '"p06": (None, 21, "saving")'}),
    ("all_alike", {'"p01": (None, 10, "order")': '"p01": (0, 10, "order")'}),
    ("all_alike", {'"p05": (None, 9, "port")': '"p05": (1, 9, "port")'}),
    ("word", {'"p01": (None, 10, "order")': '"p01": (None, 10, "deadlock")'}),
    ("form", {'"p01": (None, 10, "order")': '"p01": (None, 10)'}),
    ("form", {'"p01": (None, 10, "order")': '"p01": "order"'}),
    ("form", {'"p01": (None, 10, "order")': '"p01": (None, "10", "order")'}),
    ("none", {'"p01": (None, 10, "order")': '"p01": None'}),
]
ALSO_RIGHT = [
    {'"p06": (None, 20, "saving")': '"p06": (None, 13, "saving")'},
    {'"p06": (None, 20, "saving")': '"p06": (None, 11, "saving")'},
    {'"p03": (2, 9, "uneven")': '"p03": [2, 11, "uneven"]'},
    {'"p02": (2, 12, "mismatch")': '"p02": (2, 14, "mismatch")'},
]
LADDER = (
    "def diagnose_loud(patient):\n    return (0, 10, 'order')",
    "def diagnose_loud(patient):\n    found = (0, 10, 'order')\n    return found",
)
