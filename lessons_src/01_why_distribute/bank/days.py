"""Answers to lesson 01's exercises on time: to be refused, or accepted."""

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
]

RIGHT = [
    ("training_days", in_one_line),
    ("training_days", by_petaflop_days),
    ("training_days", as_a_tensor),
]

LADDER = (
    "training_days",
    "def training_days(parameters, tokens, gpus, teraflops, mfu):\n"
    "    return 2 * parameters * tokens / (gpus * teraflops * 1e12 * mfu) / 86400",
    "def training_days(parameters, tokens, gpus, teraflops, mfu):\n"
    "    seconds = 2 * parameters * tokens / gpus / teraflops / 1e12 / mfu\n"
    "    return seconds / 3600 / 24",
)
