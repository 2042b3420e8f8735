"""More answers to `checkpoint`, for the tests alone."""

import torch
from torch.utils.checkpoint import checkpoint as torchs

from dtlib.learn.solutions import altered

from ..exercises.recompute import BACK, RETURN, START, checkpoint


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


def under_no_grad(block, x):
    with torch.no_grad():
        return block(x)


def calls_itself(block, x):
    return altered(checkpoint, {"y = block(x)": "y = Recompute.apply(x)"})(block, x)


def by_gradients(line):
    """Asks for all gradients at once, and stores them."""
    return altered(checkpoint, {
        BACK: "x_grad, *rest = torch.autograd.grad(y, [x, *block.parameters()], gradient)\n"
              f"            for p, grad in zip(block.parameters(), rest):\n                {line}",
        RETURN: "return x_grad",
    })  # fmt: skip


ALSO_WRONG = [
    ("no_graph", altered(checkpoint, {"torch.enable_grad(), ": ""})),
    ("no_start", altered(checkpoint, {BACK: "y.backward()"})),
    ("no_way_back", altered(checkpoint, {BACK: "pass", RETURN: "return gradient"})),
    ("no_input", altered(checkpoint, {RETURN: "return x.detach().grad"})),
    ("graph_used", altered(checkpoint, {BACK: f"{BACK}, {BACK}"})),
    ("second_time", altered(checkpoint, {
        START: "", BACK: f"by_x = torch.autograd.grad(y, x, gradient, True)[0], {BACK}",
        RETURN: "return by_x[0]"})),
    ("endless", calls_itself),
    ("overwritten", by_gradients("p.grad = grad")),
    ("gradients", altered(checkpoint, {BACK: "y.backward(0.5 * gradient)"})),
    ("nothing_saved", keeps_the_graph),
    ("forward_dice", lambda block, x: torchs(block.eval(), x, use_reentrant=False)),
    ("cut", under_no_grad),
    ("no_tensor", lambda block, x: (checkpoint(block, x), x)),
]  # fmt: skip
ALSO_RIGHT = [
    lambda block, x: torchs(block, x, use_reentrant=False),
    lambda block, x: torchs(block, x, use_reentrant=True),
    by_gradients("p.grad = grad if p.grad is None else p.grad + grad"),
]

# A whole cell of the exercise, as it would be pasted.
PASTED = """def checkpoint(block, x):
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
    PASTED.format(how="            block(x).backward(gradient)"),
    PASTED.format(how="            y = block(x)\n            y.backward(gradient)"),
)
