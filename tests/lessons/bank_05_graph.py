"""Answers to lesson 05's exercises on graphs that its checks must refuse, and others to accept.

Each wrong answer stands under the key of the sentence that it must get.
"""

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint as torchs

# --- 5.2 checkpoint -------------------------------------------------------------------------


def with_backward(backward, forward=None):
    """A checkpoint whose backward is `backward(block, dice, x, gradient)`."""

    def checkpoint(block, x):
        dice = torch.get_rng_state()

        class Recompute(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return block(x)

            @staticmethod
            def backward(ctx, gradient):
                (saved,) = ctx.saved_tensors
                return backward(block, dice, saved, gradient)

        return Recompute.apply(x)

    checkpoint.__name__ = backward.__name__
    return checkpoint


def again(block, dice, x, gradient):
    """The recomputation as it should be: the input with its gradient."""
    x = x.detach().requires_grad_()
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.set_rng_state(dice)
        block(x).backward(gradient)
    return x


@with_backward
def without_grad_mode(block, dice, x, gradient):
    x = x.detach().requires_grad_()
    y = block(x)
    y.backward(gradient)
    return x.grad


@with_backward
def no_incoming_gradient(block, dice, x, gradient):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = block(x)
    y.backward()
    return x.grad


@with_backward
def sum_of_the_output(block, dice, x, gradient):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = block(x).sum()
    y.backward()
    return x.grad


@with_backward
def nothing_for_the_input(block, dice, x, gradient):
    again(block, dice, x, gradient)


@with_backward
def hands_the_gradient_on(block, dice, x, gradient):
    again(block, dice, x, gradient)
    return gradient


@with_backward
def only_the_input_s_gradient(block, dice, x, gradient):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = block(x)
    return torch.autograd.grad(y, x, gradient)[0]


@with_backward
def not_detached(block, dice, x, gradient):
    with torch.enable_grad():
        y = block(x)
    (by_x,) = torch.autograd.grad(y, x, gradient, retain_graph=True)
    y.backward(gradient)
    return by_x


@with_backward
def not_detached_and_the_graph_retained(block, dice, x, gradient):
    with torch.enable_grad():
        y = block(x)
    (by_x,) = torch.autograd.grad(y, x, gradient, retain_graph=True)
    y.backward(gradient, retain_graph=True)
    return by_x


@with_backward
def backward_twice(block, dice, x, gradient):
    again(block, dice, x, gradient)
    return again(block, dice, x, gradient).grad


@with_backward
def new_dice(block, dice, x, gradient):
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        y = block(x)
    y.backward(gradient)
    return x.grad


@with_backward
def old_dice_for_all_that_follows(block, dice, x, gradient):
    x = x.detach().requires_grad_()
    torch.set_rng_state(dice)
    with torch.enable_grad():
        y = block(x)
    y.backward(gradient)
    return x.grad


def keeps_the_graph(block, x):
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x.detach().requires_grad_()
            with torch.enable_grad():
                ctx.y = block(ctx.x)
            return ctx.y.detach()

        @staticmethod
        def backward(ctx, gradient):
            ctx.y.backward(gradient)
            return ctx.x.grad

    return Keep.apply(x)


def plain(block, x):
    return block(x)


def under_no_grad(block, x):
    with torch.no_grad():
        return block(x)


def keeps_the_output_too(block, x):
    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = block(x)
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, gradient):
            return again(block, torch.get_rng_state(), ctx.saved_tensors[0], gradient).grad

    dice = torch.get_rng_state()

    class WithDice(Recompute):
        @staticmethod
        def backward(ctx, gradient):
            return again(block, dice, ctx.saved_tensors[0], gradient).grad

    return WithDice.apply(x)


def eval_mode(block, x):
    block.eval()
    return torchs(block, x, use_reentrant=False)


@with_backward
def looks_first(block, dice, x, gradient):
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        assert block(x).shape == gradient.shape
    return again(block, dice, x, gradient).grad


@with_backward
def half_of_it(block, dice, x, gradient):
    return again(block, dice, x, 0.5 * gradient).grad


def residual(block, x):
    return torchs(lambda x: x + block(x), x, use_reentrant=False)


def gives_a_tuple(block, x):
    return torchs(block, x, use_reentrant=False), x


def of_torch(block, x):
    return torchs(block, x, use_reentrant=False)


def of_torch_reentrant(block, x):
    return torchs(block, x, use_reentrant=True)


