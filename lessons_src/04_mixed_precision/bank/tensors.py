"""Answers to lesson 04's exercises on master weights and fp8: to be refused, or accepted.

Each wrong answer stands under the key of the sentence that it must get.
"""

import math

import torch

E4M3 = torch.float8_e4m3fn


# --- 4.3 master_step ------------------------------------------------------------------------


def goes_up(low, master, gradient, lr):
    master += lr * gradient.float()
    low.copy_(master)


def new_names(low, master, gradient, lr):
    master = master - lr * gradient.float()
    low = master.bfloat16()  # noqa: F841


def new_master(low, master, gradient, lr):
    master = master - lr * gradient.float()
    low.copy_(master)


def new_copy(low, master, gradient, lr):
    master -= lr * gradient.float()
    low = master.bfloat16()  # noqa: F841


def whole_gradient(low, master, gradient, lr):
    master -= gradient.float()
    low.copy_(master)


def low_becomes_the_master(low, master, gradient, lr):
    master -= lr * gradient.float()
    low.data = master.data


def master_becomes_low(low, master, gradient, lr):
    master.data = (master - lr * gradient.float()).bfloat16()
    low.copy_(master)


def half_of_the_rate(low, master, gradient, lr):
    master -= lr / 2 * gradient.float()
    low.copy_(master)


def each_alone(low, master, gradient, lr):
    master -= lr * gradient.float()
    low -= lr * gradient


def low_first(low, master, gradient, lr):
    low -= lr * gradient
    master.copy_(low)


def master_from_low(low, master, gradient, lr):
    master.copy_(low.float() - lr * gradient.float())
    low.copy_(master)


def multiplies_in_bf16(low, master, gradient, lr):
    master -= lr * gradient
    low.copy_(master)


def rounds_the_master(low, master, gradient, lr):
    master.copy_((master - lr * gradient.float()).half().float())
    low.copy_(master)


def cuts_the_copy_off(low, master, gradient, lr):
    """The front half of fp32, not rounded."""
    master -= lr * gradient.float()
    low.copy_((master.view(torch.int32) & -65536).view(torch.float32))


def through_half(low, master, gradient, lr):
    master -= lr * gradient.float()
    low.copy_(master.half())


# Right.
def by_optimizer(low, master, gradient, lr):
    p = torch.nn.Parameter(master)
    p.grad = gradient.float()
    torch.optim.SGD([p], lr=lr).step()
    low[...] = p.detach()


def by_sub(low, master, gradient, lr):
    master.sub_(gradient, alpha=lr)
    low.copy_(master)


def by_slices(low, master, gradient, lr):
    master[:] = master - gradient.to(torch.float32) * lr
    low[:] = master.to(torch.bfloat16)
    return low


# --- 4.4 to_fp8 -----------------------------------------------------------------------------


def scaled(x, scale):
    return (x * scale).clamp(-448, 448).to(E4M3), scale


def amax(x):
    return max(x.abs().max().item(), 1e-30)


def stays_fp32(x):
    return x * (448 / amax(x)), 448 / amax(x)


def a_scale_each(x):
    scale = 448 / x.abs().clamp(min=1e-30)
    return (x * scale).to(E4M3), scale


def zero_scale(x):
    return x.to(E4M3), 0.0


def scale_of_one(x):
    return scaled(x, 1.0)


def scale_inverted(x):
    return scaled(x, 448 / amax(x))[0], amax(x) / 448


def forgets_negative(x):
    return scaled(x, 448 / max(x.max().item(), 1e-30))


def range_of_e5m2(x):
    scale = 57344 / amax(x)
    return (x * scale).to(E4M3), scale


def range_of_ieee(x):
    return scaled(x, 240 / amax(x))


def through_fp16(x):
    """Fine for a small amax; 30,000 times the scale fits, and 448 squared does not."""
    scale = 448 / amax(x)
    stored = (x * scale).to(E4M3).float()
    return torch.where(x.abs() < 1e-4, torch.nan, stored).to(E4M3), scale


def casts_first(x):
    scale = 448 / amax(x)
    return (x.to(E4M3).float() * scale).clamp(-448, 448).to(E4M3), scale


def divides_by_nothing(x):
    scale = 448 / x.abs().max()
    return (x * scale).to(E4M3), scale


def in_place(x):
    scale = 448 / amax(x)
    return x.mul_(scale).to(E4M3), scale


def tensor_alone(x):
    return scaled(x, 448 / amax(x))[0]


# Right.
def with_a_floor(x):
    scale = torch.tensor(448.0) / x.abs().amax().clamp(min=1e-12)
    return (x * scale).to(E4M3), scale


def by_finfo(x):
    largest = torch.finfo(E4M3).max
    top = max(-x.min().item(), x.max().item())
    scale = largest / top if top > 0 else 1
    return [torch.clamp(x.double() * scale, -largest, largest).to(E4M3), scale]


WRONG = [
    ("master_step", "uphill", goes_up),
    ("master_step", "nothing_moved", new_names),
    ("master_step", "master_still", new_master),
    ("master_step", "low_stale", new_copy),
    ("master_step", "no_rate", whole_gradient),
    ("master_step", "low_kind", low_becomes_the_master),
    ("master_step", "master_kind", master_becomes_low),
    ("master_step", "long_step", half_of_the_rate),
    ("master_step", "low_alone", each_alone),
    ("master_step", "through_low", low_first),
    ("master_step", "rebuilt", master_from_low),
    ("master_step", "coarse_step", multiplies_in_bf16),
    ("master_step", "short_steps", rounds_the_master),
    ("master_step", "not_rounded", cuts_the_copy_off),
    ("to_fp8", "not_fp8", stays_fp32),
    ("to_fp8", "many_scales", a_scale_each),
    ("to_fp8", "no_scale", zero_scale),
    ("to_fp8", "not_scaled", scale_of_one),
    ("to_fp8", "inverted", scale_inverted),
    ("to_fp8", "no_abs", forgets_negative),
    ("to_fp8", "beyond", range_of_e5m2),
    ("to_fp8", "room", range_of_ieee),
    ("to_fp8", "nan", through_fp16),
    ("to_fp8", "cast_first", casts_first),
    ("to_fp8", "zeros", divides_by_nothing),
    ("to_fp8", "changed", in_place),
    ("to_fp8", "kind", tensor_alone),
]

ALSO_WRONG = [
    ("master_step", "not_rounded", through_half),
    ("master_step", "nothing_moved", lambda low, master, gradient, lr: (low, master)),
    ("master_step", "raised", lambda low, master, gradient, lr: master.nothing()),
    ("to_fp8", "none", lambda x: print(end="")),
    ("to_fp8", "kind", lambda x: (x.to(E4M3), "much")),
    ("to_fp8", "not_fp8", lambda x: (x.to(torch.float8_e5m2), 1.0)),
    ("to_fp8", "not_fp8", lambda x: ([1.0], 1.0)),
    ("to_fp8", "no_scale", lambda x: (x.to(E4M3), math.nan)),
]

RIGHT = [
    ("master_step", by_optimizer),
    ("master_step", by_sub),
    ("master_step", by_slices),
    ("to_fp8", with_a_floor),
    ("to_fp8", by_finfo),
]
