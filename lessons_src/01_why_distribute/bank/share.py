"""Answers to lesson 01's exercises on bytes and MFU: to be refused, or accepted."""

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


def forward_taken_away(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    share = 6 * parameters * tokens_per_rank / (step_seconds * teraflops * 1e12)
    return share * 6 / 8 if recompute else share


def hardware(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    each = 8 if recompute else 6
    return each * parameters * tokens_per_rank / (step_seconds * teraflops * 1e12)


def nothing(parameters, tokens_per_rank, ranks, step_seconds, teraflops, recompute):
    flop = 6 * parameters * tokens_per_rank
    flop / (step_seconds * teraflops * 1e12)


WRONG = [
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
    ("mfu", "punished", forward_taken_away),
    ("mfu", "factor", seven),
]

# The same mistakes in other words.
ALSO_WRONG = [
    ("states_gb", "kinds", own_names),
    ("states_gb", "none", none_for_nothing),
    ("mfu", "recomputed", always_eight),
    ("mfu", "none", nothing),
]

RIGHT = [
    ("states_gb", by_branches),
    ("states_gb", in_any_order),
    ("mfu", for_one_rank),
    ("mfu", by_ideal_time),
]
