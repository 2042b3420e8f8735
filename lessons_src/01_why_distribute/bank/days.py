"""More answers to `training_days`, for the tests alone."""

import math

from ..exercises.days import training_days


def in_one_line(parameters, tokens, gpus, teraflops, mfu):
    return 6 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / 86_400


def by_petaflop_days(parameters, tokens, gpus, teraflops, mfu):
    petaflop_days = 6 * parameters * tokens / 1e15 / 86_400
    return petaflop_days / (gpus * teraflops / 1000) / mfu


def as_a_tensor(parameters, tokens, gpus, teraflops, mfu):
    import torch

    work = torch.tensor(6.0 * parameters * tokens, dtype=torch.float64)
    return work / (gpus * teraflops * 1e12 * mfu * 24 * 3600)


ALSO_WRONG = [
    ("more_is_slower", lambda Ψ, d, gpus, peak, mfu: 6 * Ψ * d / peak / 1e12 * gpus / mfu / 86_400),
    ("whole_days", lambda *run: math.ceil(training_days(*run))),
    ("factor", lambda *run: training_days(*run) * 8 / 6),
    ("factor", lambda *run: -1),
    ("factor", lambda *run: float("inf")),
    ("none", lambda *run: print(training_days(*run))),
    ("raised", lambda Ψ, d, gpus, peak, mfu: 6 * Ψ * d / (gpus // 2)),
    ("kind", lambda *run: float("nan")),
    ("kind", lambda *run: f"{training_days(*run)} days"),
    ("kind", lambda *run: [training_days(*run), 1.0]),
]
ALSO_RIGHT = [in_one_line, by_petaflop_days, as_a_tensor]
LADDER = (
    "def training_days(parameters, tokens, gpus, teraflops, mfu):\n"
    "    return 2 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / 86400",
    "def training_days(parameters, tokens, gpus, teraflops, mfu):\n"
    "    seconds = 2 * parameters * tokens / gpus / teraflops / 1e12 / mfu\n"
    "    return seconds / 3600 / 24",
)
