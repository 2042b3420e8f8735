"""More answers to `held`, for the tests alone."""

from fractions import Fraction

from ..exercises.held import held


def each(way):
    return lambda *given: {kind: way(size) for kind, size in held(*given).items()}


def by_the_ledgers_names(*given):
    found = held(*given)
    return {"parameters": found.pop("weights"), **found}


def both_by_one_eighth(parameters, ranks, stage, sixteen_bit):
    found = held(parameters, ranks, stage, sixteen_bit)
    if stage == 2:
        found |= {"weights": found["weights"] / 8, "gradients": found["gradients"] / 8}
    return found


def by_stages(parameters, ranks, stage, sixteen_bit):
    share = parameters / ranks
    size = {"weights": 4, "gradients": 4, "moments": 8, "fp32_copy": 4}
    if sixteen_bit:
        size |= {"weights": 2, "gradients": 2}
    whole = {1: ("weights", "gradients"), 2: ("weights",)}.get(stage, ())
    return {kind: size[kind] * (parameters if kind in whole else share) for kind in size}


def by_a_table(parameters, ranks, stage, sixteen_bit):
    bytes_each = {"weights": 4, "gradients": 4, "moments": 8, "fp32_copy": 4}
    if sixteen_bit:
        bytes_each |= {"weights": 2, "gradients": 2}
    from_stage = {"weights": 3, "gradients": 2, "moments": 1, "fp32_copy": 1}
    return {
        kind: Fraction(size * parameters, ranks if stage >= from_stage[kind] else 1)
        for kind, size in bytes_each.items()
    }


def gradients_of_all_ranks(parameters, ranks, stage, sixteen_bit):
    found = held(parameters, ranks, stage, sixteen_bit)
    return found | {"gradients": found["gradients"] * ranks} if stage == 1 else found


def only_moments_right(parameters, ranks, stage, sixteen_bit):
    found = held(parameters, ranks, 3, sixteen_bit)
    return found | {"fp32_copy": found["fp32_copy"] * ranks} if stage == 1 else found


ALSO_WRONG = [
    ("unrecognised", gradients_of_all_ranks),
    ("gradients_at_1", only_moments_right),
    ("keys", by_the_ledgers_names),
    ("no_number", each(lambda size: [size])),
    ("no_number", each(lambda size: f"{size:.0f}")),
    ("unrecognised", both_by_one_eighth),
    ("kind", lambda *given: sum(held(*given).values())),
    ("none", lambda *given: [].sort()),
]
ALSO_RIGHT = [by_stages, by_a_table]
