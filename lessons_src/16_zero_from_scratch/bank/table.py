"""Answers to lesson 16's exercise 4: bytes held and elements sent, as in the paper."""

# --- 16.4a held -----------------------------------------------------------------------------


def dealt(psi, n, stage, sizes, sharded=("", "o", "og", "ogp")):
    keys = {"p": "parameters", "g": "gradients", "o": "optimizer"}
    return {
        name: size * psi / (n if key in sharded[stage] else 1)
        for (key, name), size in zip(keys.items(), sizes, strict=True)
    }


def sizes_of(precision):
    return (2, 2, 12) if precision == "mixed" else (4, 4, 8)


def forgets_the_master(psi, n, stage, precision):
    return dealt(psi, n, stage, (2, 2, 8) if precision == "mixed" else (4, 4, 8))


def gradients_in_fp32(psi, n, stage, precision):
    return dealt(psi, n, stage, (2, 4, 12) if precision == "mixed" else (4, 4, 8))


def always_fp32(psi, n, stage, precision):
    return dealt(psi, n, stage, (4, 4, 8))


def always_the_paper(psi, n, stage, precision):
    return dealt(psi, n, stage, (2, 2, 12))


def copy_in_fp32(psi, n, stage, precision):
    return dealt(psi, n, stage, (2, 2, 12) if precision == "mixed" else (4, 4, 12))


def adam_alone(psi, n, stage, precision):
    return dealt(psi, n, stage, (2, 2, 4) if precision == "mixed" else (4, 4, 8))


def divides_everything(psi, n, stage, precision):
    return dealt(psi, n, stage, sizes_of(precision), ("", "ogp", "ogp", "ogp"))


def divides_nothing(psi, n, stage, precision):
    return dealt(psi, n, stage, sizes_of(precision), ("", "", "", ""))


def parameters_at_stage_2(psi, n, stage, precision):
    return dealt(psi, n, stage, sizes_of(precision), ("", "o", "op", "ogp"))


def stage_2_as_1(psi, n, stage, precision):
    return dealt(psi, n, stage, sizes_of(precision), ("", "o", "o", "ogp"))


def gradients_whole_at_stage_3(psi, n, stage, precision):
    return dealt(psi, n, stage, sizes_of(precision), ("", "o", "og", "op"))


def in_gib(psi, n, stage, precision):
    return {k: v / 2**30 for k, v in dealt(psi, n, stage, sizes_of(precision)).items()}


def in_gb(psi, n, stage, precision):
    return {k: v / 1e9 for k, v in dealt(psi, n, stage, sizes_of(precision)).items()}


def one_number(psi, n, stage, precision):
    return sum(dealt(psi, n, stage, sizes_of(precision)).values())


def other_names(psi, n, stage, precision):
    p, g, o = dealt(psi, n, stage, sizes_of(precision)).values()
    return {"weights": p, "grads": g, "adam": o}


def held_in_words(psi, n, stage, precision):
    return {k: str(v) for k, v in by_hand(psi, n, stage, precision).items()}


def copy_in_words(psi, n, stage, precision):
    found = in_four_kinds(psi, n, stage, precision)
    return {**found, "fp32_copy": str(found["fp32_copy"])}


def sent_in_words(psi, n, stage, k):
    return str(by_cases(psi, n, stage, k))


# Right.
def by_hand(psi, n, stage, precision):
    p, g, o = sizes_of(precision)
    return {
        "optimizer": o * psi / (n if stage >= 1 else 1),
        "gradients": g * psi / (n if stage >= 2 else 1),
        "parameters": p * psi / (n if stage == 3 else 1),
    }


def in_four_kinds(psi, n, stage, precision):
    p, g, copy, moments = (2, 2, 4, 8) if precision == "mixed" else (4, 4, 0, 8)
    parts = [1, 1, 1]
    for k in range(stage):
        parts[2 - k] = n
    return {
        "parameters": p * psi / parts[0],
        "gradients": g * psi / parts[1],
        "fp32_copy": copy * psi / parts[2],
        "optimizer": moments * psi / parts[2],
    }


# --- 16.4b sent -----------------------------------------------------------------------------


