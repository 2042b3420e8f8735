"""Answers to lesson 05's exercises on numbers that its checks must refuse, and others to accept.

Each wrong answer stands under the key of the sentence that it must get.
"""

import math

import numpy as np
import torch

# --- 5.1 mlp_bytes --------------------------------------------------------------------------


def numbers_alone(b, s, h, activation):
    return b * s * ((10 if activation == "gelu" else 6) * h + 2)


def in_sixteen_bits(b, s, h, activation):
    return 2 * b * s * ((10 if activation == "gelu" else 6) * h + 2)


def without_statistics(b, s, h, activation):
    return 4 * b * s * (10 if activation == "gelu" else 6) * h


def mean_alone(b, s, h, activation):
    return 4 * b * s * ((10 if activation == "gelu" else 6) * h + 1)


def both_like_relu(b, s, h, activation):
    return 4 * b * s * (6 * h + 2)


def both_like_gelu(b, s, h, activation):
    return 4 * b * s * (10 * h + 2)


def inputs_of_all_layers_twice(b, s, h, activation):
    norm_keeps, norm_gives, linear_keeps = h + 2, h, h
    inner = 8 * h if activation == "gelu" else 4 * h
    return 4 * b * s * (norm_keeps + norm_gives + linear_keeps + inner)


def forgets_the_norm_s_input(b, s, h, activation):
    return 4 * b * s * (2 + h + (8 * h if activation == "gelu" else 4 * h))


def middle_is_as_narrow(b, s, h, activation):
    return 4 * b * s * (h + 2 + h + (2 * h if activation == "gelu" else h))


def only_what_is_inside(b, s, h, activation):
    return 4 * b * s * (2 + (8 * h if activation == "gelu" else 4 * h))


def relu_keeps_nothing(b, s, h, activation):
    return 4 * b * s * (h + 2 + h + (8 * h if activation == "gelu" else 0))


def weights_too(b, s, h, activation):
    kept = 4 * b * s * ((10 if activation == "gelu" else 6) * h + 2)
    return kept + 4 * 8 * h * h * b * s


def one_sequence(b, s, h, activation):
    return 4 * s * ((10 if activation == "gelu" else 6) * h + 2)


def one_position(b, s, h, activation):
    return 4 * b * ((10 if activation == "gelu" else 6) * h + 2)


def a_shape(b, s, h, activation):
    return [4, b, s, h]


def second_linear_keeps_nothing(b, s, h, activation):
    return 4 * b * s * (h + 2 + h + (4 * h if activation == "gelu" else 0))


def bits(b, s, h, activation):
    return 32 * b * s * ((10 if activation == "gelu" else 6) * h + 2)


def added_up_layer_by_layer(b, s, h, activation):
    kept = {"norm": h + 2, "up": h, "down": 4 * h}
    if activation != "relu":
        kept["gelu"] = 4 * h
    return sum(kept.values()) * b * s * 4