@with_backward
def with_autograd_grad(block, dice, x, gradient):
    x = x.detach().requires_grad_()
    before = torch.get_rng_state()
    torch.set_rng_state(dice)
    with torch.enable_grad():
        y = block(x)
    torch.set_rng_state(before)
    owned = list(block.parameters())
    first, *rest = torch.autograd.grad(y, [x, *owned], gradient)
    for p, grad in zip(owned, rest, strict=True):
        p.grad = grad if p.grad is None else p.grad + grad
    return first


# --- 5.3 chunked_loss -----------------------------------------------------------------------


def chunks(hidden, weight, labels, chunk, reduction):
    def one(rows, targets):
        return F.cross_entropy(rows @ weight.T, targets, reduction=reduction)

    pairs = zip(hidden.split(chunk), labels.split(chunk), strict=True)
    return [torchs(one, rows, targets, use_reentrant=False) for rows, targets in pairs]


def mean_of_the_chunks_means(hidden, weight, labels, chunk):
    return torch.stack(chunks(hidden, weight, labels, chunk, "mean")).mean()


def nanmean_of_the_chunks_means(hidden, weight, labels, chunk):
    return torch.stack(chunks(hidden, weight, labels, chunk, "mean")).nanmean()


def means_weighed_by_rows(hidden, weight, labels, chunk):
    means = chunks(hidden, weight, labels, chunk, "mean")
    sizes = [len(part) for part in labels.split(chunk)]
    return sum(m * n for m, n in zip(means, sizes, strict=True)) / len(labels)


def means_weighed_by_counts(hidden, weight, labels, chunk):
    means = chunks(hidden, weight, labels, chunk, "mean")
    counts = [(part != -100).sum() for part in labels.split(chunk)]
    return sum(m * n for m, n in zip(means, counts, strict=True)) / sum(counts)


def sum_alone(hidden, weight, labels, chunk):
    return sum(chunks(hidden, weight, labels, chunk, "sum"))


def over_all_positions(hidden, weight, labels, chunk):
    return sum(chunks(hidden, weight, labels, chunk, "sum")) / len(labels)


def over_the_chunks(hidden, weight, labels, chunk):
    parts = chunks(hidden, weight, labels, chunk, "sum")
    return sum(parts) / len(parts)


def adds_means(hidden, weight, labels, chunk):
    return sum(chunks(hidden, weight, labels, chunk, "mean"))


