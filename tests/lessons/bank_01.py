"""Answers to lesson 01's exercises that its checks must refuse, and others to accept."""

import math

DAY = 86_400

# --- training_days --------------------------------------------------------------------------------


def in_one_line(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / DAY


def by_petaflop_days(parameters, tokens, gpus, teraflops, mfu):
    petaflop_days = 6 * parameters * tokens / 1e15 / DAY
    return petaflop_days / (gpus * teraflops / 1000) / mfu


def as_a_tensor(parameters, tokens, gpus, teraflops, mfu):
    import torch

    work = torch.tensor(6.0 * parameters * tokens, dtype=torch.float64)
    return work / (gpus * teraflops * 1e12 * mfu * 24 * 3600)


def tera_forgotten(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / (gpus * teraflops * mfu) / DAY


def giga(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / (gpus * teraflops * 1e9 * mfu) / DAY


def forward_only(parameters, tokens, gpus, teraflops, mfu):
    return 2 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / DAY


def backward_only(parameters, tokens, gpus, teraflops, mfu):
    return 4 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / DAY


def one_flop_each(parameters, tokens, gpus, teraflops, mfu):
    return parameters * tokens / (gpus * teraflops * 1e12 * mfu) / DAY


def bytes_for_flop(parameters, tokens, gpus, teraflops, mfu):
    return 16 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / DAY


def hours(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / 3600


def minutes(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / 60


def seconds(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / (gpus * teraflops * 1e12 * mfu)


def runs_a_day(parameters, tokens, gpus, teraflops, mfu):
    return gpus * teraflops * 1e12 * mfu * DAY / (6 * parameters * tokens)


def mfu_as_percent(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / (gpus * teraflops * 1e12 * mfu / 100) / DAY


def one_gpu(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / (teraflops * 1e12 * mfu) / DAY


def gpus_above(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens * gpus / (teraflops * 1e12 * mfu) / DAY


def precedence(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / teraflops / 1e12 * gpus / mfu / DAY


def gpus_twice(parameters, tokens, gpus, teraflops, mfu):
    share = tokens / gpus
    return 6 * parameters * share / (gpus * teraflops * 1e12 * mfu) / DAY


def no_mfu(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / (gpus * teraflops * 1e12) / DAY


def mfu_above(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens * mfu / (gpus * teraflops * 1e12) / DAY


def mfu_twice(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / mfu / (gpus * teraflops * 1e12 * mfu) / DAY


def floored(parameters, tokens, gpus, teraflops, mfu):
    return int(6 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) // DAY)


def rounded_up(parameters, tokens, gpus, teraflops, mfu):
    return math.ceil(6 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / DAY)


def recomputed(parameters, tokens, gpus, teraflops, mfu):
    return 8 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / DAY


def negative(parameters, tokens, gpus, teraflops, mfu):
    return -1


def endless(parameters, tokens, gpus, teraflops, mfu):
    return float("inf")


def no_days(parameters, tokens, gpus, teraflops, mfu):
    return float("nan")


def printed(parameters, tokens, gpus, teraflops, mfu):
    print(6 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / DAY)


def in_words(parameters, tokens, gpus, teraflops, mfu):
    return f"{6 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / DAY} days"


def a_pair(parameters, tokens, gpus, teraflops, mfu):
    return [6 * parameters * tokens, gpus * teraflops * 1e12 * mfu]


def divides_by_zero(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / (gpus // 2)


# --- states_gb ------------------------------------------------------------------------------------


def kept(parameters, each):
    names = ("parameters", "gradients", "fp32_copy", "optimizer")
    return {name: size * parameters / 1e9 for name, size in zip(names, each, strict=True)}


MOMENTS = {"adamw": 2, "sgd": 1, "sgd-plain": 0}


def sizes(precision, optimizer):
    first = (2, 2, 4) if precision == "mixed" else (4, 4, 0)
    return [*first, 4 * MOMENTS[optimizer]]


def by_branches(parameters, precision, optimizer):
    billions = parameters / 1e9
    held = {"parameters": 4 * billions, "gradients": 4 * billions, "fp32_copy": 0, "optimizer": 0}
    if precision == "mixed":
        held.update(parameters=2 * billions, gradients=2 * billions, fp32_copy=4 * billions)
    if optimizer != "sgd-plain":
        held["optimizer"] = (8 if optimizer == "adamw" else 4) * billions
    return held


def in_any_order(parameters, precision, optimizer):
    weight, gradient, copy, state = sizes(precision, optimizer)
    bits = {"optimizer": 8 * state, "fp32_copy": 8 * copy, "gradients": 8 * gradient}
    bits["parameters"] = 8 * weight
    return {kind: parameters * n / 8e9 for kind, n in bits.items()}


def total_only(parameters, precision, optimizer):
    return sum(sizes(precision, optimizer)) * parameters / 1e9


def three_kinds(parameters, precision, optimizer):
    held = kept(parameters, sizes(precision, optimizer))
    held["optimizer"] += held.pop("fp32_copy")
    return held


def own_names(parameters, precision, optimizer):
    held = kept(parameters, sizes(precision, optimizer))
    held["weights"] = held.pop("parameters")
    return held


def in_bytes(parameters, precision, optimizer):
    return kept(parameters * 1e9, sizes(precision, optimizer))


def in_gib(parameters, precision, optimizer):
    return kept(parameters * 1e9 / 2**30, sizes(precision, optimizer))


def in_bits(parameters, precision, optimizer):
    return kept(parameters * 8, sizes(precision, optimizer))


def in_megabytes(parameters, precision, optimizer):
    return kept(parameters * 1e3, sizes(precision, optimizer))


def changed(kind, size, when):
    """A right answer but for one number, in one precision."""

    def states_gb(parameters, precision, optimizer):
        held = kept(parameters, sizes(precision, optimizer))
        if when in (precision, optimizer):
            held[kind] = size * parameters / 1e9
        return held

    return states_gb


def named(function, name):
    function.__name__ = name
    return function


fp32_weights = named(changed("parameters", 4, "mixed"), "fp32_weights")
fp32_gradients = named(changed("gradients", 4, "mixed"), "fp32_gradients")
no_gradients = named(changed("gradients", 0, "mixed"), "no_gradients")
no_copy = named(changed("fp32_copy", 0, "mixed"), "no_copy")
half_copy = named(changed("fp32_copy", 2, "mixed"), "half_copy")
one_moment = named(changed("optimizer", 4, "adamw"), "one_moment")
copy_twice = named(changed("optimizer", 12, "adamw"), "copy_twice")
sgd_as_adam = named(changed("optimizer", 8, "sgd"), "sgd_as_adam")
no_momentum = named(changed("optimizer", 0, "sgd"), "no_momentum")
plain_state = named(changed("optimizer", 4, "sgd-plain"), "plain_state")
copy_of_fp32 = named(changed("fp32_copy", 4, "fp32"), "copy_of_fp32")
fp32_as_16 = named(changed("parameters", 2, "fp32"), "fp32_as_16")
fp32_gradient_as_16 = named(changed("gradients", 2, "fp32"), "fp32_gradient_as_16")
one_byte = named(changed("gradients", 1, "fp32"), "one_byte")


def none_for_nothing(parameters, precision, optimizer):
    held = kept(parameters, sizes(precision, optimizer))
    return {kind: value or None for kind, value in held.items()}


def only_adam(parameters, precision, optimizer):
    return kept(parameters, [2, 2, 4, {"adamw": 8}[optimizer]])


def never_ends(parameters, precision, optimizer):
    while True:
        parameters += 1


# --- mfu ------------------------------------------------------------------------------------------


def for_one_rank(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    return 6 * parameters * tokens_per_rank / step_seconds / teraflops / 1e12


def by_ideal_time(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    forward = 2 * parameters * tokens_per_rank * ranks
    return (forward + 2 * forward) / (ranks * teraflops * 1e12) / step_seconds


def share(flop_each=6, power=12, above=("ranks",), below=("ranks",), times=1.0):
    """An answer of the right form; `above` and `below` say where the ranks stand."""

    def mfu(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
        work = flop_each * parameters * tokens_per_rank * ranks ** len(above)
        return times * work / (step_seconds * teraflops * 10**power * ranks ** len(below))

    return mfu


in_percent = named(share(times=100), "in_percent")
tera_lost = named(share(power=0), "tera_lost")
forward_share = named(share(2), "forward_share")
always_eight = named(share(8), "always_eight")
tokens_of_one = named(share(above=()), "tokens_of_one")
peak_of_one = named(share(below=()), "peak_of_one")
ranks_upside_down = named(share(above=(), below=("ranks", "ranks")), "ranks_upside_down")
seven = named(share(7), "seven")


def flop_a_second(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    return 6 * parameters * tokens_per_rank / step_seconds


def teraflop_a_second(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    return 6 * parameters * tokens_per_rank / step_seconds / 1e12


def without_seconds(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    return 6 * parameters * tokens_per_rank / (teraflops * 1e12)


def times_seconds(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    return 6 * parameters * tokens_per_rank / (teraflops * 1e12) * step_seconds


def inverse(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    return step_seconds * teraflops * 1e12 / (6 * parameters * tokens_per_rank)


def hardware(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    each = 8 if recompute else 6
    return each * parameters * tokens_per_rank / (step_seconds * teraflops * 1e12)


def nothing(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    flop = 6 * parameters * tokens_per_rank
    flop / (step_seconds * teraflops * 1e12)


# --- smallest_world -------------------------------------------------------------------------------

DIVIDED = {0: 0, 1: 12, 2: 14, 3: 16}


def holds(parameters, stage, ranks):
    divided = DIVIDED[stage]
    return (16 - divided + divided / ranks) * parameters / 1e9


def by_search(parameters, stage, memory_gb, activations_gb):
    for ranks in range(1, 100_000):
        if holds(parameters, stage, ranks) + activations_gb <= memory_gb + 1e-9:
            return ranks
    return None


def by_integers(parameters, stage, memory_gb, activations_gb):
    divided = int(DIVIDED[stage] * parameters)
    room = round((memory_gb - activations_gb) * 1e9 - (16 - DIVIDED[stage]) * parameters)
    if room < 0 or (room == 0 and divided):
        return None
    return max(1, -(-divided // room)) if room else 1


def ceiling(parameters, stage, memory_gb, activations_gb, least=1):
    divided = DIVIDED[stage]
    room = memory_gb - activations_gb - (16 - divided) * parameters / 1e9
    if room < 0 or (divided and room == 0):
        return None
    return max(least, math.ceil(divided * parameters / 1e9 / room)) if divided else 1


def rounded(parameters, stage, memory_gb, activations_gb):
    room = memory_gb - activations_gb - (16 - DIVIDED[stage]) * parameters / 1e9
    return round(DIVIDED[stage] * parameters / 1e9 / room)


def at_least_one_rounded(parameters, stage, memory_gb, activations_gb):
    return max(1, rounded(parameters, stage, memory_gb, activations_gb))


def less_than(parameters, stage, memory_gb, activations_gb):
    for ranks in range(1, 1000):
        if holds(parameters, stage, ranks) + activations_gb < memory_gb:
            return ranks


def fraction(parameters, stage, memory_gb, activations_gb):
    room = memory_gb - activations_gb - (16 - DIVIDED[stage]) * parameters / 1e9
    return max(1, DIVIDED[stage] * parameters / 1e9 / room)


def states_only(parameters, stage, memory_gb, activations_gb):
    return ceiling(parameters, stage, memory_gb, 0)


def added_room(parameters, stage, memory_gb, activations_gb):
    return ceiling(parameters, stage, memory_gb + activations_gb, 0)


def shared_activations(parameters, stage, memory_gb, activations_gb):
    return math.ceil((16 * parameters / 1e9 + activations_gb) / memory_gb)


def everything_divided(parameters, stage, memory_gb, activations_gb):
    return ceiling(parameters, 3, memory_gb, activations_gb)


def stage_two(parameters, stage, memory_gb, activations_gb):
    return ceiling(parameters, 2 if stage == 1 else stage, memory_gb, activations_gb)


def powers_of_two(parameters, stage, memory_gb, activations_gb):
    for k in range(12):
        if holds(parameters, stage, 2**k) + activations_gb <= memory_gb:
            return 2**k


def copies(parameters, stage, memory_gb, activations_gb):
    if stage == 0:
        return math.ceil((16 * parameters / 1e9 + activations_gb) / memory_gb)
    return ceiling(parameters, stage, memory_gb, activations_gb)


def gives_up(parameters, stage, memory_gb, activations_gb):
    if 16 * parameters / 1e9 + activations_gb > memory_gb:
        return None
    return 1


def searches_on(parameters, stage, memory_gb, activations_gb):
    ranks = 1
    while holds(parameters, stage, ranks) + activations_gb > memory_gb:
        ranks += 1
    return ranks


def loops_at_once(parameters, stage, memory_gb, activations_gb):
    ranks = 1
    while True:
        ranks += 1


def divides_by_no_room(parameters, stage, memory_gb, activations_gb):
    if stage == 0:
        return ceiling(parameters, stage, memory_gb, activations_gb)
    room = memory_gb - activations_gb - (16 - DIVIDED[stage]) * parameters / 1e9
    return max(1, math.ceil(DIVIDED[stage] * parameters / 1e9 / room)) if room >= 0 else None


def no_number(parameters, stage, memory_gb, activations_gb):
    found = ceiling(parameters, stage, memory_gb, activations_gb)
    return float("inf") if found is None else found


def zero_for_none(parameters, stage, memory_gb, activations_gb):
    return ceiling(parameters, stage, memory_gb, activations_gb) or 0


def one_for_none(parameters, stage, memory_gb, activations_gb):
    return ceiling(parameters, stage, memory_gb, activations_gb) or 1


def always_one(parameters, stage, memory_gb, activations_gb):
    return 1


def by_eights(parameters, stage, memory_gb, activations_gb):
    found = ceiling(parameters, stage, memory_gb, activations_gb)
    return found and 8 * math.ceil(found / 8)


WRONG = [
    ("training_days", "teraflop", tera_forgotten),
    ("training_days", "gigaflop", giga),
    ("training_days", "forward_only", forward_only),
    ("training_days", "backward_only", backward_only),
    ("training_days", "one_each", one_flop_each),
    ("training_days", "sixteen", bytes_for_flop),
    ("training_days", "hours", hours),
    ("training_days", "minutes", minutes),
    ("training_days", "seconds", seconds),
    ("training_days", "upside_down", runs_a_day),
    ("training_days", "percent", mfu_as_percent),
    ("training_days", "one_gpu", one_gpu),
    ("training_days", "more_is_slower", gpus_above),
    ("training_days", "gpus_twice", gpus_twice),
    ("training_days", "no_mfu", no_mfu),
    ("training_days", "mfu_helps", mfu_above),
    ("training_days", "mfu_twice", mfu_twice),
    ("training_days", "whole_days", floored),
    ("training_days", "factor", recomputed),
    ("training_days", "none", printed),
    ("training_days", "raised", divides_by_zero),
    ("states_gb", "one_number", total_only),
    ("states_gb", "kinds", three_kinds),
    ("states_gb", "unit_bytes", in_bytes),
    ("states_gb", "unit_gib", in_gib),
    ("states_gb", "unit_bits", in_bits),
    ("states_gb", "unit_mega", in_megabytes),
    ("states_gb", "fp32_weights", fp32_weights),
    ("states_gb", "fp32_gradients", fp32_gradients),
    ("states_gb", "no_gradients", no_gradients),
    ("states_gb", "no_copy", no_copy),
    ("states_gb", "half_copy", half_copy),
    ("states_gb", "one_moment", one_moment),
    ("states_gb", "copy_twice", copy_twice),
    ("states_gb", "sgd_as_adam", sgd_as_adam),
    ("states_gb", "no_momentum", no_momentum),
    ("states_gb", "plain_state", plain_state),
    ("states_gb", "copy_of_fp32", copy_of_fp32),
    ("states_gb", "fp32_as_16", fp32_as_16),
    ("states_gb", "fp32_gradient_as_16", fp32_gradient_as_16),
    ("states_gb", "bytes", one_byte),
    ("states_gb", "raised", only_adam),
    ("states_gb", "loops", never_ends),
    ("mfu", "percent", in_percent),
    ("mfu", "teraflop", tera_lost),
    ("mfu", "no_peak", flop_a_second),
    ("mfu", "achieved", teraflop_a_second),
    ("mfu", "forward_only", forward_share),
    ("mfu", "no_seconds", without_seconds),
    ("mfu", "times_seconds", times_seconds),
    ("mfu", "upside_down", inverse),
    ("mfu", "recomputed", hardware),
    ("mfu", "tokens_of_one", tokens_of_one),
    ("mfu", "peak_of_one", peak_of_one),
    ("mfu", "ranks_upside_down", ranks_upside_down),
    ("mfu", "factor", seven),
    ("smallest_world", "nobody", rounded),
    ("smallest_world", "does_not_touch", less_than),
    ("smallest_world", "rounded_down", at_least_one_rounded),
    ("smallest_world", "part_of_a_gpu", fraction),
    ("smallest_world", "no_activations", states_only),
    ("smallest_world", "activations_help", added_room),
    ("smallest_world", "activations_divided", shared_activations),
    ("smallest_world", "all_divided", everything_divided),
    ("smallest_world", "stage_2", stage_two),
    ("smallest_world", "power_of_two", powers_of_two),
    ("smallest_world", "copies", copies),
    ("smallest_world", "gave_up", gives_up),
    ("smallest_world", "no_room_raised", divides_by_no_room),
    ("smallest_world", "searches_on", searches_on),
    ("smallest_world", "loops", loops_at_once),
    ("smallest_world", "below_one", zero_for_none),
    ("smallest_world", "never", one_for_none),
    ("smallest_world", "too_few", always_one),
    ("smallest_world", "too_many", by_eights),
]

# The same mistakes in other words.
ALSO_WRONG = [
    ("training_days", "more_is_slower", precedence),
    ("training_days", "whole_days", rounded_up),
    ("training_days", "factor", negative),
    ("training_days", "factor", endless),
    ("training_days", "kind", no_days),
    ("training_days", "kind", in_words),
    ("training_days", "kind", a_pair),
    ("states_gb", "kinds", own_names),
    ("states_gb", "none", none_for_nothing),
    ("mfu", "recomputed", always_eight),
    ("mfu", "none", nothing),
    ("smallest_world", "below_one", no_number),
]

RIGHT = [
    ("training_days", in_one_line),
    ("training_days", by_petaflop_days),
    ("training_days", as_a_tensor),
    ("states_gb", by_branches),
    ("states_gb", in_any_order),
    ("mfu", for_one_rank),
    ("mfu", by_ideal_time),
    ("smallest_world", by_search),
    ("smallest_world", by_integers),
]

LADDER = (
    "training_days",
    "def training_days(parameters, tokens, gpus, teraflops, mfu):\n"
    "    return 2 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / 86400",
    "def training_days(parameters, tokens, gpus, teraflops, mfu):\n"
    "    seconds = 2 * parameters * tokens / gpus / teraflops / 1e12 / mfu\n"
    "    return seconds / 3600 / 24",
)