def going_round(psi, n, times):
    return times * psi * (n - 1) / n


def no_share(psi, n, stage, k):
    return (2, 2, k + 1, 3 * k)[stage] * psi


def one_half(psi, n, stage, k):
    return going_round(psi, n, (1, 2, k + 1, 3 * k)[stage])


def all_reduce_and_gather(psi, n, stage, k):
    return going_round(psi, n, (2, 3, 2 * k + 1, 3 * k)[stage])


def extra_gather(psi, n, stage, k):
    return going_round(psi, n, (2, 2, 2 * k + 1, 3 * k)[stage])


def gathers_once(psi, n, stage, k):
    return going_round(psi, n, (2, 2, k + 1, 2 * k)[stage])


def ddp_every_time(psi, n, stage, k):
    return going_round(psi, n, (2 * k, 2, k + 1, 3 * k)[stage])


def stage_1_every_time(psi, n, stage, k):
    return going_round(psi, n, (2, k + 1, k + 1, 3 * k)[stage])


def no_k_at_2(psi, n, stage, k):
    return going_round(psi, n, (2, 2, 2, 3 * k)[stage])


def gathers_every_time_at_2(psi, n, stage, k):
    return going_round(psi, n, (2, 2, 2 * k, 3 * k)[stage])


def no_k_at_3(psi, n, stage, k):
    return going_round(psi, n, (2, 2, k + 1, 3)[stage])


def reduces_once_at_3(psi, n, stage, k):
    return going_round(psi, n, (2, 2, k + 1, 2 * k + 1)[stage])


def in_bytes(psi, n, stage, k):
    return 4 * going_round(psi, n, (2, 2, k + 1, 3 * k)[stage])


def of_all_ranks(psi, n, stage, k):
    return n * going_round(psi, n, (2, 2, k + 1, 3 * k)[stage])


# Right.
def by_collective(psi, n, stage, k):
    once = psi - psi / n
    reductions = {0: 1, 1: 1, 2: k, 3: k}[stage]
    gathers = {0: 1, 1: 1, 2: 1, 3: 2 * k}[stage]
    return (reductions + gathers) * once


def by_cases(psi, n, stage, k):
    if stage < 2:
        return 2 * (n - 1) * psi / n
    return ((k + 1) if stage == 2 else 3 * k) * (n - 1) * psi / n


WRONG = [
    ("held", "no_master", forgets_the_master),
    ("held", "fp32_gradients", gradients_in_fp32),
    ("held", "fp32_split", always_fp32),
    ("held", "paper_in_fp32", always_the_paper),
    ("held", "copy_in_fp32", copy_in_fp32),
    ("held", "bytes_each", adam_alone),
    ("held", "all_divided", divides_everything),
    ("held", "not_divided", divides_nothing),
    ("held", "swapped", parameters_at_stage_2),
    ("held", "optimizer_alone", stage_2_as_1),
    ("held", "kind_of_bytes", gradients_whole_at_stage_3),
    ("held", "gib", in_gib),
    ("held", "gigabytes", in_gb),
    ("held", "kinds", other_names),
    ("sent", "alone", no_share),
    ("sent", "elements", one_half),
    ("sent", "three_halves", all_reduce_and_gather),
    ("sent", "extra_gather", extra_gather),
    ("sent", "gathered_once", gathers_once),
    ("sent", "ddp_each_time", ddp_every_time),
    ("sent", "stage1_each_time", stage_1_every_time),
    ("sent", "k_forgotten", no_k_at_2),
    ("sent", "gathers_each_time", gathers_every_time_at_2),
    ("sent", "stage3_once", no_k_at_3),
    ("sent", "reduces_once", reduces_once_at_3),
    ("sent", "bytes", in_bytes),
    ("sent", "all_ranks", of_all_ranks),
]

# The same mistakes in other words.
ALSO_WRONG = [
    ("held", "kinds", one_number),
    ("held", "kinds", held_in_words),
    ("held", "kinds", copy_in_words),
    ("sent", "kind", sent_in_words),
]

RIGHT = [
    ("held", by_hand),
    ("held", in_four_kinds),
    ("sent", by_collective),
    ("sent", by_cases),
]
