"""Answers to lesson 28's first exercise: what stays free on a card."""

GIB = 2**30


def right(parameters, computing, strategy, ranks, card_gib, **other):
    """The rule, with what a mistake changes of it."""
    n = 1 if strategy == "single" else ranks
    each = {
        "single": 16,
        "ddp": 16,
        "zero1": 4 + 12 / n,
        "zero2": 2 + 14 / n,
        "zero3": 16 / n,
        "offload": 2,
        "infinity": 0,
    }
    each.update({key: size(n) for key, size in other.items()})
    return card_gib - (parameters * each[strategy] + computing) / GIB


def in_gigabytes(parameters, computing, strategy, ranks, card_gib):
    return (
        card_gib - (card_gib - right(parameters, computing, strategy, ranks, card_gib)) * GIB / 1e9
    )


def card_of_decimal_gigabytes(parameters, computing, strategy, ranks, card_gib):
    return right(parameters, computing, strategy, ranks, card_gib * 1e9 / GIB)


def in_bytes(parameters, computing, strategy, ranks, card_gib):
    return right(parameters, computing, strategy, ranks, card_gib) * GIB


def what_is_held(parameters, computing, strategy, ranks, card_gib):
    return card_gib - right(parameters, computing, strategy, ranks, card_gib)


def what_is_lacking(parameters, computing, strategy, ranks, card_gib):
    return -right(parameters, computing, strategy, ranks, card_gib)


def yes_or_no(parameters, computing, strategy, ranks, card_gib):
    return right(parameters, computing, strategy, ranks, card_gib) >= 0


def never_below_zero(*case):
    return max(0, right(*case))


def forgets_activations(parameters, computing, strategy, ranks, card_gib):
    return right(parameters, 0, strategy, ranks, card_gib)


def shares_activations(parameters, computing, strategy, ranks, card_gib):
    return right(parameters, computing / ranks, strategy, ranks, card_gib)


def forgets_the_copy(parameters, computing, strategy, ranks, card_gib):
    each = {"single": 12, "ddp": 12}
    if strategy in each:
        return card_gib - (parameters * each[strategy] + computing) / GIB
    return right(parameters, computing, strategy, ranks, card_gib)


def weights_and_nothing_else(parameters, computing, strategy, ranks, card_gib):
    return card_gib - (2 * parameters + computing) / GIB


def copy_on_top_of_fp32(parameters, computing, strategy, ranks, card_gib):
    return card_gib - (20 * parameters + computing) / GIB


def everybody_shares(*case):
    return right(*case, ddp=lambda n: 16 / n)


def gradients_shared_at_1(*case):
    return right(*case, zero1=lambda n: 2 + 14 / n)


def everything_shared_at_1(*case):
    return right(*case, zero1=lambda n: 16 / n)


def moments_alone_shared_at_1(*case):
    return right(*case, zero1=lambda n: 8 + 8 / n)


def nothing_shared_at_1(*case):
    return right(*case, zero1=lambda n: 16)


def weights_shared_at_2(*case):
    return right(*case, zero2=lambda n: 16 / n)


def gradients_whole_at_2(*case):
    return right(*case, zero2=lambda n: 4 + 12 / n)


def weights_whole_at_3(*case):
    return right(*case, zero3=lambda n: 2 + 14 / n)


def offload_like_zero2(*case):
    return right(*case, offload=lambda n: 2 + 14 / n)


def offload_keeps_gradients(*case):
    return right(*case, offload=lambda n: 2 + 2 / n)


def offload_keeps_whole_gradients(*case):
    return right(*case, offload=lambda n: 4)


def infinity_keeps_weights(*case):
    return right(*case, infinity=lambda n: 2)


def infinity_like_zero3(*case):
    return right(*case, infinity=lambda n: 16 / n)


def always_a_third_more(parameters, computing, strategy, ranks, card_gib):
    return card_gib - (right(parameters, 0, strategy, ranks, card_gib)) / 3


# Right.
def by_letters(parameters, computing, strategy, ranks, card_gib):
    shared = {"zero1": "o", "zero2": "go", "zero3": "wgo"}.get(strategy, "")
    away = {"offload": "go", "infinity": "wgo"}.get(strategy, "")
    total = float(computing)
    for kind, size in (("w", 2), ("g", 2), ("o", 12)):
        if kind not in away:
            total += size * parameters / (ranks if kind in shared else 1)
    return card_gib - total / 1024**3


def two_digits(parameters, computing, strategy, ranks, card_gib):
    return round(by_letters(parameters, computing, strategy, ranks, card_gib), 2)


def by_branches(parameters, computing, strategy, ranks, card_gib):
    weights = gradients = 2 * parameters
    optimizer = 12 * parameters
    if strategy in ("zero1", "zero2", "zero3"):
        optimizer /= ranks
    if strategy in ("zero2", "zero3"):
        gradients /= ranks
    if strategy == "zero3":
        weights /= ranks
    if strategy in ("offload", "infinity"):
        gradients = optimizer = 0
    if strategy == "infinity":
        weights = 0
    return (card_gib * 2**30 - weights - gradients - optimizer - computing) / 2**30


WRONG = [
    ("room_left", "gigabytes", in_gigabytes),
    ("room_left", "card_in_gigabytes", card_of_decimal_gigabytes),
    ("room_left", "bytes", in_bytes),
    ("room_left", "held", what_is_held),
    ("room_left", "sign", what_is_lacking),
    ("room_left", "boolean", yes_or_no),
    ("room_left", "never_negative", never_below_zero),
    ("room_left", "no_activations", forgets_activations),
    ("room_left", "activations_shared", shares_activations),
    ("room_left", "no_copy", forgets_the_copy),
    ("room_left", "weights_alone", weights_and_nothing_else),
    ("room_left", "fp32_states", copy_on_top_of_fp32),
    ("room_left", "ddp_shares", everybody_shares),
    ("room_left", "gradients_at_1", gradients_shared_at_1),
    ("room_left", "all_at_1", everything_shared_at_1),
    ("room_left", "copy_whole", moments_alone_shared_at_1),
    ("room_left", "nothing_shared", nothing_shared_at_1),
    ("room_left", "weights_at_2", weights_shared_at_2),
    ("room_left", "gradients_whole", gradients_whole_at_2),
    ("room_left", "weights_whole", weights_whole_at_3),
    ("room_left", "offload_stays", offload_like_zero2),
    ("room_left", "offload_gradients", offload_keeps_gradients),
    ("room_left", "infinity_weights", infinity_keeps_weights),
    ("room_left", "infinity_as_3", infinity_like_zero3),
    ("room_left", "other", always_a_third_more),
]
ALSO_WRONG = [("room_left", "offload_gradients", offload_keeps_whole_gradients)]
RIGHT = [("room_left", by_letters), ("room_left", by_branches), ("room_left", two_digits)]
LADDER = (
    "room_left",
    "def room_left(parameters, computing, strategy, ranks, card_gib):\n"
    "    return card_gib - (16 * parameters + computing) / 1e9\n",
    "def room_left(parameters, computing, strategy, ranks, card_gib):\n"
    "    held = 2 * parameters + 2 * parameters + 12 * parameters + computing\n"
    "    return card_gib - held / 10**9\n",
)
