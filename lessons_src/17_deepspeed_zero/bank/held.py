"""Answers to exercises 1 to 3 of lesson 17 that its checks must refuse, and others to accept."""

from fractions import Fraction
from statistics import mean, median

FACTORS = ["precision", "optimizer", "stage"]

# --- 17.1 held ------------------------------------------------------------------------------


def parts(weights, gradients, moments, fp32_copy):
    return {
        "weights": weights, "gradients": gradients, "moments": moments, "fp32_copy": fp32_copy,
    }  # fmt: skip


def the_papers_rule(parameters, ranks, stage, sixteen_bit):
    each, share = 2 if sixteen_bit else 4, parameters / ranks
    weights = each * (share if stage >= 3 else parameters)
    gradients = each * (share if stage >= 2 else parameters)
    return parts(weights, gradients, 8 * share, 4 * share if sixteen_bit else 0)


def whole_copy(parameters, ranks, stage, sixteen_bit):
    return {**right(parameters, ranks, stage, sixteen_bit), "fp32_copy": 4 * parameters}


def weights_at_stage_2(parameters, ranks, stage, sixteen_bit):
    each, share = 2 if sixteen_bit else 4, parameters / ranks
    weights = each * (share if stage >= 2 else parameters)
    gradients = each * (share if stage >= 3 else parameters)
    return parts(weights, gradients, 8 * share, 4 * share)


def weights_too_at_stage_2(parameters, ranks, stage, sixteen_bit):
    each, share = 2 if sixteen_bit else 4, parameters / ranks
    weights = each * (share if stage >= 2 else parameters)
    return {**right(parameters, ranks, stage, sixteen_bit), "weights": weights}


def both_by_one_eighth(parameters, ranks, stage, sixteen_bit):
    found = right(parameters, ranks, stage, sixteen_bit)
    if stage == 2:
        found |= {"weights": found["weights"] / 8, "gradients": found["gradients"] / 8}
    return found


def digits(parameters, ranks, stage, sixteen_bit):
    return {k: f"{v:.0f}" for k, v in right(parameters, ranks, stage, sixteen_bit).items()}


def gradients_at_stage_1(parameters, ranks, stage, sixteen_bit):
    each, share = 2 if sixteen_bit else 4, parameters / ranks
    return parts(each * (share if stage == 3 else parameters), each * share, 8 * share, 4 * share)


def everything_from_1_on(parameters, ranks, stage, sixteen_bit):
    each, share = 2 if sixteen_bit else 4, parameters / ranks
    return parts(each * share, each * share, 8 * share, 4 * share)


def moments_of_all(parameters, ranks, stage, sixteen_bit):
    return {**right(parameters, ranks, stage, sixteen_bit), "moments": 8 * parameters}


def moments_in_16_bits(parameters, ranks, stage, sixteen_bit):
    each = 2 if sixteen_bit else 4
    return {
        **right(parameters, ranks, stage, sixteen_bit),
        "moments": 2 * each * parameters / ranks,
    }


def one_moment(parameters, ranks, stage, sixteen_bit):
    return {**right(parameters, ranks, stage, sixteen_bit), "moments": 4 * parameters / ranks}


def forgets_16_bits(parameters, ranks, stage, sixteen_bit):
    return right(parameters, ranks, stage, False)


def shards_no_gradients(parameters, ranks, stage, sixteen_bit):
    gradients = (2 if sixteen_bit else 4) * parameters
    return {**right(parameters, ranks, stage, sixteen_bit), "gradients": gradients}


def elements(parameters, ranks, stage, sixteen_bit):
    return {k: v / 4 for k, v in right(parameters, ranks, stage, sixteen_bit).items()}


def by_the_ledgers_names(parameters, ranks, stage, sixteen_bit):
    found = right(parameters, ranks, stage, sixteen_bit)
    return {"parameters": found.pop("weights"), **found}


def lists_of_bytes(parameters, ranks, stage, sixteen_bit):
    return {k: [v] for k, v in right(parameters, ranks, stage, sixteen_bit).items()}


def total(parameters, ranks, stage, sixteen_bit):
    return sum(right(parameters, ranks, stage, sixteen_bit).values())


