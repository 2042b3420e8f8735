"""More answers to `to_fp8`, for the tests alone."""

import math

import torch

from ..exercises.fp8 import FP8, to_fp8


def a_scale_each(x):
    scale = 448 / x.abs().clamp(min=1e-30)
    return (x * scale).to(FP8), scale


def in_place(x):
    stored, scale = to_fp8(x)
    x.mul_(scale)
    return stored, scale


def with_a_floor(x):
    scale = torch.tensor(448.0) / x.abs().amax().clamp(min=1e-12)
    return (x * scale).to(FP8), scale


def by_finfo(x):
    largest = torch.finfo(FP8).max
    top = max(-x.min().item(), x.max().item())
    scale = largest / top if top > 0 else 1
    return [torch.clamp(x.double() * scale, -largest, largest).to(FP8), scale]


ALSO_WRONG = [
    ("not_fp8", lambda x: (x * to_fp8(x)[1], to_fp8(x)[1])),
    ("not_fp8", lambda x: (x.to(torch.float8_e5m2), 1.0)),
    ("not_fp8", lambda x: ([1.0], 1.0)),
    ("many_scales", a_scale_each),
    ("changed", in_place),
    ("kind", lambda x: to_fp8(x)[0]),
    ("kind", lambda x: (x.to(FP8), "much")),
    ("none", lambda x: print(end="")),
    ("no_scale", lambda x: (x.to(FP8), math.nan)),
]
ALSO_RIGHT = [with_a_floor, by_finfo]
