"""More answers to `room_left`, for the tests alone."""

from ..exercises.room import room_left


def by_letters(parameters, computing, strategy, ranks, card_gib):
    shared = {"zero1": "o", "zero2": "go", "zero3": "wgo"}.get(strategy, "")
    away = {"offload": "go", "infinity": "wgo"}.get(strategy, "")
    total = float(computing)
    for kind, size in (("w", 2), ("g", 2), ("o", 12)):
        if kind not in away:
            total += size * parameters / (ranks if kind in shared else 1)
    return card_gib - total / 1024**3


def by_table(parameters, computing, strategy, ranks, card_gib):
    n = 1 if strategy == "single" else ranks
    each = {"zero1": 4 + 12 / n, "zero2": 2 + 14 / n, "zero3": 16 / n, "offload": 2, "infinity": 0}
    return (card_gib * 2**30 - parameters * each.get(strategy, 16) - computing) / 2**30


ALSO_WRONG = [
    ("boolean", lambda *case: room_left(*case) >= 0),
    ("rounded", lambda *case: round(room_left(*case), 2)),
    ("rounded", lambda *case: round(room_left(*case), 3)),
    ("rounded", lambda *case: round(room_left(*case), 4)),
    ("other", lambda Ψ, kept, strategy, n, card: card - room_left(Ψ, 0, strategy, n, card) / 3),
]
ALSO_RIGHT = [by_letters, by_table]
LADDER = (
    "def room_left(parameters, computing, strategy, ranks, card_gib):\n"
    "    return card_gib - (16 * parameters + computing) / 1e9\n",
    "def room_left(parameters, computing, strategy, ranks, card_gib):\n"
    "    held = 2 * parameters + 2 * parameters + 12 * parameters + computing\n"
    "    return card_gib - held / 10**9\n",
)