def nothing(parameters, ranks, stage, sixteen_bit):
    right(parameters, ranks, stage, sixteen_bit)


# Right.
def right(parameters, ranks, stage, sixteen_bit):
    each, share = 2 if sixteen_bit else 4, parameters / ranks
    weights = each * (share if stage == 3 else parameters)
    gradients = each * (share if stage > 1 else parameters)
    return parts(weights, gradients, 8 * share, 4 * share)


def by_a_table(parameters, ranks, stage, sixteen_bit):
    bytes_each = {"weights": 4, "gradients": 4, "moments": 8, "fp32_copy": 4}
    if sixteen_bit:
        bytes_each |= {"weights": 2, "gradients": 2}
    from_stage = {"weights": 3, "gradients": 2, "moments": 1, "fp32_copy": 1}
    return {
        kind: Fraction(size * parameters, ranks if stage >= from_stage[kind] else 1)
        for kind, size in bytes_each.items()
    }


# --- 17.2 gains -----------------------------------------------------------------------------


def changed(run, runs):
    return [factor for factor in FACTORS if run[factor] != runs[0][factor]]


def seconds(runs, *factors):
    return [run["seconds"] for run in runs if changed(run, runs) == list(factors)]


def compared(runs, ratio, typical=median):
    return {
        factor: ratio(typical(seconds(runs)), typical(seconds(runs, factor)))
        for factor in FACTORS
        if seconds(runs, factor)
    }


def upside_down(runs):
    return compared(runs, lambda before, after: after / before)


def seconds_saved(runs):
    return compared(runs, lambda before, after: before - after)


def share_saved(runs):
    return compared(runs, lambda before, after: 1 - after / before)


def by_means(runs):
    return compared(runs, lambda before, after: before / after, mean)


def by_the_fastest(runs):
    return compared(runs, lambda before, after: before / after, min)


def by_the_first(runs):
    return compared(runs, lambda before, after: before / after, lambda values: values[0])


def by_the_last(runs):
    last = {}
    for run in runs:
        last[tuple(changed(run, runs))] = run["seconds"]
    return {f: last[()] / last[(f,)] for f in FACTORS if (f,) in last}


def any_run_with_it(runs):
    found = {}
    for factor in FACTORS:
        after = [run["seconds"] for run in runs if factor in changed(run, runs)]
        if after:
            found[factor] = median(seconds(runs)) / median(after)
    return found


def the_first_run_with_it(runs):
    found = {}
    for run in runs:
        for factor in changed(run, runs):
            found.setdefault(factor, runs[0]["seconds"] / run["seconds"])
    return found


def no_gain_if_unknown(runs):
    found = compared(runs, lambda before, after: before / after)
    return {factor: found.get(factor, 1.0) for factor in FACTORS}


def only_the_first_factor(runs):
    found = compared(runs, lambda before, after: before / after)
    return {"precision": found["precision"]}


def leaves_one_out(runs):
    found = compared(runs, lambda before, after: before / after)
    everything = seconds(runs, *FACTORS)
    for factor in FACTORS:
        rest = seconds(runs, *(f for f in FACTORS if f != factor))
        if everything and rest:
            found[factor] = median(rest) / median(everything)
    return found


def sorts_the_table(runs):
    found = compared(runs, lambda before, after: before / after)
    runs.sort(key=lambda run: run["seconds"])
    return found


def named_by_value(runs):
    found = compared(runs, lambda before, after: before / after)
    return {"bf16" if factor == "precision" else factor: gain for factor, gain in found.items()}


def words(runs):
    found = compared(runs, lambda before, after: before / after)
    return {factor: f"{gain:.1f}×" for factor, gain in found.items()}


def digits_of_gains(runs):
    found = compared(runs, lambda before, after: before / after)
    return {factor: str(gain) for factor, gain in found.items()}


def a_list(runs):
    return list(compared(runs, lambda before, after: before / after).values())


# Right.
def by_groups(runs):
    groups = {}
    for run in runs:
        groups.setdefault(frozenset(changed(run, runs)), []).append(run["seconds"])
    before = median(groups[frozenset()])
    return {
        next(iter(key)): before / median(values) for key, values in groups.items() if len(key) == 1
    }


