"""Answers to lesson 05's `checkpoint` that its check must refuse, and others to accept.

Each wrong answer stands under the key of the sentence that it must get.
"""

import torch
from torch.utils.checkpoint import checkpoint as torchs


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


@with_backward
def sets_the_gradients(block, dice, x, gradient):
    x = x.detach().requires_grad_()
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.set_rng_state(dice)
        y = block(x)
    first, *rest = torch.autograd.grad(y, [x, *block.parameters()], gradient)
    for p, grad in zip(block.parameters(), rest, strict=True):
        p.grad = grad
    return first


WRONG = [
    ("checkpoint", "overwritten", sets_the_gradients),
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
]

ALSO_WRONG = [
    ("checkpoint", "nothing_saved", plain),
]

RIGHT = [
    ("checkpoint", of_torch),
    ("checkpoint", of_torch_reentrant),
    ("checkpoint", with_autograd_grad),
]


def spelled(how):
    """A whole cell of the exercise with this recomputation, as it would be pasted."""
    return f"""def checkpoint(block, x):
    dice = torch.get_rng_state()

    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return block(x)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            x = x.detach().requires_grad_()
{how}
            return x.grad

    return Recompute.apply(x)
"""


LADDER = (
    "checkpoint",
    spelled("            block(x).backward(gradient)"),
    spelled("            y = block(x)\n            y.backward(gradient)"),
)
