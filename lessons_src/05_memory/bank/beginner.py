"""What somebody answered who met lesson 05 for the first time, and nobody had foreseen.

Each wrong answer stands under the key of the sentence that it must get.
"""

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint as torchs

from .checkpoint import again, with_backward
from .loss import chunks

# --- 5.1 mlp_bytes --------------------------------------------------------------------------


def as_in_the_worked_case(b, s, h, activation):
    return 4 * b * s * 5 * h


def as_in_the_worked_case_and_gelu(b, s, h, activation):
    return 4 * b * s * (9 * h if activation == "gelu" else 5 * h)


def a_mean_for_each_number(b, s, h, activation):
    norm = h + 2 * h
    return 4 * b * s * (norm + h + (8 * h if activation == "gelu" else 4 * h))


def written_large(b, s, h, activation):
    return 4 * b * s * ((10 if activation == "GELU" else 6) * h + 2)


def a_float(b, s, h, activation):
    return 4.0 * b * s * ((10 if activation == "gelu" else 6) * h + 2)


# --- 5.2 checkpoint -------------------------------------------------------------------------


@with_backward
def like_the_square(block, dice, x, gradient):
    return block(x) * gradient


@with_backward
def the_gradient_alone(block, dice, x, gradient):
    return gradient


@with_backward
def of_another_start(block, dice, x, gradient):
    again(block, dice, x, gradient)
    return x.detach().grad


@with_backward
def zero_grad_first(block, dice, x, gradient):
    block.zero_grad()
    return again(block, dice, x, gradient).grad


@with_backward
def goes_back_twice(block, dice, x, gradient):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = block(x)
    y.backward(gradient)
    y.backward(gradient)
    return x.grad


def calls_itself(block, x):
    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return block(x)

        @staticmethod
        def backward(ctx, gradient):
            x = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                y = Recompute.apply(x)
            y.backward(gradient)
            return x.grad

    return Recompute.apply(x)


# --- 5.3 chunked_loss -----------------------------------------------------------------------


def count(labels):
    return (labels != -100).sum()


def labels_of_the_loop(hidden, weight, labels, chunk):
    total = 0
    for i in range(0, len(hidden), chunk):

        def summed(rows, weight):
            targets = labels[i : i + chunk]  # noqa: B023 (the mistake)
            return F.cross_entropy(rows @ weight.T, targets, reduction="sum")

        total = total + torchs(summed, hidden[i : i + chunk], weight, use_reentrant=False)
    return total / count(labels)


def all_of_the_loop(hidden, weight, labels, chunk):
    total = 0
    for i in range(0, len(hidden), chunk):

        def summed(hidden, weight):
            part = slice(i, i + chunk)  # noqa: B023 (the mistake)
            return F.cross_entropy(hidden[part] @ weight.T, labels[part], reduction="sum")

        total = total + torchs(summed, hidden, weight, use_reentrant=False)
    return total / count(labels)


def means_over_all(hidden, weight, labels, chunk):
    return sum(chunks(hidden, weight, labels, chunk, "mean")) / count(labels)


def one_further_each_time(hidden, weight, labels, chunk):
    pieces = (slice(i, i + chunk) for i in range(len(hidden)))
    parts = [chunks(hidden[p], weight, labels[p], chunk, "sum")[0] for p in pieces]
    return sum(parts) / count(labels)


def so_many_pieces(hidden, weight, labels, chunk):
    return sum(chunks(hidden, weight, labels, -(-len(labels) // chunk), "sum")) / count(labels)


def backward_and_let_go(hidden, weight, labels, chunk):
    loss = sum(chunks(hidden, weight, labels, chunk, "sum")) / count(labels)
    loss.backward()
    return loss


def only_above_zero(hidden, weight, labels, chunk):
    return sum(chunks(hidden, weight, labels, chunk, "sum")) / (labels > 0).sum()


def bound_in_time(hidden, weight, labels, chunk):
    total = 0
    for i in range(0, len(hidden), chunk):

        def summed(rows, weight, targets=labels[i : i + chunk]):
            return F.cross_entropy(rows @ weight.T, targets, reduction="sum")

        total = total + torchs(summed, hidden[i : i + chunk], weight, use_reentrant=False)
    return total / count(labels)


# --- 5.4 largest_batch ----------------------------------------------------------------------


def one_sample_taken_out(budget, small, large):
    each = (large[1] - small[1]) / (large[0] - small[0])
    none = small[1] - each
    return max(0, int((budget - none) // each))


def the_first_that_does_not_fit(budget, small, large):
    each = (large[1] - small[1]) / (large[0] - small[0])
    none = small[1] - small[0] * each
    b = 0
    while none + b * each <= budget:
        b += 1
    return b


def room_above_the_larger_one(budget, small, large):
    each = (large[1] - small[1]) / (large[0] - small[0])
    return max(0, int((budget - large[1]) // each))


def of_both_points(budget, small, large):
    each = (large[1] - small[1]) / (large[0] - small[0])
    none = large[1] - small[0] * each
    return max(0, int((budget - none) // each))


def never_moves_on(budget, small, large):
    b = 1
    while small[1] <= budget:
        b = max(b, small[0])
    return b


WRONG = [
    ("mlp_bytes", "worked_case", as_in_the_worked_case),
    ("mlp_bytes", "wide_statistics", a_mean_for_each_number),
    ("mlp_bytes", "capitals", written_large),
    ("checkpoint", "no_way_back", like_the_square),
    ("checkpoint", "graph_used", goes_back_twice),
    ("checkpoint", "endless", calls_itself),
    ("chunked_loss", "second_call", labels_of_the_loop),
    ("chunked_loss", "means_over_count", means_over_all),
    ("chunked_loss", "overlap", one_further_each_time),
    ("chunked_loss", "pieces", so_many_pieces),
    ("chunked_loss", "zero_skipped", only_above_zero),
    ("chunked_loss", "let_go", backward_and_let_go),
    ("largest_batch", "one_sample_off", one_sample_taken_out),
    ("largest_batch", "one_too_many", the_first_that_does_not_fit),
    ("largest_batch", "mixed_points", of_both_points),
    ("largest_batch", "loops", never_moves_on),
]

ALSO_WRONG = [
    ("mlp_bytes", "one_too_few", as_in_the_worked_case_and_gelu),
    ("checkpoint", "no_way_back", the_gradient_alone),
    ("checkpoint", "no_input", of_another_start),
    ("checkpoint", "overwritten", zero_grad_first),
    ("chunked_loss", "second_call", all_of_the_loop),
    ("largest_batch", "from_small", room_above_the_larger_one),
]

RIGHT = [
    ("mlp_bytes", a_float),
    ("chunked_loss", bound_in_time),
]