def by_numpy(runs):
    import numpy

    return compared(runs, lambda before, after: before / after, numpy.median)


# --- 17.3 batch_fields ----------------------------------------------------------------------


def filled(world_size, train, micro, accumulation):
    if train is None and micro is None:
        raise ValueError("give train or micro, not only accumulation.")
    if accumulation is None and (train is None or micro is None):
        accumulation = 1
    if train is None:
        train = micro * accumulation * world_size
    micro = train // (accumulation * world_size) if micro is None else micro
    accumulation = train // (micro * world_size) if accumulation is None else accumulation
    return train, micro, accumulation


def fits(world_size, train, micro, accumulation):
    return micro * accumulation * world_size == train > 0


def refuse_unless_it_fits(world_size, fields):
    if not fits(world_size, *fields):
        raise ValueError(f"{fields} do not fit {world_size} ranks.")
    return fields


def ignores_ranks(world_size, train=None, micro=None, accumulation=None):
    return refuse_unless_it_fits(1, filled(1, train, micro, accumulation))


def trusts_three(world_size, train=None, micro=None, accumulation=None):
    fields = filled(world_size, train, micro, accumulation)
    if None not in (train, micro, accumulation):
        return fields
    return refuse_unless_it_fits(world_size, fields)


def drops_the_rest(world_size, train=None, micro=None, accumulation=None):
    fields = filled(world_size, train, micro, accumulation)
    if None in (train, micro, accumulation):
        return fields
    return refuse_unless_it_fits(world_size, fields)


def rounds_up_from_zero(world_size, train=None, micro=None, accumulation=None):
    fields = filled(world_size, train, micro, accumulation)
    if 0 in fields:
        return fields
    return refuse_unless_it_fits(world_size, fields)


def mends_the_batch(world_size, train=None, micro=None, accumulation=None):
    _, micro, accumulation = filled(world_size, train, micro, accumulation)
    return micro * accumulation * world_size, micro, accumulation


def another_micro_batch(world_size, train=None, micro=None, accumulation=None):
    if train is not None and micro is not None and accumulation is None:
        return train, train // world_size, 1
    return right_fields(world_size, train, micro, accumulation)


def folk_tale(world_size, train=None, micro=None, accumulation=None):
    fields = refuse_unless_it_fits(world_size, filled(world_size, train, micro, accumulation))
    if fields[1] % fields[2]:
        raise ValueError(f"micro_batches: {fields[2]} is not divisible by {fields[1]}.")
    return fields


def forgets_ranks_in_the_proof(world_size, train=None, micro=None, accumulation=None):
    fields = filled(world_size, train, micro, accumulation)
    if None not in (train, micro, accumulation):
        return refuse_unless_it_fits(1, fields)
    return refuse_unless_it_fits(world_size, fields)


def wants_two(world_size, train=None, micro=None, accumulation=None):
    if (train, micro, accumulation).count(None) > 1:
        raise ValueError("give two of the three.")
    return refuse_unless_it_fits(world_size, filled(world_size, train, micro, accumulation))


def leaves_a_gap(world_size, train=None, micro=None, accumulation=None):
    fields = refuse_unless_it_fits(world_size, filled(world_size, train, micro, accumulation))
    return (train, *fields[1:])


def true_division(world_size, train=None, micro=None, accumulation=None):
    train, micro, accumulation = right_fields(world_size, train, micro, accumulation)
    return train, micro, train / micro / world_size


def a_dict(world_size, train=None, micro=None, accumulation=None):
    return dict(zip("abc", right_fields(world_size, train, micro, accumulation), strict=True))


def backwards(world_size, train=None, micro=None, accumulation=None):
    return right_fields(world_size, train, micro, accumulation)[::-1]


def none_for_a_refusal(world_size, train=None, micro=None, accumulation=None):
    try:
        return right_fields(world_size, train, micro, accumulation)
    except ValueError:
        return None


def wordless(world_size, train=None, micro=None, accumulation=None):
    try:
        return right_fields(world_size, train, micro, accumulation)
    except ValueError:
        raise ValueError from None


def asserts(world_size, train=None, micro=None, accumulation=None):
    fields = filled(world_size, train, micro, accumulation)
    assert fits(world_size, *fields), fields
    return fields