def full_chunks_only(hidden, weight, labels, chunk):
    total = hidden.sum() * 0
    for k in range(len(labels) // chunk):
        part = slice(k * chunk, (k + 1) * chunk)
        total = total + sum(chunks(hidden[part], weight, labels[part], chunk, "sum"))
    return total / (labels != -100).sum()


def overwrites(hidden, weight, labels, chunk):
    for part in chunks(hidden, weight, labels, chunk, "mean"):
        total = part
    return total


def item(hidden, weight, labels, chunk):
    total = sum(part.item() for part in chunks(hidden, weight, labels, chunk, "sum"))
    return total / int((labels != -100).sum())


def without_a_graph(hidden, weight, labels, chunk):
    with torch.no_grad():
        return sum(chunks(hidden, weight, labels, chunk, "sum")) / (labels != -100).sum()


def frozen_weight(hidden, weight, labels, chunk):
    return sum(chunks(hidden, weight.detach(), labels, chunk, "sum")) / (labels != -100).sum()


def not_recomputed(hidden, weight, labels, chunk):
    total = hidden.sum() * 0
    for rows, targets in zip(hidden.split(chunk), labels.split(chunk), strict=True):
        total = total + F.cross_entropy(rows @ weight.T, targets, reduction="sum")
    return total / (labels != -100).sum()


def logits_first(hidden, weight, labels, chunk):
    logits = hidden @ weight.T
    total = hidden.sum() * 0
    for rows, targets in zip(logits.split(chunk), labels.split(chunk), strict=True):
        total = total + F.cross_entropy(rows, targets, reduction="sum")
    return total / (labels != -100).sum()


def one_loss_a_position(hidden, weight, labels, chunk):
    return torch.cat(chunks(hidden, weight, labels, chunk, "none"))


def backward_inside(hidden, weight, labels, chunk):
    loss = sum(chunks(hidden, weight, labels, chunk, "sum")) / (labels != -100).sum()
    loss.backward(retain_graph=True)
    return loss


def in_bits(hidden, weight, labels, chunk):
    total = sum(chunks(hidden, weight, labels, chunk, "sum"))
    return total / (labels != -100).sum() / torch.log(torch.tensor(2.0))


def weighed_means(hidden, weight, labels, chunk):
    counts = [(part != -100).sum() for part in labels.split(chunk)]
    parts = chunks(hidden, weight, labels, chunk, "sum")
    means = [p / n.clamp(min=1) for p, n in zip(parts, counts, strict=True)]
    return sum(m * n for m, n in zip(means, counts, strict=True)) / sum(counts)


class Eager(torch.autograd.Function):
    """Gradients are computed in forward already, chunk by chunk, as fused kernels do."""

    @staticmethod
    def forward(ctx, hidden, weight, labels, chunk):
        total, count = hidden.new_zeros(()), (labels != -100).sum()
        by_hidden, by_weight = torch.zeros_like(hidden), torch.zeros_like(weight)
        for start in range(0, len(labels), chunk):
            part = slice(start, start + chunk)
            logits, kept = hidden[part] @ weight.T, labels[part] != -100
            targets = labels[part].where(kept, torch.tensor(0))
            log = logits.log_softmax(1)
            total -= (log.gather(1, targets[:, None]).flatten() * kept).sum()
            gradient = (log.exp() - F.one_hot(targets, len(weight))) * kept[:, None] / count
            by_hidden[part], by_weight = gradient @ weight, by_weight + gradient.T @ hidden[part]
        ctx.save_for_backward(by_hidden, by_weight)
        return total / count

    @staticmethod
    def backward(ctx, gradient):
        by_hidden, by_weight = ctx.saved_tensors
        return gradient * by_hidden, gradient * by_weight, None, None


def gradients_in_forward(hidden, weight, labels, chunk):
    return Eager.apply(hidden, weight, labels, chunk)


WRONG = [
    ("checkpoint", "no_graph", without_grad_mode),
    ("checkpoint", "no_start", no_incoming_gradient),
    ("checkpoint", "start_ignored", sum_of_the_output),
    ("checkpoint", "no_input", nothing_for_the_input),
    ("checkpoint", "passed_on", hands_the_gradient_on),
    ("checkpoint", "no_parameters", only_the_input_s_gradient),
    ("checkpoint", "second_time", not_detached),
    ("checkpoint", "input_twice", not_detached_and_the_graph_retained),
    ("checkpoint", "parameters_twice", backward_twice),
    ("checkpoint", "dice", new_dice),
    ("checkpoint", "dice_after", old_dice_for_all_that_follows),
    ("checkpoint", "nothing_saved", keeps_the_graph),
    ("checkpoint", "cut", under_no_grad),
    ("checkpoint", "more_than_input", keeps_the_output_too),
    ("checkpoint", "forward_dice", eval_mode),
    ("checkpoint", "calls", looks_first),
    ("checkpoint", "gradients", half_of_it),
    ("checkpoint", "output", residual),
    ("checkpoint", "no_tensor", gives_a_tuple),
    ("chunked_loss", "mean_of_means", mean_of_the_chunks_means),
    ("chunked_loss", "by_rows", means_weighed_by_rows),
    ("chunked_loss", "nan", means_weighed_by_counts),
    ("chunked_loss", "sum", sum_alone),
    ("chunked_loss", "all_positions", over_all_positions),
    ("chunked_loss", "by_chunks", over_the_chunks),
    ("chunked_loss", "sum_of_means", adds_means),
    ("chunked_loss", "last_missing", full_chunks_only),
    ("chunked_loss", "only_last", overwrites),
    ("chunked_loss", "no_tensor", item),
    ("chunked_loss", "detached", without_a_graph),
    ("chunked_loss", "no_gradient", frozen_weight),
    ("chunked_loss", "keeps_all", not_recomputed),
    ("chunked_loss", "whole_logits", logits_first),
    ("chunked_loss", "many", one_loss_a_position),
    ("chunked_loss", "gradient", backward_inside),
    ("chunked_loss", "value_off", in_bits),
]

ALSO_WRONG = [
    ("checkpoint", "nothing_saved", plain),
    ("chunked_loss", "mean_of_means", nanmean_of_the_chunks_means),
]

RIGHT = [
    ("checkpoint", of_torch),
    ("checkpoint", of_torch_reentrant),
    ("checkpoint", with_autograd_grad),
    ("chunked_loss", weighed_means),
    ("chunked_loss", gradients_in_forward),
]