def measured_instead(b, s, h, activation):
    mlp = torch.nn.Sequential(
        torch.nn.LayerNorm(h),
        torch.nn.Linear(h, 4 * h),
        torch.nn.GELU() if activation == "gelu" else torch.nn.ReLU(),
        torch.nn.Linear(4 * h, h),
    )
    own = {p.untyped_storage().data_ptr() for p in mlp.parameters()}
    kept = {}

    def note(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        mlp(torch.ones(b, s, h, requires_grad=True))
    return sum(storage.nbytes() for storage in kept.values())


# --- 5.4 largest_batch ----------------------------------------------------------------------


def straight(small, large):
    (few, at_few), (many, at_many) = small, large
    each = (at_many - at_few) / (many - few)
    return each, at_few - few * each


def every_sample_pays_for_the_states(budget, small, large):
    return budget // (small[1] // small[0])


def no_states(budget, small, large):
    return int(budget // straight(small, large)[0])


def small_one_is_the_constant(budget, small, large):
    return int((budget - small[1]) // straight(small, large)[0])


def one_step_for_all(budget, small, large):
    each = large[1] - small[1]
    return (budget - (small[1] - small[0] * each)) // each


def rule_of_three(budget, small, large):
    return budget * large[0] // large[1]


def to_the_nearest(budget, small, large):
    each, states = straight(small, large)
    return max(0, round((budget - states) / each))


def always_up(budget, small, large):
    each, states = straight(small, large)
    return max(0, math.ceil((budget - states) / each))


def strictly_below(budget, small, large):
    each, states = straight(small, large)
    return max(0, math.ceil((budget - states) / each) - 1)


def with_a_fraction(budget, small, large):
    each, states = straight(small, large)
    return (budget - states) / each


def below_zero(budget, small, large):
    each, states = straight(small, large)
    return math.floor((budget - states) / each)


def never_less_than_one(budget, small, large):
    each, states = straight(small, large)
    return max(1, math.floor((budget - states) / each))


def doubles_until_full(budget, small, large):
    each, states = straight(small, large)
    b = 1
    while states + 2 * b * each <= budget:
        b *= 2
    return b if states + b * each <= budget else 0


def largest_that_was_measured(budget, small, large):
    return large[0] if large[1] <= budget else small[0]


def yes_or_no(budget, small, large):
    return large[1] <= budget


def a_tenth_less(budget, small, large):
    each, states = straight(small, large)
    return max(0, math.floor((0.9 * budget - states) / each))


def the_next_one_too(budget, small, large):
    each, states = straight(small, large)
    return max(0, math.floor((budget - states) / each)) + 2


def counts_up(budget, small, large):
    each, states = straight(small, large)
    b = 0
    while states + (b + 1) * each <= budget:
        b += 1
    return b


def whole_numbers_only(budget, small, large):
    room = (budget - small[1]) * (large[0] - small[0])
    return max(0, small[0] + room // (large[1] - small[1]))


WRONG = [
    ("mlp_bytes", "elements", numbers_alone),
    ("mlp_bytes", "sixteen_bits", in_sixteen_bits),
    ("mlp_bytes", "no_statistics", without_statistics),
    ("mlp_bytes", "one_statistic", mean_alone),
    ("mlp_bytes", "as_relu", both_like_relu),
    ("mlp_bytes", "relu_twice", both_like_gelu),
    ("mlp_bytes", "one_too_many", inputs_of_all_layers_twice),
    ("mlp_bytes", "one_too_few", forgets_the_norm_s_input),
    ("mlp_bytes", "two_too_few", only_what_is_inside),
    ("mlp_bytes", "inner_missing", relu_keeps_nothing),
    ("mlp_bytes", "weights", weights_too),
    ("mlp_bytes", "batch", one_sequence),
    ("mlp_bytes", "sequence", one_position),
    ("mlp_bytes", "no_number", a_shape),
    ("mlp_bytes", "bytes", middle_is_as_narrow),
    ("largest_batch", "states_each_time", every_sample_pays_for_the_states),
    ("largest_batch", "states_forgotten", no_states),
    ("largest_batch", "from_small", small_one_is_the_constant),
    ("largest_batch", "not_per_sample", one_step_for_all),
    ("largest_batch", "in_proportion", rule_of_three),
    ("largest_batch", "rounded_up", to_the_nearest),
    ("largest_batch", "to_spare", strictly_below),
    ("largest_batch", "not_whole", with_a_fraction),
    ("largest_batch", "negative", below_zero),
    ("largest_batch", "at_least_one", never_less_than_one),
    ("largest_batch", "no_number", yes_or_no),
    ("largest_batch", "too_large", the_next_one_too),
    ("largest_batch", "too_small", largest_that_was_measured),
]

ALSO_WRONG = [
    ("mlp_bytes", "as_relu", second_linear_keeps_nothing),
    ("mlp_bytes", "bytes", bits),
    ("largest_batch", "rounded_up", always_up),
    ("largest_batch", "too_small", doubles_until_full),
    ("largest_batch", "too_small", a_tenth_less),
]


def in_numpy(budget, small, large):
    (few, at_few), (many, at_many) = small, large
    each = np.int64(at_many - at_few) // np.int64(many - few)
    return np.maximum(0, few + (budget - at_few) // each)


RIGHT = [
    ("largest_batch", in_numpy),
    ("mlp_bytes", added_up_layer_by_layer),
    ("mlp_bytes", measured_instead),
    ("largest_batch", counts_up),
    ("largest_batch", whole_numbers_only),
]