def something_from_nothing(world_size, train=None, micro=None, accumulation=None):
    if train is None and micro is None:
        return accumulation * world_size, 1, accumulation
    return right_fields(world_size, train, micro, accumulation)


# Right.
def right_fields(world_size, train=None, micro=None, accumulation=None):
    return refuse_unless_it_fits(world_size, filled(world_size, train, micro, accumulation))


def by_search(world_size, train=None, micro=None, accumulation=None):
    if train is None and micro is None:
        raise ValueError("accumulation alone says nothing.")
    if accumulation is None and None in (train, micro):
        accumulation = 1
    top = train or micro * accumulation * world_size
    for m in [micro] if micro else range(1, top + 1):
        for a in [accumulation] if accumulation else range(1, top + 1):
            if m * a * world_size == top:
                return [top, m, a]
    raise ValueError(f"nothing fits {train}, {micro}, {accumulation} on {world_size} ranks.")


WRONG = [
    ("held", "no_copy", the_papers_rule),
    ("held", "copy_whole", whole_copy),
    ("held", "weights_at_2", weights_at_stage_2),
    ("held", "weights_sharded_at_2", weights_too_at_stage_2),
    ("held", "gradients_at_1", gradients_at_stage_1),
    ("held", "all_at_1", everything_from_1_on),
    ("held", "moments_whole", moments_of_all),
    ("held", "half_moments", moments_in_16_bits),
    ("held", "one_moment", one_moment),
    ("held", "still_fp32", forgets_16_bits),
    ("held", "not_sharded", shards_no_gradients),
    ("held", "elements", elements),
    ("held", "keys", by_the_ledgers_names),
    ("held", "no_number", lists_of_bytes),
    ("gains", "upside_down", upside_down),
    ("gains", "difference", seconds_saved),
    ("gains", "saved_share", share_saved),
    ("gains", "mean", by_means),
    ("gains", "fastest", by_the_fastest),
    ("gains", "first_only", by_the_first),
    ("gains", "last_only", by_the_last),
    ("gains", "mixed", any_run_with_it),
    ("gains", "invented", no_gain_if_unknown),
    ("gains", "lost", only_the_first_factor),
    ("gains", "from_the_end", leaves_one_out),
    ("gains", "mutates", sorts_the_table),
    ("gains", "strange_key", named_by_value),
    ("gains", "no_number", words),
    ("batch_fields", "without_ranks", ignores_ranks),
    ("batch_fields", "unchecked", trusts_three),
    ("batch_fields", "floors", drops_the_rest),
    ("batch_fields", "zero", rounds_up_from_zero),
    ("batch_fields", "mends", mends_the_batch),
    ("batch_fields", "changes_given", another_micro_batch),
    ("batch_fields", "refuses", folk_tale),
    ("batch_fields", "refuses_agreement", forgets_ranks_in_the_proof),
    ("batch_fields", "wants_more", wants_two),
    ("batch_fields", "gap", leaves_a_gap),
    ("batch_fields", "floats", true_division),
    ("batch_fields", "kind", a_dict),
    ("batch_fields", "order", backwards),
    ("batch_fields", "returns_none", none_for_a_refusal),
    ("batch_fields", "silent", wordless),
    ("batch_fields", "assertion", asserts),
    ("batch_fields", "from_nothing", something_from_nothing),
]

ALSO_WRONG = [
    ("held", "unrecognised", both_by_one_eighth),
    ("held", "no_number", digits),
    ("gains", "mixed", the_first_run_with_it),
    ("gains", "kind", a_list),
    ("gains", "no_number", digits_of_gains),
    ("held", "kind", total),
    ("held", "none", nothing),
]

RIGHT = [
    ("held", right),
    ("held", by_a_table),
    ("gains", by_groups),
    ("gains", by_numpy),
    ("batch_fields", right_fields),
    ("batch_fields", by_search),
]

FIELDS = """\
def batch_fields(world_size, train=None, micro=None, accumulation=None):
    accumulation = accumulation or {one}
    micro = micro or train // accumulation
    return micro * accumulation, micro, accumulation"""
LADDER = ("batch_fields", FIELDS.format(one="1"), FIELDS.format(one="int(1)"))
